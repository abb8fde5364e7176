"""Every call: its rate, its record, and faults of ours."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
import trio

import supervisor.runtime
from actors.testing import settle
from supervisor import Session, Supervisor
from supervisor.mcp_server.session_tool import SessionTool, ToolContext
from supervisor.mcp_server.session_tools import SessionTools
from supervisor.mcp_server.tool_list import TOOLS
from tests.support.fake_agents import AgentRun, records
from tests.support.fake_store import FailingStore, degrade
from tests.support.tool_calls import CallingSession


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> FailingStore:
    """Return the store of `sup`."""
    frail = FailingStore()
    monkeypatch.setattr(supervisor.runtime, "MemoryStore", lambda: frail)
    return frail


# Rate -------------------------------------------------------------------------------------------


async def test_twenty_calls_a_second_are_answered(parent: CallingSession) -> None:
    answers = [await parent.answer("agents") for _ in range(21)]

    assert [one.is_error for one in answers] == [False] * 20 + [True]
    refused = answers[-1].structured
    assert (refused["code"], refused["retry"]) == ("too_many_calls", "after")
    assert (refused["limit"], refused["allowed"]) == ("calls_per_second", 20)


async def test_a_call_after_the_given_seconds_is_answered(parent: CallingSession) -> None:
    for _ in range(20):
        await parent.call("agents")
    for _ in range(5):
        refused = await parent.refusal("agents")
        await trio.sleep(refused["after_seconds"])
        await parent.call("agents")


async def test_each_session_has_its_own_rate(
    sup: Supervisor, tools: SessionTools, parent: CallingSession
) -> None:
    other = CallingSession(tools, (await sup.create("echo")).id)
    for _ in range(20):
        await parent.call("agents")

    await other.call("agents")
    await parent.refusal("agents")


# Records ----------------------------------------------------------------------------------------


async def test_each_call_is_on_record_in_the_session_of_its_caller(
    session: Session, run: AgentRun, parent: CallingSession
) -> None:
    child = await parent.call("spawn", text="secret words", agent="echo")
    await parent.refusal("spawn", text="x", agent="nobody")

    first, second = await records(session, "mcp_call")
    body = {name: value for name, value in first.body.items() if name != "request"}
    assert body == {
        "caller": session.id,
        "tool": "spawn",
        "outcome": "ok",
        "target": child["session"],
        "seconds": 0,
    }
    assert first.turn_id == run.turn.id
    assert second.body["outcome"] == "agent_unknown"
    assert "secret" not in f"{first.body} {second.body}"


async def test_calls_that_were_too_fast_are_counted_by_the_next(
    session: Session, parent: CallingSession
) -> None:
    for _ in range(23):
        await parent.answer("agents")
    await trio.sleep(1)
    await parent.call("agents")
    await parent.call("agents")

    calls = await records(session, "mcp_call")
    assert [one.body.get("refused") for one in calls] == [None] * 20 + [3, None]


async def test_a_call_is_progress_of_the_turn(session: Session, parent: CallingSession) -> None:
    for _ in range(10):
        await trio.sleep(100)
        await parent.call("agents")

    assert await records(session, "quiet") == []


async def test_a_call_of_a_session_that_stops_meanwhile_is_on_record(
    sup: Supervisor, session: Session, parent: CallingSession, nursery: trio.Nursery
) -> None:
    await parent.call("spawn", text="x", agent="child-agent")

    async def wait() -> None:
        await parent.answer("wait", seconds=50)

    nursery.start_soon(wait)
    await settle()
    await session.stop()
    await trio.sleep(60)

    calls = await records(session, "mcp_call")
    assert [one.body["tool"] for one in calls] == ["spawn", "wait"]
    assert (await session.info()).badge == "stopped"


async def test_an_archived_session_gets_no_record(session: Session, parent: CallingSession) -> None:
    await session.stop()
    await session.archive()

    await parent.call("tree")
    await settle()

    assert await records(session, "mcp_call") == []


async def test_a_child_is_stopped_while_the_store_cannot_write(
    store: FailingStore, sup: Supervisor, session: Session, parent: CallingSession
) -> None:
    child = await parent.call("spawn", text="x", agent="child-agent")
    await degrade(store, sup)

    answer = await parent.call("stop", session=child["session"])
    refused = await parent.refusal("spawn", text="y")
    await store.recover()
    await trio.sleep(10)

    assert answer["is_stopped"]
    assert (refused["code"], refused["retry"]) == ("store_degraded", "after")
    calls = await records(session, "mcp_call")
    assert sorted(one.body["tool"] for one in calls) == ["spawn", "spawn", "stop"]


# Faults -----------------------------------------------------------------------------------------


@attrs.frozen
class NoArguments:
    pass


async def fail(_: ToolContext, __: NoArguments) -> Any:  # noqa: ANN401 - never returns
    await trio.lowlevel.checkpoint()
    raise ValueError("the secret is 42")


async def test_a_fault_of_a_tool_is_an_answer_that_tells_nothing(
    sup: Supervisor, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    broken = SessionTool(
        name="broken",
        title="Broken",
        description="Fails.",
        arguments=NoArguments,
        answer=NoArguments,
        run=fail,
    )
    caller = CallingSession(SessionTools(sup, (*TOOLS, broken)), session.id)

    with caplog.at_level(logging.ERROR, logger="supervisor"):
        refused = await caller.refusal("broken")

    assert (refused["code"], refused["retry"]) == ("internal_error", "later")
    assert "42" not in f"{refused}"
    assert "tool broken failed" in caplog.text
