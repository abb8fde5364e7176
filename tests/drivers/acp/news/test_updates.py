"""What an agent says in a turn becomes output and news; see acp/news/updates.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.testing import VirtualClock
from supervisor.core import events as ev
from supervisor.core.errors import BudgetSpent, OutputTooLarge
from supervisor.core.ids import TurnId
from supervisor.core.session import Usage
from supervisor.drivers.acp.news.ending import Did
from supervisor.drivers.acp.news.updates import MAX_ODDITIES, Updates
from tests.drivers.acp.news.saying import FakeReach, call, progress, spent, text, thought, written
from tests.drivers.office import StandInOffice

TURN = TurnId("turn_1")


# Text -------------------------------------------------------------------------------------


async def test_what_the_agent_says_is_its_text(office: StandInOffice, updates: Updates) -> None:
    await updates.take(text("hello "))
    await updates.take(text("world"))

    assert office.output == [(TURN, "agent_text", "hello "), (TURN, "agent_text", "world")]


async def test_what_it_thinks_is_a_thought(office: StandInOffice, updates: Updates) -> None:
    await updates.take(thought("hm"))

    assert office.output == [(TURN, "thought", "hm")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"type": "image", "mimeType": "image/png", "data": "AAAA"}, "[image image/png 3 bytes]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": ""}, "[audio audio/wav 0 bytes]"),
        (
            {"type": "resource_link", "name": "a.txt", "uri": "file:///w/a.txt"},
            "[resource_link a.txt file:///w/a.txt]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///w/a", "text": "inside"}},
            "[resource file:///w/a]\ninside\n",
        ),
        ({"type": "hologram", "size": 3}, "[hologram]"),
        ("just text", "just text"),
        ([{"type": "text", "text": "a"}, "b", ["c"]], "ab"),
        ({"text": "no type"}, "no type"),
        ({"type": "text", "text": 42}, "42"),
        ({"type": "text", "text": "half \ud83d"}, "half \ufffd"),
    ],
)
async def test_content_that_is_not_text_is_marked(
    office: StandInOffice, updates: Updates, content: object, said: str
) -> None:
    await updates.take({"sessionUpdate": "agent_message_chunk", "content": content})

    assert written(office, "agent_text") == [said]


@pytest.mark.parametrize("content", [None, {}, {"type": "text"}, {"type": "text", "text": ""}, []])
async def test_nothing_is_written_of_a_text_with_nothing_in_it(
    office: StandInOffice, updates: Updates, content: object
) -> None:
    await updates.take({"sessionUpdate": "agent_message_chunk", "content": content})

    assert office.output == []


async def test_another_message_does_not_go_on_with_the_one_before(
    office: StandInOffice, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[bool] = []

    def write_text(*_: object, continues: bool) -> None:
        flags.append(continues)

    monkeypatch.setattr(office, "write_text", write_text)
    for message in (None, "m1", "m1", "m2", None):
        await updates.take(text("x", messageId=message))

    assert flags == [True, True, True, False, True]


async def test_a_plan_is_written(office: StandInOffice, updates: Updates) -> None:
    entries = [{"content": "look", "priority": "high", "status": "pending"}]

    await updates.take({"sessionUpdate": "plan", "entries": entries})
    await updates.take({"sessionUpdate": "plan", "entries": "none"})

    assert written(office, "plan") == [{"entries": entries}, {"entries": []}]


async def test_the_agent_is_slowed_while_the_store_is_behind(
    office: StandInOffice, updates: Updates
) -> None:
    office.fall_behind()

    with trio.move_on_after(5.0) as patience:
        await updates.take(text("x"))

    assert patience.cancelled_caught
    assert written(office, "agent_text") == ["x"]


async def test_too_much_output_is_said_to_the_driver(updates: Updates) -> None:
    with pytest.raises(OutputTooLarge):
        await updates.take(text("x" * 2_000_000))


# What it did ------------------------------------------------------------------------------


async def test_the_end_of_a_turn_tells_what_was_done_in_it(updates: Updates) -> None:
    await updates.take(thought("hm"))
    await updates.take(call(title="bash"))
    await updates.take(progress(status="completed"))
    await updates.take({"sessionUpdate": "plan", "entries": []})

    assert updates.end_turn() == Did(calls=1, thoughts=1, plans=1)
    assert updates.end_turn() == Did()


async def test_what_comes_after_the_end_of_a_turn_is_nothing(
    office: StandInOffice, updates: Updates
) -> None:
    updates.end_turn()

    for update in (text("late"), thought("late"), call(title="late"), spent(used=5)):
        await updates.take(update)

    assert (office.output, office.events) == ([], [])


# History ----------------------------------------------------------------------------------


async def test_what_is_replayed_is_no_news(office: StandInOffice) -> None:
    updates = Updates(office)

    with updates.history():
        await updates.take(text("before"))
        await updates.take(call(title="bash", status="completed"))
        await updates.take({"sessionUpdate": "current_mode_update", "currentModeId": "plan"})

    assert (office.output, office.events) == ([], [])
    assert updates.surfaced.mode == "plan"


async def test_what_was_spent_before_is_not_counted_again(office: StandInOffice) -> None:
    updates = Updates(office)
    with updates.history():
        await updates.take(spent(used=1000, cost={"amount": 2.0, "currency": "USD"}))
    updates.begin_turn(TURN)

    await updates.take(spent(used=1010, cost={"amount": 2.5, "currency": "USD"}))

    assert [event.usage for event in office.all(ev.UsageReported)] == [
        Usage(input_tokens=10, cost=0.5)
    ]


# Spending ---------------------------------------------------------------------------------


async def test_what_was_spent_since_the_last_time_is_reported(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(spent(used=100, cost={"amount": 1.0, "currency": "USD"}))
    await updates.take(spent(used=100, cost={"amount": 1.5, "currency": "USD"}))
    await updates.take(spent(used=100))

    usages = [event.usage for event in office.all(ev.UsageReported)]
    assert usages == [Usage(input_tokens=100, cost=1.0), Usage(cost=0.5)]


async def test_the_answer_to_the_prompt_adds_what_was_not_counted(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take(spent(used=40))

    updates.take_answer(
        {"usage": {"totalTokens": 100, "inputTokens": 70, "outputTokens": 30}, "stopReason": "x"}
    )

    total = sum((event.usage for event in office.all(ev.UsageReported)), Usage())
    assert total.input_tokens + total.output_tokens == 100


async def test_what_was_spent_while_the_session_had_no_room_is_reported_later(
    office: StandInOffice, updates: Updates
) -> None:
    office.fill()
    await updates.take(spent(used=1))
    await updates.take(spent(used=3))
    updates.end_turn()

    office.make_room()

    assert [event.usage.input_tokens for event in office.all(ev.UsageReported)] == [3]


async def test_a_budget_that_is_spent_is_no_reason_to_fail(
    office: StandInOffice, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(*_: object) -> None:
        raise BudgetSpent("nothing is left", hint="none")

    monkeypatch.setattr(office, "spend", spend)

    await updates.take(spent(used=1))

    assert office.events == []


# What we do not know ----------------------------------------------------------------------


async def test_an_unknown_kind_is_said_once_and_counted(
    office: StandInOffice, updates: Updates
) -> None:
    for _ in range(3):
        await updates.take({"sessionUpdate": "notice", "text": "hi"})

    [warning] = written(office, "warning")
    assert warning["text"] == "the agent sent an update of kind notice, which was ignored"
    assert warning["update"] == {"sessionUpdate": "notice", "text": "hi"}
    assert updates.oddities == {"an update of kind notice": 3}


async def test_only_so_many_unknown_kinds_are_said(office: StandInOffice, updates: Updates) -> None:
    for number in range(10 * MAX_ODDITIES):
        await updates.take({"sessionUpdate": f"kind {number}"})

    assert len(written(office, "warning")) == len(updates.oddities) == MAX_ODDITIES


async def test_what_the_user_said_is_not_written_again(
    office: StandInOffice, updates: Updates
) -> None:
    await updates.take({**text("do it"), "sessionUpdate": "user_message_chunk"})

    assert office.output == []


# Anything ---------------------------------------------------------------------------------

KINDS = [
    "agent_message_chunk",
    "agent_thought_chunk",
    "user_message_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "usage_update",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
]
FIELDS = [
    *("content", "toolCallId", "title", "kind", "status", "rawInput", "rawOutput", "locations"),
    *("entries", "used", "size", "cost", "amount", "currency", "availableCommands", "messageId"),
    *("currentModeId", "configOptions", "type", "text", "terminalId", "path", "_meta", "name"),
    *("resource", "uri", "data", "blob", "toolName", "command"),
]
any_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 10**30)
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["text", "content", "terminal", "diff", "t1", "completed", "execute", "/.."]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=6,
)
any_update: st.SearchStrategy[Any] = any_json | st.builds(
    lambda kind, fields: {**fields, "sessionUpdate": kind},
    st.sampled_from(KINDS) | any_json,
    st.dictionaries(st.sampled_from(FIELDS), any_json, max_size=5),
)


@given(st.lists(any_update, max_size=4), any_json)
@settings(max_examples=100)
def test_nothing_that_an_agent_sends_makes_it_fail(sent: list[Any], answer: object) -> None:
    office = StandInOffice(max_turn_bytes=10_000_000)
    reach = FakeReach()
    reach.running.add("t1")

    async def main() -> None:
        office.begin(TURN)
        updates = Updates(office, reach=reach)
        updates.begin_turn(TURN)
        for update in sent:
            await updates.take(update)
        updates.surfaced.absorb_answer(answer)
        updates.take_answer(answer)
        updates.end_turn()

    trio.run(main, clock=VirtualClock())

    for _, _, body in office.output:
        orjson.dumps(body)  # it can be stored
    _check_calls(office)


def _check_calls(office: StandInOffice) -> None:
    """Each call begins once, and ends at most once, after that."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for event in office.events:
        if isinstance(event, ev.CallStarted):
            assert event.call not in seen
            assert event.input is None or isinstance(event.input, Mapping)
            orjson.dumps(event.input)
            seen.add(event.call)
            open_calls.add(event.call)
        elif isinstance(event, ev.CallEnded):
            open_calls.remove(event.call)
            orjson.dumps(event.result)
        elif isinstance(event, ev.UsageReported):
            assert event.usage.cost >= 0
            assert min(event.usage.input_tokens, event.usage.output_tokens) >= 0


# How it is ----------------------------------------------------------------------------------


def state(word: str) -> dict[str, Any]:
    return {
        "sessionUpdate": "session_info_update",
        "_meta": {"codex": {"threadStatus": {"type": word}}},
    }


async def test_a_fault_that_it_reports_of_itself_is_known_at_the_end(updates: Updates) -> None:
    await updates.take(state("active"))
    await updates.take(state("systemError"))

    assert updates.end_turn() == Did(is_faulty=True)


async def test_a_fault_from_which_it_has_recovered_is_none(updates: Updates) -> None:
    await updates.take(state("systemError"))
    await updates.take(state("active"))
    await updates.take({"sessionUpdate": "session_info_update", "title": "a name"})

    assert updates.end_turn() == Did()


async def test_what_a_text_says_it_has_cost_is_spent(
    office: StandInOffice, updates: Updates
) -> None:
    usage = {"inputTokens": 10, "outputTokens": 5}
    await updates.take(text("") | {"_meta": {"usage": usage}})

    assert [event.usage for event in office.all(ev.UsageReported)] == [Usage(10, 5)]
