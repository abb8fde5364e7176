"""Records, errors and requests in the form of the protocol; no I/O.

Whatever is stored, what is sent is valid for the schema.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.acp_agent import tool_cards
from supervisor.acp_agent.client_offers import ClientOffers
from supervisor.acp_agent.notices import notice_of
from supervisor.acp_agent.own_prompts import OwnPrompts, WaitingPrompt
from supervisor.acp_agent.prompt_input import PromptInput, parse_prompt
from supervisor.acp_agent.record_updates import SessionTranslator
from supervisor.acp_agent.session_listing import iso_time
from supervisor.acp_agent.slash_commands import available_commands, our_command
from supervisor.acp_agent.text_parts import TextParts
from supervisor.acp_agent.turn_answers import answer_to_prompt, rpc_error
from supervisor.core.errors import (
    ConfigError,
    QueueFull,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.records import Delta, Record
from supervisor.json_rpc.rpc_messages import RpcError
from tests.support.acp_schema import assert_valid

SESSION, TURN, INPUT = SessionId("s_1"), TurnId("turn_1"), InputId("in_1")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
REPORTED = st.dictionaries(
    st.sampled_from(
        ["title", "kind", "status", "locations", "content", "rawInput", "rawOutput", "type", "path"]
    ),
    JSON | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["diff", "terminal", "text"])})),
)


def record(kind: Any, seq: int = 1, **body: Any) -> Record:  # noqa: ANN401 - any record
    return Record(SESSION, seq, 0.0, TURN, kind, body)


def delta(text: str, offset: int, part: str = "p1", kind: Any = "agent_text") -> Delta:  # noqa: ANN401
    return Delta(SESSION, TURN, kind, part, offset, text)


def check(update: dict[str, Any] | None) -> None:
    """Fail unless the schema has this update."""
    if update is not None:
        params = {"sessionId": "s_1", "update": update}
        assert_valid({"jsonrpc": "2.0", "method": "session/update", "params": params}, "agent")


# Text -------------------------------------------------------------------------------------


def test_a_record_tells_what_its_deltas_have_not() -> None:
    parts = TextParts()

    assert parts.add_delta(delta("he", 0)) == "he"
    assert parts.add_delta(delta("hell", 0)) == "ll"
    assert parts.close("p1", "hello") == "o"
    assert parts.close("p2", "whole") == "whole"


def test_nothing_is_told_behind_a_hole() -> None:
    parts = TextParts()
    parts.add_delta(delta("he", 0))

    assert parts.add_delta(delta("o", 4)) == ""
    assert parts.close("p1", "hello") == "llo"


@given(st.text(min_size=1), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_each_character_is_told_once(text: str, cuts: list[tuple[int, int]]) -> None:
    parts, told = TextParts(), ""

    for start, length in cuts:
        told += parts.add_delta(delta(text[start : start + length], start))
    told += parts.close("p1", text)

    assert told == text


def test_a_text_that_was_only_returned_is_told_at_the_end() -> None:
    translator = SessionTranslator()
    translator.of_record(record("turn_started", turn_id=TURN, input_id=INPUT, source="user"))

    (update,) = translator.of_record(record("turn_ended", turn_id=TURN, text="returned"))
    assert update["content"]["text"] == "returned"
    translator.of_record(record("agent_text", text="said", part="p", continues=False))
    assert translator.of_record(record("turn_ended", turn_id=TURN, text="said")) == []


def test_an_own_text_is_not_told() -> None:
    said = record("user_text", text="hello", part=INPUT)

    assert SessionTranslator().of_record(said, is_own=True) == []
    assert SessionTranslator().of_record(said)[0]["sessionUpdate"] == "user_message_chunk"


# Tool calls and plans ---------------------------------------------------------------------


@given(REPORTED | JSON, JSON, st.sampled_from(["completed", "failed", "interrupted"]))
def test_what_is_sent_of_a_call_is_valid(update: Any, result: Any, outcome: str) -> None:  # noqa: ANN401
    check(tool_cards.call_started({"call_id": "c1", "name": "ls", "input": update}))
    check(tool_cards.call_changed({"call_id": "c1", "name": "ls", "update": update}))
    check(tool_cards.call_ended({"call_id": "c1", "outcome": outcome, "result": result}))


def test_a_stored_report_becomes_an_update() -> None:
    update = tool_cards.call_changed(
        {
            "call_id": "c1",
            "update": {
                "title": "Edit",
                "kind": "edit",
                "locations": [{"path": "/a", "line": 3}],
                "content": [
                    {"type": "diff", "path": "/a", "oldText": None, "newText": "x"},
                    {"type": "terminal", "terminalId": "t1", "output": "done"},
                    {"type": "image", "mimeType": "image/png", "data": "<2 bytes>"},
                ],
            },
        }
    )

    assert update is not None
    assert update["content"][0] == {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}
    assert update["content"][1]["content"]["text"] == "done"
    assert "image/png" in update["content"][2]["content"]["text"]
    assert update["locations"] == [{"path": "/a", "line": 3}]
    check(update)


def test_a_call_that_says_nothing_new_is_no_update() -> None:
    assert tool_cards.call_changed({"call_id": "c1", "update": {}}) is None


@given(JSON)
def test_plans_are_valid(entries: Any) -> None:  # noqa: ANN401
    for update in SessionTranslator().of_record(record("plan", entries=entries)):
        check(update)


def test_the_card_of_a_child_ends_with_its_answer() -> None:
    body = {"child": "s_2", "agent": "echo", "name": None, "role": "worker", "text": "do it"}
    check(tool_cards.child_started(body))
    ended = tool_cards.child_ended(
        {**body, "outcome": "completed", "text": "done", "reason": None, "detail": None}
    )
    stopped = tool_cards.child_ended(
        {**body, "outcome": None, "text": "", "reason": "agent_crashed", "detail": "exit 1"}
    )

    assert (ended["status"], ended["content"][0]["content"]["text"]) == ("completed", "done")
    assert (stopped["status"], stopped["content"][0]["content"]["text"]) == (
        "failed",
        "agent_crashed: exit 1",
    )
    check(ended)
    check(stopped)


# Answers and errors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop_reason", "answered"),
    [("refusal", "refusal"), ("max_tokens", "max_tokens"), (None, "end_turn"), ("odd", "end_turn")],
)
def test_a_completed_turn_has_the_agents_reason(stop_reason: str | None, answered: str) -> None:
    body = {"outcome": "completed", "stop_reason": stop_reason}

    assert answer_to_prompt(body, stopping=None) == {"stopReason": answered}


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "lost"])
def test_other_outcomes_are_errors(outcome: str) -> None:
    answer = answer_to_prompt({"outcome": outcome, "error": "no"}, stopping=None)

    assert isinstance(answer, RpcError)
    assert (answer.code, answer.message) == (-32603, "no")
    assert answer.data["code"] == f"turn_{outcome}"  # type: ignore[index]
    assert answer.data["hint"]  # type: ignore[index]


def test_a_spent_cost_budget_is_an_error() -> None:
    stopping = {"cause": "budget", "detail": "2 of 1 cost used, in the budget of s_1"}
    answer = answer_to_prompt({"outcome": "interrupted"}, stopping=stopping)

    assert isinstance(answer, RpcError)
    assert answer.data["code"] == "budget_spent"  # type: ignore[index]


@pytest.mark.parametrize(
    ("error", "code", "retry"),
    [
        (SessionNotFound("gone", hint="list"), -32002, "never"),
        (QueueFull("full", hint="wait"), -32602, "later"),
        (ConfigError("wrong", hint="right"), -32602, "never"),
        (StoreDegraded("disk", hint="room"), -32603, "later"),
        (SpawnRefused("no", hint="wait", limit="max_running_turns"), -32602, "later"),
        (SpawnRefused("no", hint="raise", limit="tokens", used=2, allowed=1), -32602, "never"),
    ],
)
def test_errors_say_whether_to_try_again(error: Any, code: int, retry: str) -> None:  # noqa: ANN401
    refusal = rpc_error(error)

    assert (refusal.code, refusal.data["retry"]) == (code, retry)  # type: ignore[index]
    assert refusal.data["hint"] == error.hint  # type: ignore[index]


def test_a_held_prompt_is_answered_when_its_session_stops() -> None:
    prompts, waiting = OwnPrompts(), WaitingPrompt(PromptInput("x"))
    prompts.accept(INPUT, waiting)
    prompts.finish(record("session_stopped", reason="agent_crashed", detail=None, failure=None))

    assert waiting.has_ended
    assert prompts.unstarted() == []


def test_a_steered_prompt_ends_with_the_turn() -> None:
    prompts, waiting = OwnPrompts(), WaitingPrompt(PromptInput("x"))
    prompts.begin(record("turn_started", turn_id=TURN, input_id="in_0", source="user"))
    prompts.accept(INPUT, waiting)
    prompts.finish(record("input_settled", input_id=INPUT, outcome="steered", detail=None))
    assert not waiting.has_ended

    prompts.finish(record("turn_ended", turn_id=TURN, outcome="completed", stop_reason=None))
    assert waiting.has_ended


# Small things -----------------------------------------------------------------------------


@pytest.mark.parametrize("params", [None, 5, {}, {"clientCapabilities": []}])
def test_a_client_offers_nothing_by_default(params: object) -> None:
    assert ClientOffers.parse(params) == ClientOffers()


def test_offers_are_read() -> None:
    offered: dict[str, Any] = {"session": {"notices": {}}, "elicitation": {"form": {}}}

    assert ClientOffers.parse({"clientCapabilities": offered}) == ClientOffers(
        notices=True, forms=True
    )


def test_a_prompt_without_text_has_marks() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {"x": 1}}
    found = parse_prompt({"prompt": [image]})

    assert found.text == "[image]"
    assert found.attachments == ({"type": "image", "data": "aGk=", "mimeType": "image/png"},)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/understudy:why", "why"),
        (" /understudy:tree \n", "tree"),
        ("/understudy:why not", None),
        ("/why", None),
        ("understudy:why", None),
    ],
)
def test_only_a_whole_prompt_is_a_command(text: str, command: str | None) -> None:
    assert our_command(text) == command


def test_commands_of_the_agent_come_first() -> None:
    theirs = [{"name": "plan", "description": "Plan.", "input": {"hint": "what"}}, {"bad": 1}, 5]

    commands = available_commands(theirs)

    assert commands[0] == {"name": "plan", "description": "Plan.", "input": {"hint": "what"}}
    check({"sessionUpdate": "available_commands_update", "availableCommands": commands})


@pytest.mark.parametrize(
    ("kind", "body", "severity"),
    [
        ("stalled", {"waits_for": "tool", "detail": "build", "seconds": 300.0}, "warning"),
        ("agent_restarting", {"attempt": 1, "failure": {"detail": "exit 1"}}, "warning"),
        ("session_stopped", {"reason": "max_turns", "detail": "5 of 5"}, "warning"),
        ("session_stopped", {"reason": "agent_crashed", "detail": None}, "error"),
        ("session_stopped", {"reason": "user_cancelled", "detail": None}, None),
        ("progress_resumed", {"was": "stalled"}, "info"),
        ("progress_resumed", {"was": "quiet"}, None),
        ("warning", {"text": "odd"}, "warning"),
        ("agent_text", {"text": "hello"}, None),
    ],
)
def test_notices(kind: str, body: dict[str, Any], severity: str | None) -> None:
    found = notice_of(record(kind, **body))

    assert (None if found is None else found["severity"]) == severity
    assert found is None or found["title"]


def test_times_are_iso() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00Z"
