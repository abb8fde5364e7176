"""The tools `agents` and `spawn`: what may be spawned, what is left, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Permissions, Session, Supervisor
from supervisor.mcp_server.session_tools import SessionTools
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.tool_calls import CallingSession

# agents -----------------------------------------------------------------------------------------


async def test_agents_lists_the_installed_agents_and_marks_ones_own(
    parent: CallingSession,
) -> None:
    answer = await parent.call("agents")

    offers = {one["name"]: one for one in answer["agents"]}
    assert {"fake", "child-agent", "echo", "scripted"} <= offers.keys()
    assert [name for name, one in offers.items() if one["is_yours"]] == ["fake"]
    assert offers["fake"]["steering"] == "boundary"
    assert "steering" not in offers["echo"]  # it has not run
    assert (answer["depth"], answer["mode"]) == (0, "approve_reads")


async def test_agents_says_what_is_left(sup: Supervisor, tools: SessionTools) -> None:
    limits = Limits(max_children=2, max_descendants=9, max_spawns=7, turns=5, tokens=100, cost=2.5)
    session = await sup.create("echo", limits=limits)
    await session.prompt("one")
    await session.spawn("echo", "task")

    left = (await CallingSession(tools, session.id).call("agents"))["left"]

    assert left["children"] == 1
    assert (left["descendants"], left["levels"], left["spawns"]) == (8, 3, 6)
    assert (left["turns"], left["tokens"], left["cost"]) == (3, 100, 2.5)
    assert "wall_seconds" not in left


async def test_a_budget_of_an_ancestor_is_left_to_its_descendants(
    sup: Supervisor, tools: SessionTools
) -> None:
    top = await sup.create("echo", limits=Limits(turns=5, max_spawns=4))
    child = await top.spawn("echo", "task")
    await child.wait()

    left = (await CallingSession(tools, child.id).call("agents"))["left"]

    assert (left["turns"], left["spawns"], left["levels"]) == (4, 3, 2)


# spawn ------------------------------------------------------------------------------------------


async def test_a_child_is_spawned_with_what_was_asked_for(
    sup: Supervisor, parent: CallingSession
) -> None:
    answer = await parent.call(
        "spawn",
        text="test it",
        agent="child-agent",
        name="tess",
        role="tester",
        workspace="sub",
        limits={"tokens": 50},
        ttl_seconds=60,
        permissions={"tools": []},
        lifetime="detached",
    )

    info = await sup.session(answer["session"]).info()
    assert (info.agent, info.name, info.role, info.lifetime) == (
        "child-agent",
        "tess",
        "tester",
        "detached",
    )
    assert (info.parent, info.workspace, info.limits.tokens) == (parent.id, "/w/x/sub", 50)
    assert info.permissions.tools == frozenset()
    assert (answer["depth"], answer["name"]) == (1, "tess")
    assert answer["left"]["children"] == 4
    (accepted,) = await records(sup.session(answer["session"]), "input_accepted")
    assert (accepted.body["input_id"], accepted.body["source"]) == (answer["input"], "parent")


async def test_a_child_has_the_agent_of_its_parent_and_wakes_it(
    sup: Supervisor, parent: CallingSession
) -> None:
    answer = await parent.call("spawn", text="go on")

    row = await sup._parts.registry.row(answer["session"])
    assert (row.agent_name, row.lineage.on_end, row.lineage.role) == ("fake", "wake", "worker")


async def test_a_spawn_belongs_to_the_running_turn(
    session: Session, run: AgentRun, parent: CallingSession
) -> None:
    await parent.call("spawn", text="x")

    (started,) = await records(session, "child_started")
    assert started.turn_id == run.turn.id


async def test_nothing_is_spawned_without_a_running_turn(
    session: Session, run: AgentRun, parent: CallingSession
) -> None:
    run.finish()
    await session.wait_idle()

    refused = await parent.refusal("spawn", text="x")

    assert (refused["code"], refused["retry"]) == ("not_running", "later")
    assert await records(session, "child_started", "spawn_refused") == []


async def test_the_same_key_gives_the_same_child(parent: CallingSession) -> None:
    first = await parent.call("spawn", text="x", idempotency_key="one")
    again = await parent.call("spawn", text="x", idempotency_key="one")
    other = await parent.refusal("spawn", text="y", idempotency_key="one")

    assert first["session"] == again["session"]
    assert (other["code"], other["retry"]) == ("idempotency_conflict", "never")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"text": " "}, "input_refused"),
        ({"text": "x", "agent": "nobody"}, "agent_unknown"),
        ({"text": "x", "name": "a/b"}, "config_error"),
        ({"text": "x", "ttl_seconds": -1}, "spawn_refused"),
        ({"text": "x", "limits": {"max_depth": -1}}, "config_error"),
        ({"text": "x", "limits": {"nonsense": 1}}, "config_error"),
        ({"text": "x", "permissions": {"tools": [""]}}, "config_error"),
    ],
)
async def test_an_invalid_spawn_is_refused(
    parent: CallingSession, given: dict[str, Any], code: str
) -> None:
    assert (await parent.refusal("spawn", **given))["code"] == code


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"permissions": {"mode": "approve_all"}}, "permissions"),
        ({"permissions": {"tools": ["look", "fly"]}}, "permissions"),
        ({"workspace": "/elsewhere"}, "workspace"),
        ({"workspace": "../y"}, "workspace"),
    ],
)
async def test_a_child_never_has_more_than_its_parent(
    parent: CallingSession, given: dict[str, Any], limit: str
) -> None:
    refused = await parent.refusal("spawn", text="x", **given)

    assert (refused["code"], refused["limit"], refused["retry"]) == (
        "spawn_refused",
        limit,
        "never",
    )


async def test_a_child_never_expires_after_its_parent(
    sup: Supervisor, tools: SessionTools, session: Session, fake_agent: FakeAgent
) -> None:
    short = await session.spawn("fake", "x", ttl_seconds=60)
    await fake_agent.next_run()

    below = await CallingSession(tools, short.id).call("spawn", text="y", ttl_seconds=600)

    assert (await sup.session(below["session"]).info()).expires_at == (
        await short.info()
    ).expires_at


async def test_a_full_parent_says_its_limit_and_when_to_try_again(
    sup: Supervisor, tools: SessionTools, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", limits=Limits(max_children=1))
    await session.send("go")
    await fake_agent.next_run()
    caller = CallingSession(tools, session.id)
    await caller.call("spawn", text="x")

    refused = await caller.refusal("spawn", text="y")

    assert {name: refused[name] for name in ("code", "limit", "used", "allowed")} == {
        "code": "spawn_refused",
        "limit": "max_children",
        "used": 1,
        "allowed": 1,
    }
    assert (refused["retry"], refused["after_seconds"]) == ("after", 1)


async def test_a_refusal_does_not_name_a_session_above(
    sup: Supervisor, tools: SessionTools, session: Session, fake_agent: FakeAgent
) -> None:
    top = await sup.create("fake", limits=Limits(max_descendants=1))
    child = await top.spawn("fake", "x")
    await fake_agent.next_run()

    answer = await CallingSession(tools, child.id).answer("spawn", text="y")

    assert answer.structured["limit"] == "max_descendants"
    assert top.id not in f"{answer.structured} {answer.text}"


async def test_fifty_children_spawned_at_once_keep_the_caps(
    sup: Supervisor, tools: SessionTools, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    limits = Limits(max_children=50, max_descendants=30, max_spawns=40)
    session = await sup.create("fake", limits=limits, permissions=Permissions(mode="approve_all"))
    await session.send("go")
    await fake_agent.next_run()
    caller = CallingSession(tools, session.id)
    codes: list[str] = []

    async def spawn(number: int) -> None:
        answer = await caller.answer("spawn", text="x", agent="echo", name=f"child{number}")
        codes.append(answer.structured.get("limit", "spawned"))

    for number in range(50):
        nursery.start_soon(spawn, number)
        if number % 20 == 19:
            await trio.sleep(1)  # the rate of calls
    await trio.sleep(10)

    assert (codes.count("spawned"), codes.count("max_descendants")) == (30, 20)
    assert len((await sup.list(parent=session.id)).items) == 30
    left = (await caller.call("agents"))["left"]
    assert (left["descendants"], left["children"], left["spawns"]) == (0, 20, 10)
    await settle()
