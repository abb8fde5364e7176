"""Tool calls: begun once, ended once, whatever an agent sends; see acp/news/calls.py."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from supervisor.core import events as ev
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.news.calls import MAX_BYTES, MAX_BYTES_AGAIN, MAX_OPEN
from supervisor.drivers.acp.news.updates import Updates
from tests.drivers.acp.news.saying import FakeReach, block, call, progress, terminal, written
from tests.drivers.office import StandInOffice

TURN = TurnId("turn_1")


async def started(updates: Updates, office: StandInOffice, **fields: object) -> ev.CallStarted:
    await updates.take(call(**fields))
    return office.all(ev.CallStarted)[-1]


async def ended(updates: Updates, office: StandInOffice, **fields: object) -> ev.CallEnded:
    await updates.take(call(title="bash"))
    await updates.take(progress(**{"status": "completed", **fields}))
    [event] = office.all(ev.CallEnded)
    return event


# Beginnings -------------------------------------------------------------------------------


async def test_a_call_begins_with_its_name_and_input(
    office: StandInOffice, updates: Updates
) -> None:
    event = await started(updates, office, title="bash", rawInput={"cmd": "ls"})

    assert (event.turn, event.name, event.input) == (TURN, "bash", {"cmd": "ls"})


async def test_a_call_of_which_only_updates_come_begins_too(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(progress(status="in_progress", title="bash"))
    await updates.take(progress(status="completed"))

    assert office.kinds() == ["CallStarted", "CallEnded"]


async def test_a_call_that_is_told_twice_begins_once(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(call(title="bash"))
    await updates.take(call(title="bash"))

    assert office.kinds() == ["CallStarted"]


async def test_a_call_is_called_by_its_name_rather_than_its_title(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(call("c1", title="Run `ls`", name="Bash"))
    await updates.take(call("c2", title="Run `ls`", _meta={"vendor": {"toolName": "Bash"}}))

    assert [event.name for event in office.all(ev.CallStarted)] == ["Bash", "Bash"]


async def test_a_call_without_title_or_name_is_called_by_its_kind(
    office: StandInOffice, updates: Updates
) -> None:
    assert (await started(updates, office, kind="search")).name == "search"


async def test_a_call_that_says_nothing_of_itself_is_a_tool(
    office: StandInOffice, updates: Updates
) -> None:
    assert (await started(updates, office)).name == "tool"


async def test_a_call_without_an_id_is_no_call(office: StandInOffice, updates: Updates) -> None:
    await updates.take({"sessionUpdate": "tool_call", "title": "bash"})
    await updates.take(call("x" * 10_000))

    assert office.events == []
    assert updates.oddities == {"a tool call without an id": 2}


async def test_only_so_many_calls_are_open_at_once(office: StandInOffice, updates: Updates) -> None:
    for number in range(MAX_OPEN + 5):
        await updates.take(call(f"c{number}"))
    await updates.take(progress("c0", status="completed"))
    await updates.take(call("another"))

    assert len(office.all(ev.CallStarted)) == MAX_OPEN + 1
    assert updates.oddities == {"more tool calls than are kept track of": 5}


async def test_a_beginning_waits_for_room_in_the_session(
    office: StandInOffice, updates: Updates, nursery: trio.Nursery
) -> None:
    office.fill()
    nursery.start_soon(updates.take, call(title="bash"))
    await trio.testing.wait_all_tasks_blocked()

    office.make_room()

    assert (await office.heard(ev.CallStarted)).name == "bash"


# Whether it can be cancelled --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["execute", "search", "fetch", "other", None])
async def test_a_call_may_turn_out_to_run_in_our_terminal_whatever_it_is(
    office: StandInOffice, updates: Updates, kind: str | None
) -> None:
    assert (await started(updates, office, kind=kind)).cancellable


async def test_a_call_is_ended_when_its_terminal_turns_up_after_the_interrupt(
    office: StandInOffice,
    updates: Updates,
    reach: FakeReach,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    event = await started(updates, office, kind="search")
    nursery.start_soon(updates.interrupt_call, event.call)
    await trio.sleep(1)

    reach.running.add("t1")
    await updates.take(progress(content=[terminal("t1")]))

    assert (await office.heard(ev.CallEnded)).outcome == "interrupted"
    assert reach.cancelled == ["t1"]


async def test_a_terminal_that_turns_up_when_the_interrupt_is_over_is_left_alone(
    office: StandInOffice,
    updates: Updates,
    reach: FakeReach,
    autojump_clock: trio.testing.MockClock,
) -> None:
    event = await started(updates, office, kind="execute")
    assert not await updates.interrupt_call(event.call)
    assert trio.current_time() < office.ladder.ask_seconds

    reach.running.add("t1")
    await updates.take(progress(content=[terminal("t1")]))

    assert reach.cancelled == []
    assert office.all(ev.CallEnded) == []


async def test_a_call_that_ends_while_its_terminal_is_waited_for_is_simply_over(
    office: StandInOffice,
    updates: Updates,
    reach: FakeReach,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
) -> None:
    event = await started(updates, office, kind="execute")
    nursery.start_soon(updates.interrupt_call, event.call)
    await trio.sleep(1)
    await updates.take(progress(status="completed"))

    assert (await office.heard(ev.CallEnded)).outcome == "completed"


async def test_without_terminals_no_call_can_be_cancelled(office: StandInOffice) -> None:
    updates = Updates(office)
    updates.begin_turn(TURN)

    event = await started(updates, office, kind="execute", content=[terminal("t1")])

    assert not event.cancellable
    assert not await updates.interrupt_call(event.call)


async def test_an_interrupted_call_ends_with_its_terminal_and_nothing_else(
    office: StandInOffice, updates: Updates, reach: FakeReach
) -> None:
    reach.running |= {"t1", "t2"}
    event = await started(updates, office, kind="execute")
    await updates.take(progress(content=[terminal("t1")]))

    assert await updates.interrupt_call(event.call)

    assert reach.cancelled == ["t1"]
    [end] = office.all(ev.CallEnded)
    assert (end.call, end.outcome) == (event.call, "interrupted")


async def test_an_agent_that_notices_first_does_not_make_it_a_failure(
    office: StandInOffice, updates: Updates, reach: FakeReach, nursery: trio.Nursery
) -> None:
    reach.running.add("t1")
    event = await started(updates, office, kind="execute", content=[terminal("t1")])
    reach.on_cancel = lambda: nursery.start_soon(updates.take, progress(status="failed"))

    await updates.interrupt_call(event.call)
    await trio.testing.wait_all_tasks_blocked()

    assert [end.outcome for end in office.all(ev.CallEnded)] == ["interrupted"]


async def test_a_call_whose_terminal_is_over_is_not_interrupted(
    office: StandInOffice, updates: Updates, autojump_clock: trio.testing.MockClock
) -> None:
    event = await started(updates, office, kind="execute", content=[terminal("t1")])

    assert not await updates.interrupt_call(event.call)
    assert office.all(ev.CallEnded) == []


# How it goes ------------------------------------------------------------------------------


async def test_what_is_new_about_a_call_is_written(office: StandInOffice, updates: Updates) -> None:
    await updates.take(call(title="bash", kind="execute", status="pending"))
    await updates.take(progress(status="in_progress", locations=[{"path": "/w/a", "line": 3}]))

    updates_written = [body["update"] for body in written(office, "tool_update")]
    assert updates_written == [
        {"title": "bash", "kind": "execute", "status": "pending"},
        {"locations": [{"path": "/w/a", "line": 3}], "status": "in_progress"},
    ]


async def test_a_record_of_an_update_names_the_call(
    office: StandInOffice, updates: Updates
) -> None:
    event = await started(updates, office, title="bash")

    [body] = written(office, "tool_update")
    assert (body["call_id"], body["name"]) == (event.call, "bash")


async def test_what_is_repeated_is_not_written_again(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(call(title="bash", rawInput={"a": 1}))
    for _ in range(3):
        await updates.take(progress(title="bash", rawInput={"a": 1}, content=[block("x")]))

    assert len(written(office, "tool_update")) == 2


async def test_an_output_that_grows_is_written_short(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(call(content=[block("a" * 2 * MAX_BYTES)]))
    await updates.take(progress(content=[block("b" * 2 * MAX_BYTES)]))

    first, second = (
        body["update"]["content"][0]["text"] for body in written(office, "tool_update")
    )
    assert MAX_BYTES_AGAIN < len(first) <= MAX_BYTES + 100
    assert len(second) <= MAX_BYTES_AGAIN + 100
    assert second.endswith(f"... (cut: {2 * MAX_BYTES} bytes in all)")


async def test_a_picture_is_measured_and_not_kept(office: StandInOffice, updates: Updates) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 4000}

    await updates.take(call(content=[{"type": "content", "content": image}]))

    [body] = written(office, "tool_update")
    assert body["update"]["content"] == [
        {"type": "image", "mimeType": "image/png", "data": "<3000 bytes>"}
    ]


async def test_a_terminal_is_shown_with_its_output(
    office: StandInOffice, updates: Updates, reach: FakeReach
) -> None:
    reach.output["t1"] = {"output": "hi"}

    await updates.take(call(content=[terminal("t1")]))

    [body] = written(office, "tool_update")
    assert body["update"]["content"] == [{"type": "terminal", "terminalId": "t1", "output": "hi"}]


# Ends -------------------------------------------------------------------------------------


async def test_a_call_ends_as_its_status_says(office: StandInOffice, updates: Updates) -> None:
    assert (await ended(updates, office, status="failed")).outcome == "failed"


async def test_the_result_of_a_call_is_its_text(office: StandInOffice, updates: Updates) -> None:
    event = await ended(updates, office, content=[block("a"), block("b")])

    assert (event.outcome, event.result) == ("completed", "a\nb")


async def test_the_result_of_a_call_may_be_a_diff(office: StandInOffice, updates: Updates) -> None:
    diff = {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x"}

    assert (await ended(updates, office, content=[diff])).result == [diff]


async def test_without_content_the_raw_output_is_the_result(
    office: StandInOffice, updates: Updates
) -> None:
    assert (await ended(updates, office, rawOutput={"exit": 0})).result == {"exit": 0}


async def test_without_either_the_result_is_what_the_terminal_shows(
    office: StandInOffice, updates: Updates, reach: FakeReach
) -> None:
    reach.output["t1"] = {"output": "hi", "exitCode": 0, "signal": None}
    await updates.take(call(content=[terminal("t1")]))

    await updates.take(progress(status="completed"))

    [event] = office.all(ev.CallEnded)
    assert event.result == [{"type": "terminal", "terminalId": "t1", **reach.output["t1"]}]


async def test_what_comes_after_the_end_of_a_call_is_nothing(
    office: StandInOffice, updates: Updates
) -> None:
    await ended(updates, office)
    before = len(office.output)

    await updates.take(progress(status="failed", title="again"))
    await updates.take(call(title="again"))

    assert office.kinds() == ["CallStarted", "CallEnded"]
    assert len(office.output) == before


async def test_a_large_result_is_cut(office: StandInOffice, updates: Updates) -> None:
    event = await ended(updates, office, rawOutput="é" * MAX_BYTES)

    assert isinstance(event.result, str)
    assert event.result.endswith(f"... (cut: {2 * MAX_BYTES} bytes in all)")


# For questions ----------------------------------------------------------------------------


async def test_what_was_said_of_a_call_is_known(updates: Updates) -> None:
    await updates.take(call(title="Edit", kind="edit", locations=[{"path": "/w/a"}]))
    await updates.take(progress(rawInput={"path": "/w/b"}))

    known = updates.known("c1")
    assert (known.kind, known.paths) == ("edit", ("/w/a", "/w/b"))
    assert updates.known("nobody").kind is None
    assert updates.known(["c1"]).kind is None
