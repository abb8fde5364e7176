"""Updates of an agent become records and events; see acp/updates.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.testing import VirtualClock
from supervisor.core import agent_events
from supervisor.core.errors import BudgetSpent, OutputTooLarge
from supervisor.core.ids import TurnId
from supervisor.core.state import Usage
from supervisor.drivers.acp.turn_result import TurnActivity
from supervisor.drivers.acp.updates import MAX_UNKNOWN_UPDATES, Updates
from tests.support.acp_updates import (
    FakeTerminalAccess,
    call,
    progress,
    spent,
    text,
    thought,
    written,
)
from tests.support.driver_context import FakeDriverContext

TURN = TurnId("turn_1")


# Text -------------------------------------------------------------------------------------


async def test_a_message_chunk_is_written_as_agent_text(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(text("hello "))
    await updates.on_update(text("world"))

    assert turn_context.output == [(TURN, "agent_text", "hello "), (TURN, "agent_text", "world")]


async def test_a_thought_chunk_is_written_as_a_thought(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(thought("hm"))

    assert turn_context.output == [(TURN, "thought", "hm")]


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
async def test_content_that_is_not_text_becomes_a_placeholder(
    turn_context: FakeDriverContext, updates: Updates, content: object, said: str
) -> None:
    await updates.on_update({"sessionUpdate": "agent_message_chunk", "content": content})

    assert written(turn_context, "agent_text") == [said]


@pytest.mark.parametrize("content", [None, {}, {"type": "text"}, {"type": "text", "text": ""}, []])
async def test_an_empty_text_is_not_written(
    turn_context: FakeDriverContext, updates: Updates, content: object
) -> None:
    await updates.on_update({"sessionUpdate": "agent_message_chunk", "content": content})

    assert turn_context.output == []


async def test_a_new_message_id_starts_a_new_text(
    turn_context: FakeDriverContext, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: list[bool] = []

    def write_text(*_: object, continues: bool) -> None:
        flags.append(continues)

    monkeypatch.setattr(turn_context, "write_text", write_text)
    for message in (None, "m1", "m1", "m2", None):
        await updates.on_update(text("x", messageId=message))

    assert flags == [True, True, True, False, True]


async def test_a_plan_is_written(turn_context: FakeDriverContext, updates: Updates) -> None:
    entries = [{"content": "look", "priority": "high", "status": "pending"}]

    await updates.on_update({"sessionUpdate": "plan", "entries": entries})
    await updates.on_update({"sessionUpdate": "plan", "entries": "none"})

    assert written(turn_context, "plan") == [{"entries": entries}, {"entries": []}]


async def test_the_agent_is_slowed_while_the_store_is_behind(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    turn_context.fall_behind()

    with trio.move_on_after(5.0) as patience:
        await updates.on_update(text("x"))

    assert patience.cancelled_caught
    assert written(turn_context, "agent_text") == ["x"]


async def test_too_much_output_raises(updates: Updates) -> None:
    with pytest.raises(OutputTooLarge):
        await updates.on_update(text("x" * 2_000_000))


# Activity ---------------------------------------------------------------------------------


async def test_the_end_of_a_turn_returns_its_activity(updates: Updates) -> None:
    await updates.on_update(thought("hm"))
    await updates.on_update(call(title="bash"))
    await updates.on_update(progress(status="completed"))
    await updates.on_update({"sessionUpdate": "plan", "entries": []})

    assert updates.end_turn() == TurnActivity(calls=1, thoughts=1, plans=1)
    assert updates.end_turn() == TurnActivity()


async def test_updates_after_the_end_of_a_turn_are_ignored(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    updates.end_turn()

    for update in (text("late"), thought("late"), call(title="late"), spent(used=5)):
        await updates.on_update(update)

    assert (turn_context.output, turn_context.events) == ([], [])


# History ----------------------------------------------------------------------------------


async def test_replayed_updates_are_not_written(turn_context: FakeDriverContext) -> None:
    updates = Updates(turn_context)

    with updates.replaying_history():
        await updates.on_update(text("before"))
        await updates.on_update(call(title="bash", status="completed"))
        await updates.on_update({"sessionUpdate": "current_mode_update", "currentModeId": "plan"})

    assert (turn_context.output, turn_context.events) == ([], [])
    assert updates.status.mode == "plan"


async def test_usage_before_the_first_turn_is_not_counted(turn_context: FakeDriverContext) -> None:
    updates = Updates(turn_context)
    with updates.replaying_history():
        await updates.on_update(spent(used=1000, cost={"amount": 2.0, "currency": "USD"}))
    updates.begin_turn(TURN)

    await updates.on_update(spent(used=1010, cost={"amount": 2.5, "currency": "USD"}))

    assert [event.usage for event in turn_context.all(agent_events.UsageReported)] == [
        Usage(input_tokens=10, cost=0.5)
    ]


# Usage ------------------------------------------------------------------------------------


async def test_usage_since_the_last_report_is_reported(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(spent(used=100, cost={"amount": 1.0, "currency": "USD"}))
    await updates.on_update(spent(used=100, cost={"amount": 1.5, "currency": "USD"}))
    await updates.on_update(spent(used=100))

    usages = [event.usage for event in turn_context.all(agent_events.UsageReported)]
    assert usages == [Usage(input_tokens=100, cost=1.0), Usage(cost=0.5)]


async def test_the_prompt_result_adds_uncounted_usage(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(spent(used=40))

    updates.on_prompt_result(
        {"usage": {"totalTokens": 100, "inputTokens": 70, "outputTokens": 30}, "stopReason": "x"}
    )

    total = sum((event.usage for event in turn_context.all(agent_events.UsageReported)), Usage())
    assert total.input_tokens + total.output_tokens == 100


async def test_usage_during_a_full_mailbox_is_reported_later(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    turn_context.fill()
    await updates.on_update(spent(used=1))
    await updates.on_update(spent(used=3))
    updates.end_turn()

    turn_context.make_room()

    assert [event.usage.input_tokens for event in turn_context.all(agent_events.UsageReported)] == [
        3
    ]


async def test_an_exhausted_budget_does_not_raise(
    turn_context: FakeDriverContext, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(*_: object) -> None:
        raise BudgetSpent("nothing is left", hint="none")

    monkeypatch.setattr(turn_context, "record_usage", spend)

    await updates.on_update(spent(used=1))

    assert turn_context.events == []


# Unknown updates --------------------------------------------------------------------------


async def test_an_unknown_update_is_reported_once_and_counted(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    for _ in range(3):
        await updates.on_update({"sessionUpdate": "hologram", "text": "hi"})

    [warning] = written(turn_context, "warning")
    assert warning["text"] == "the agent sent an update of kind hologram, which was ignored"
    assert warning["update"] == {"sessionUpdate": "hologram", "text": "hi"}
    assert updates.unknown_updates == {"an update of kind hologram": 3}


async def test_reported_unknown_kinds_are_limited(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    for number in range(10 * MAX_UNKNOWN_UPDATES):
        await updates.on_update({"sessionUpdate": f"kind {number}"})

    assert (
        len(written(turn_context, "warning")) == len(updates.unknown_updates) == MAX_UNKNOWN_UPDATES
    )


async def test_echoed_user_text_is_not_written(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update({**text("do it"), "sessionUpdate": "user_message_chunk"})

    assert turn_context.output == []


# Any update -------------------------------------------------------------------------------

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
def test_no_update_of_an_agent_raises(sent: list[Any], answer: object) -> None:
    turn_context = FakeDriverContext(max_turn_bytes=10_000_000)
    terminal_access = FakeTerminalAccess()
    terminal_access.running.add("t1")

    async def main() -> None:
        turn_context.begin(TURN)
        updates = Updates(turn_context, terminal_access=terminal_access)
        updates.begin_turn(TURN)
        for update in sent:
            await updates.on_update(update)
        updates.status.with_session_result(answer)
        updates.on_prompt_result(answer)
        updates.end_turn()

    trio.run(main, clock=VirtualClock())

    for _, _, body in turn_context.output:
        orjson.dumps(body)  # it can be stored
    _check_calls(turn_context)


def _check_calls(turn_context: FakeDriverContext) -> None:
    """Assert that each call starts once, and then ends at most once."""
    open_calls: set[str] = set()
    seen: set[str] = set()
    for event in turn_context.events:
        if isinstance(event, agent_events.CallStarted):
            assert event.call not in seen
            assert event.input is None or isinstance(event.input, Mapping)
            orjson.dumps(event.input)
            seen.add(event.call)
            open_calls.add(event.call)
        elif isinstance(event, agent_events.CallEnded):
            open_calls.remove(event.call)
            orjson.dumps(event.result)
        elif isinstance(event, agent_events.UsageReported):
            assert event.usage.cost >= 0
            assert min(event.usage.input_tokens, event.usage.output_tokens) >= 0


# Reported failures --------------------------------------------------------------------------


def state(word: str) -> dict[str, Any]:
    return {
        "sessionUpdate": "session_info_update",
        "_meta": {"codex": {"threadStatus": {"type": word}}},
    }


async def test_a_failure_that_the_agent_reports_is_in_the_activity(updates: Updates) -> None:
    await updates.on_update(state("active"))
    await updates.on_update(state("systemError"))

    assert updates.end_turn() == TurnActivity(reported_failure=True)


async def test_a_failure_that_the_agent_recovers_from_is_not_in_the_activity(
    updates: Updates,
) -> None:
    await updates.on_update(state("systemError"))
    await updates.on_update(state("active"))
    await updates.on_update({"sessionUpdate": "session_info_update", "title": "a name"})

    assert updates.end_turn() == TurnActivity()


async def test_usage_in_a_text_chunk_is_counted(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    usage = {"inputTokens": 10, "outputTokens": 5}
    await updates.on_update(text("") | {"_meta": {"usage": usage}})

    assert [event.usage for event in turn_context.all(agent_events.UsageReported)] == [Usage(10, 5)]
