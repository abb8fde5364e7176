"""Interrupts of one tool call: its turn, the other calls and the queue go on."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Call, InterruptReport, Session, SupervisorError, ToolCall
from tests.support.fake_agents import AgentRun, FakeAgent, Interrupted, records, waiting_texts


async def test_a_tool_call_is_interrupted_alone(session: Session, run: AgentRun) -> None:
    one = await run.open_call("bash")
    two = await run.open_call("grep")

    report = await session.interrupt(ToolCall(one.id), reason="too slow")

    assert one.left.is_set()
    assert one.call.interrupted
    assert not two.left.is_set()
    assert not run.over.is_set()
    assert report == InterruptReport("tool_call", matched=1, stopped=1)


async def test_the_turn_continues_after_its_tool_call_was_interrupted(
    session: Session, run: AgentRun
) -> None:
    one = await run.open_call("bash")
    two = await run.open_call("grep")
    await session.interrupt(ToolCall(one.id))
    await two.close()
    run.finish("done")
    await settle()

    ended = {r.body["call_id"]: r.body["outcome"] for r in await records(session, "tool_ended")}
    (turn,) = await records(session, "turn_ended")
    assert ended == {one.id: "interrupted", two.id: "completed"}
    assert (turn.body["outcome"], turn.body["text"]) == ("completed", "done")


async def test_interrupting_a_tool_call_keeps_the_queue(session: Session, run: AgentRun) -> None:
    call = await run.open_call("bash")
    await session.send("second")

    await session.interrupt(ToolCall(call.id))

    assert await waiting_texts(session) == ["second"]
    assert (await session.info()).turn_id == run.turn.id


async def test_replacing_a_tool_call_with_text_is_refused(session: Session, run: AgentRun) -> None:
    call = await run.open_call("bash")

    with pytest.raises(SupervisorError):
        await session.interrupt(ToolCall(call.id), replace_with="instead")

    assert not call.left.is_set()


async def test_interrupting_an_ended_tool_call_reports_already_over(
    session: Session, run: AgentRun
) -> None:
    call = await run.open_call("bash")
    await call.close()
    before = await records(session)

    report = await session.interrupt(ToolCall(call.id))

    assert report == InterruptReport("tool_call", already_over=1)
    assert await records(session) == before
    assert not call.call.interrupted


async def test_interrupting_a_call_of_an_old_turn_spares_the_next_turn(
    session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    old = await run.open_call("bash")
    run.finish()
    await session.send("second")
    second = await fake_agent.next_run()
    call = await second.open_call("bash")

    report = await session.interrupt(ToolCall(old.id))

    assert report == InterruptReport("tool_call", already_over=1)
    assert not call.left.is_set()


async def test_interrupting_a_call_that_never_was_reports_unknown(
    session: Session, run: AgentRun
) -> None:
    call = await run.open_call("bash")

    for name in ("call_never", run.turn.id):
        report = await session.interrupt(ToolCall(name))

        assert report == InterruptReport("tool_call", unknown=1)
    assert not call.left.is_set()


async def test_a_tool_call_that_ignores_cancellation_is_reported_unreachable(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    opened: list[Call] = []

    async def shielded_call() -> None:
        async with shielded_run.turn.tool("bash") as call:
            opened.append(call)
            with trio.CancelScope(shield=True):
                await trio.sleep(60)

    action = shielded_run.begin(shielded_call())
    await settle()
    report = await shielded_session.interrupt(ToolCall(opened[0].id))

    assert report == InterruptReport("tool_call", matched=1, unreachable=1, seconds=5.0)
    assert not shielded_run.over.is_set()
    assert not action.done.is_set()
    asked = await records(shielded_session, "interrupted")
    assert [(one.body["call_id"], one.body["unreachable"]) for one in asked] == [
        (opened[0].id, 0),
        (opened[0].id, 1),
    ]


async def test_an_unreachable_call_is_on_record_though_the_caller_gave_up(
    shielded_session: Session, shielded_run: AgentRun
) -> None:
    opened: list[Call] = []

    async def shielded_call() -> None:
        async with shielded_run.turn.tool("bash") as call:
            opened.append(call)
            with trio.CancelScope(shield=True):
                await trio.sleep(60)

    shielded_run.begin(shielded_call())
    await settle()
    with trio.move_on_after(1.0):
        await shielded_session.interrupt(ToolCall(opened[0].id))
    await trio.sleep(5.0)

    asked = await records(shielded_session, "interrupted")
    assert [one.body["unreachable"] for one in asked] == [0, 1]


async def test_two_calls_are_interrupted_each_within_its_own_time(
    shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    opened: list[Call] = []
    reports: dict[int, InterruptReport] = {}

    async def shielded_call() -> None:
        async with shielded_run.turn.tool("bash") as call:
            opened.append(call)
            with trio.CancelScope(shield=True):
                await trio.sleep(60)

    async def interrupt(number: int) -> None:
        reports[number] = await shielded_session.interrupt(ToolCall(opened[number].id))

    for number in range(2):
        shielded_run.begin(shielded_call())
        await settle()
        nursery.start_soon(interrupt, number)
        await trio.sleep(2.0)
    await trio.sleep(10.0)

    assert [reports[number].unreachable for number in range(2)] == [1, 1]
    assert [reports[number].seconds for number in range(2)] == [5.0, 5.0]


async def test_tool_calls_nested_in_an_interrupted_call_are_closed_with_it(
    session: Session, run: AgentRun
) -> None:
    calls: list[Call] = []

    async def nested() -> None:
        async with run.turn.tool("outer") as outer, run.turn.tool("inner") as inner:
            calls.extend((outer, inner))
            await trio.sleep_forever()

    action = run.begin(nested())
    await settle()
    await session.interrupt(ToolCall(calls[0].id))
    await action.wait()
    await settle()

    ended = [(r.body["name"], r.body["outcome"]) for r in await records(session, "tool_ended")]
    assert ended == [("inner", "interrupted"), ("outer", "interrupted")]
    assert not run.over.is_set()


async def test_a_tool_call_is_part_of_the_turn_that_is_interrupted(
    session: Session, run: AgentRun
) -> None:
    async def in_a_call() -> None:
        async with run.turn.tool("bash"):
            await trio.sleep_forever()

    action = run.begin(in_a_call())
    await settle()
    await session.interrupt()

    with pytest.raises(Interrupted):
        await action.wait()
