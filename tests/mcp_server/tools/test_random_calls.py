"""Random calls: each has an answer of the declared form, and none meets a fault of ours."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from supervisor import Limits, Settings, Supervisor
from supervisor.mcp_server.session_tools import SessionTools
from supervisor.mcp_server.tool_list import TOOLS
from tests.support.fake_agents import FakeAgent
from tests.support.tool_calls import CallingSession

CALLS = 250
SEEDS = range(3)
WORDS = ("", " ", "x", "tom", "worker", "s_000000000000", "\udcff", "\0", "../..", "é" * 50, "1:2")


def random_value(  # noqa: PLR0911 - one for each kind of value
    schema: dict[str, Any], chance: random.Random, ids: list[str]
) -> Any:  # noqa: ANN401 - JSON data
    """Return a value that usually fits the schema."""
    if chance.random() < 0.03:
        return chance.choice([None, 0, -1, 2**70, 1e308, True, [], {}, "x", ["x"], {"x": 1}])
    if "anyOf" in schema:
        return random_value(chance.choice(schema["anyOf"]), chance, ids)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "string":
            return chance.choice((*WORDS, *ids))
        case "integer" | "number":
            return chance.choice([0, 1, 2, 3, 50, 1000, 0.5])
        case "boolean":
            return chance.choice([True, False])
        case "array":
            return [random_value(schema["items"], chance, ids) for _ in range(chance.randrange(3))]
        case "null":
            return None
    return {}  # an object of limits or permissions


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_calls_are_answered_or_refused(
    sup: Supervisor, tools: SessionTools, fake_agent: FakeAgent, seed: int
) -> None:
    chance = random.Random(seed)
    session = await sup.create(
        "fake", answers_for_children=True, limits=Limits(max_children=20, max_spawns=500)
    )
    await session.send("go")
    await fake_agent.next_run()
    caller = CallingSession(tools, session.id)
    foreign = await sup.create("echo")
    schemas = {tool.name: tool.describe(Settings()).input_schema for tool in TOOLS}
    codes: dict[str, set[str]] = {name: set() for name in schemas}
    for _ in range(CALLS):
        name = chance.choice(list(schemas))
        below = [row.id for row in await tools._access.subtree(session.id).descendants()]
        ids: list[str] = [session.id, foreign.id, *below[-10:]]
        given = {
            key: random_value(one, chance, ids)
            for key, one in schemas[name]["properties"].items()
            if chance.random() < 0.3 or key in schemas[name].get("required", ())
        }
        if name == "spawn":
            given["agent"] = "echo"
        if name == "ask" and "request" not in given:
            given.setdefault("question", "which?")
        answer = await caller.answer(name, **given)
        codes[name].add(answer.structured["code"] if answer.is_error else "ok")
        await trio.sleep(0.05)

    assert not [name for name, found in codes.items() if "internal_error" in found]
    # No child asks anything here, so there is nothing to answer.
    assert [name for name, found in codes.items() if "ok" not in found] == ["answer"]
    assert (await session.info()).badge in ("running", "waiting-for-you")
    assert (await foreign.info()).turns == 0
