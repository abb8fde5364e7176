"""Tool calls: each starts once and ends once; see acp/tool_calls.py."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor.core import agent_events
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.tool_calls import (
    MAX_OPEN_CALLS,
    MAX_REPLACEMENT_BYTES,
    MAX_RESULT_BYTES,
)
from supervisor.drivers.acp.updates import Updates
from tests.support.acp_updates import FakeTerminalAccess, block, call, progress, terminal, written
from tests.support.driver_context import FakeDriverContext

TURN = TurnId("turn_1")


async def started(
    updates: Updates, turn_context: FakeDriverContext, **fields: object
) -> agent_events.CallStarted:
    await updates.on_update(call(**fields))
    return turn_context.all(agent_events.CallStarted)[-1]


async def ended(
    updates: Updates, turn_context: FakeDriverContext, **fields: object
) -> agent_events.CallEnded:
    await updates.on_update(call(title="bash"))
    await updates.on_update(progress(**{"status": "completed", **fields}))
    [event] = turn_context.all(agent_events.CallEnded)
    return event


# Starts -----------------------------------------------------------------------------------


async def test_a_call_starts_with_its_name_and_input(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    event = await started(updates, turn_context, title="bash", rawInput={"cmd": "ls"})

    assert (event.turn, event.name, event.input) == (TURN, "bash", {"cmd": "ls"})


async def test_an_update_of_an_unknown_call_starts_it(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(progress(status="in_progress", title="bash"))
    await updates.on_update(progress(status="completed"))

    assert turn_context.kinds() == ["CallStarted", "CallEnded"]


async def test_a_call_reported_twice_starts_once(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call(title="bash"))
    await updates.on_update(call(title="bash"))

    assert turn_context.kinds() == ["CallStarted"]


async def test_the_name_of_a_call_goes_before_its_title(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call("c1", title="Run `ls`", name="Bash"))
    await updates.on_update(call("c2", title="Run `ls`", _meta={"vendor": {"toolName": "Bash"}}))

    assert [event.name for event in turn_context.all(agent_events.CallStarted)] == ["Bash", "Bash"]


async def test_a_call_without_title_or_name_is_named_by_its_kind(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    assert (await started(updates, turn_context, kind="search")).name == "search"


async def test_a_call_without_any_name_is_named_tool(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    assert (await started(updates, turn_context)).name == "tool"


async def test_a_call_without_an_id_is_ignored(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update({"sessionUpdate": "tool_call", "title": "bash"})
    await updates.on_update(call("x" * 10_000))

    assert turn_context.events == []
    assert updates.unknown_updates == {"a tool call without an id": 2}


async def test_open_calls_are_limited(turn_context: FakeDriverContext, updates: Updates) -> None:
    for number in range(MAX_OPEN_CALLS + 5):
        await updates.on_update(call(f"c{number}"))
    await updates.on_update(progress("c0", status="completed"))
    await updates.on_update(call("another"))

    assert len(turn_context.all(agent_events.CallStarted)) == MAX_OPEN_CALLS + 1
    assert updates.unknown_updates == {"too many tool calls": 5}


async def test_the_start_of_a_call_waits_for_a_full_mailbox(
    turn_context: FakeDriverContext, updates: Updates, nursery: trio.Nursery
) -> None:
    turn_context.fill()
    nursery.start_soon(updates.on_update, call(title="bash"))
    await trio.testing.wait_all_tasks_blocked()

    turn_context.make_room()

    assert (await turn_context.heard(agent_events.CallStarted)).name == "bash"


# Interrupts -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["execute", "search", "fetch", "other", None])
async def test_every_call_is_cancellable_while_terminals_are_offered(
    turn_context: FakeDriverContext, updates: Updates, kind: str | None
) -> None:
    assert (await started(updates, turn_context, kind=kind)).cancellable


async def test_a_call_is_interrupted_when_its_terminal_is_reported_later(
    turn_context: FakeDriverContext,
    updates: Updates,
    terminal_access: FakeTerminalAccess,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    event = await started(updates, turn_context, kind="search")
    nursery.start_soon(updates.interrupt_call, event.call)
    await trio.sleep(1)

    terminal_access.running.add("t1")
    await updates.on_update(progress(content=[terminal("t1")]))

    assert (await turn_context.heard(agent_events.CallEnded)).outcome == "interrupted"
    assert terminal_access.cancelled == ["t1"]


async def test_a_terminal_reported_after_the_interrupt_is_left_alone(
    turn_context: FakeDriverContext,
    updates: Updates,
    terminal_access: FakeTerminalAccess,
    autojump_clock: trio.testing.MockClock,
) -> None:
    event = await started(updates, turn_context, kind="execute")
    assert not await updates.interrupt_call(event.call)
    assert trio.current_time() < turn_context.ladder.ask_seconds

    terminal_access.running.add("t1")
    await updates.on_update(progress(content=[terminal("t1")]))

    assert terminal_access.cancelled == []
    assert turn_context.all(agent_events.CallEnded) == []


async def test_a_call_that_ends_during_an_interrupt_is_not_interrupted(
    turn_context: FakeDriverContext,
    updates: Updates,
    terminal_access: FakeTerminalAccess,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    event = await started(updates, turn_context, kind="execute")
    nursery.start_soon(updates.interrupt_call, event.call)
    await trio.sleep(1)
    await updates.on_update(progress(status="completed"))

    assert (await turn_context.heard(agent_events.CallEnded)).outcome == "completed"


async def test_without_terminals_no_call_can_be_cancelled(turn_context: FakeDriverContext) -> None:
    updates = Updates(turn_context)
    updates.begin_turn(TURN)

    event = await started(updates, turn_context, kind="execute", content=[terminal("t1")])

    assert not event.cancellable
    assert not await updates.interrupt_call(event.call)


async def test_an_interrupt_ends_the_call_and_its_terminal_only(
    turn_context: FakeDriverContext, updates: Updates, terminal_access: FakeTerminalAccess
) -> None:
    terminal_access.running |= {"t1", "t2"}
    event = await started(updates, turn_context, kind="execute")
    await updates.on_update(progress(content=[terminal("t1")]))

    assert await updates.interrupt_call(event.call)

    assert terminal_access.cancelled == ["t1"]
    [end] = turn_context.all(agent_events.CallEnded)
    assert (end.call, end.outcome) == (event.call, "interrupted")


async def test_an_interrupted_call_that_the_agent_reports_failed_is_interrupted(
    turn_context: FakeDriverContext,
    updates: Updates,
    terminal_access: FakeTerminalAccess,
    nursery: trio.Nursery,
) -> None:
    terminal_access.running.add("t1")
    event = await started(updates, turn_context, kind="execute", content=[terminal("t1")])
    terminal_access.on_cancel = lambda: nursery.start_soon(
        updates.on_update, progress(status="failed")
    )

    await updates.interrupt_call(event.call)
    await trio.testing.wait_all_tasks_blocked()

    assert [end.outcome for end in turn_context.all(agent_events.CallEnded)] == ["interrupted"]


async def test_a_call_with_an_ended_terminal_is_not_interrupted(
    turn_context: FakeDriverContext, updates: Updates, autojump_clock: trio.testing.MockClock
) -> None:
    event = await started(updates, turn_context, kind="execute", content=[terminal("t1")])

    assert not await updates.interrupt_call(event.call)
    assert turn_context.all(agent_events.CallEnded) == []


# Progress ---------------------------------------------------------------------------------


async def test_changed_fields_of_a_call_are_written(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call(title="bash", kind="execute", status="pending"))
    await updates.on_update(progress(status="in_progress", locations=[{"path": "/w/a", "line": 3}]))

    updates_written = [body["update"] for body in written(turn_context, "tool_update")]
    assert updates_written == [
        {"title": "bash", "kind": "execute", "status": "pending"},
        {"locations": [{"path": "/w/a", "line": 3}], "status": "in_progress"},
    ]


async def test_a_record_of_an_update_names_the_call(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    event = await started(updates, turn_context, title="bash")

    [body] = written(turn_context, "tool_update")
    assert (body["call_id"], body["name"]) == (event.call, "bash")


async def test_repeated_fields_are_not_written_again(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call(title="bash", rawInput={"a": 1}))
    for _ in range(3):
        await updates.on_update(progress(title="bash", rawInput={"a": 1}, content=[block("x")]))

    assert len(written(turn_context, "tool_update")) == 2


async def test_a_growing_output_is_written_short(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call(content=[block("a" * 2 * MAX_RESULT_BYTES)]))
    await updates.on_update(progress(content=[block("b" * 2 * MAX_RESULT_BYTES)]))

    first, second = (
        body["update"]["content"][0]["text"] for body in written(turn_context, "tool_update")
    )
    assert MAX_REPLACEMENT_BYTES < len(first) <= MAX_RESULT_BYTES + 100
    assert len(second) <= MAX_REPLACEMENT_BYTES + 100
    assert second.endswith(f"... (cut: {2 * MAX_RESULT_BYTES} bytes in all)")


async def test_an_image_is_replaced_by_its_size(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 4000}

    await updates.on_update(call(content=[{"type": "content", "content": image}]))

    [body] = written(turn_context, "tool_update")
    assert body["update"]["content"] == [
        {"type": "image", "mimeType": "image/png", "data": "<3000 bytes>"}
    ]


async def test_a_terminal_is_written_with_its_output(
    turn_context: FakeDriverContext, updates: Updates, terminal_access: FakeTerminalAccess
) -> None:
    terminal_access.output["t1"] = {"output": "hi"}

    await updates.on_update(call(content=[terminal("t1")]))

    [body] = written(turn_context, "tool_update")
    assert body["update"]["content"] == [{"type": "terminal", "terminalId": "t1", "output": "hi"}]


# Ends -------------------------------------------------------------------------------------


async def test_a_call_ends_as_its_status_says(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    assert (await ended(updates, turn_context, status="failed")).outcome == "failed"


async def test_the_result_of_a_call_is_its_text(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    event = await ended(updates, turn_context, content=[block("a"), block("b")])

    assert (event.outcome, event.result) == ("completed", "a\nb")


async def test_the_result_of_a_call_may_be_a_diff(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    diff = {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x"}

    assert (await ended(updates, turn_context, content=[diff])).result == [diff]


async def test_without_content_the_raw_output_is_the_result(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    assert (await ended(updates, turn_context, rawOutput={"exit": 0})).result == {"exit": 0}


async def test_without_content_or_output_the_result_is_the_terminal(
    turn_context: FakeDriverContext, updates: Updates, terminal_access: FakeTerminalAccess
) -> None:
    terminal_access.output["t1"] = {"output": "hi", "exitCode": 0, "signal": None}
    await updates.on_update(call(content=[terminal("t1")]))

    await updates.on_update(progress(status="completed"))

    [event] = turn_context.all(agent_events.CallEnded)
    assert event.result == [
        {"type": "terminal", "terminalId": "t1", **terminal_access.output["t1"]}
    ]


async def test_updates_after_the_end_of_a_call_are_ignored(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await ended(updates, turn_context)
    before = len(turn_context.output)

    await updates.on_update(progress(status="failed", title="again"))
    await updates.on_update(call(title="again"))

    assert turn_context.kinds() == ["CallStarted", "CallEnded"]
    assert len(turn_context.output) == before


async def test_a_large_result_is_cut(turn_context: FakeDriverContext, updates: Updates) -> None:
    event = await ended(updates, turn_context, rawOutput="é" * MAX_RESULT_BYTES)

    assert isinstance(event.result, str)
    assert event.result.endswith(f"... (cut: {2 * MAX_RESULT_BYTES} bytes in all)")


# Reports for permission requests ----------------------------------------------------------


async def test_the_report_of_a_call_is_kept(updates: Updates) -> None:
    await updates.on_update(call(title="Edit", kind="edit", locations=[{"path": "/w/a"}]))
    await updates.on_update(progress(rawInput={"path": "/w/b"}))

    known = updates.tool_report("c1")
    assert (known.kind, known.paths) == ("edit", ("/w/a", "/w/b"))
    assert updates.tool_report("nobody").kind is None
    assert updates.tool_report(["c1"]).kind is None
