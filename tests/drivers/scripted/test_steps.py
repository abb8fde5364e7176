"""The common steps over the wire, without a process and in virtual time."""

from __future__ import annotations

import pytest

from supervisor.drivers.scripted import ProcessAction
from tests.support.scripted_client import Client, prompt_line


def test_say_is_a_chunk_of_text_before_the_answer(client: Client, session: str) -> None:
    asked = client.prompt(session, "say hello, world")

    *_, chunk, answer = client.heard
    assert chunk["params"] == {
        "sessionId": session,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hello, world"},
        },
    }
    assert (answer["id"], answer["result"]) == (asked, {"stopReason": "end_turn"})


def test_say_without_text_sends_nothing(client: Client, session: str) -> None:
    client.result_of(client.prompt(session, "say\nthink"))

    assert client.updates() == []


def test_think_is_a_thought(client: Client, session: str) -> None:
    client.prompt(session, "think what now\nsay this")

    assert (client.thoughts, client.text) == ("what now", "this")


def test_sleep_takes_the_given_seconds(client: Client, session: str) -> None:
    asked = client.prompt(session, "sleep 90\nsay awake")
    assert client.agent.next_deadline() == 90.0

    client.wait(89.0)
    assert client.answers_to(asked) == []
    client.wait(1.0)

    assert client.text == "awake"
    assert client.agent.next_deadline() is None


def test_tool_makes_a_call_of_the_given_seconds(client: Client, session: str) -> None:
    client.finish(client.prompt(session, "tool read a file 2.5"))

    began, over = client.updates("tool_call", "tool_call_update")
    assert client.now == 2.5
    assert (began["title"], began["status"]) == ("read a file", "in_progress")
    assert over == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": began["toolCallId"],
        "status": "completed",
        "rawOutput": "done",
    }


def test_every_call_has_an_id_of_its_own(client: Client, session: str) -> None:
    client.prompt(session, "tool a 0\ntool b 0\nask c")
    client.cancel(session)
    client.prompt(session, "tool d 0")

    calls = [call["toolCallId"] for call in client.updates("tool_call")]
    calls.append(client.requests()[0]["params"]["toolCall"]["toolCallId"])
    assert len(set(calls)) == 4


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("allow_once", "bash: allowed\n"),
        ("allow_always", "bash: allowed\n"),
        ("reject_once", "bash: rejected\n"),
        ("reject_always", "bash: rejected\n"),
    ],
)
def test_ask_waits_for_an_answer_and_says_the_decision(
    client: Client, session: str, kind: str, said: str
) -> None:
    asked = client.prompt(session, "ask bash")
    (request,) = client.requests()
    (option,) = [o["optionId"] for o in request["params"]["options"] if o["kind"] == kind]
    assert request["method"] == "session/request_permission"
    assert request["params"]["toolCall"]["title"] == "bash"

    client.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": option}})

    assert client.text == said
    assert client.result_of(asked) == {"stopReason": "end_turn"}


@pytest.mark.parametrize(
    "result", [{"outcome": {"outcome": "cancelled"}}, {"outcome": {"optionId": "?"}}, {}, None, 5]
)
def test_any_other_answer_is_a_rejection(client: Client, session: str, result: object) -> None:
    client.prompt(session, "ask bash")

    client.answer(client.requests()[0]["id"], result)

    assert client.text == "bash: rejected\n"


def test_an_error_answer_is_a_rejection(client: Client, session: str) -> None:
    client.prompt(session, "ask bash")

    client.refuse(client.requests()[0]["id"], -32603, "no user")

    assert client.text == "bash: rejected\n"


def test_an_answer_to_another_request_does_not_resume_a_script(
    client: Client, session: str
) -> None:
    asked = client.prompt(session, "ask bash")

    client.answer(4711, {"outcome": {"outcome": "selected", "optionId": "option-1"}})

    assert client.answers_to(asked) == []


def test_spawn_fails_the_turn_with_a_hint(client: Client, session: str) -> None:
    code, text = client.error_of(client.prompt(session, "spawn echo hello"))

    assert code == -32603
    assert "cannot spawn 'echo'" in text
    assert "hint: spawn it from the session" in text


def test_fail_answers_the_prompt_with_an_error(client: Client, session: str) -> None:
    asked = client.prompt(session, "say so far\nfail out of ideas\nsay never")

    assert client.error_of(asked) == (-32603, "out of ideas")
    assert client.text == "so far"
    assert client.result_of(client.prompt(session, "say next")) == {"stopReason": "end_turn"}


def test_crash_requests_an_exit_and_answers_nothing(client: Client, session: str) -> None:
    asked = client.prompt(session, "say last words\ncrash\nsay never")

    assert client.text == "last words"
    assert client.answers_to(asked) == []
    assert client.actions[-1] == ProcessAction("exit", 1)
    assert "the script says crash" in client.actions[0].text


def test_flood_is_that_many_chunks(client: Client, session: str) -> None:
    client.result_of(client.prompt(session, "flood 700"))

    chunks = client.updates("agent_message_chunk")
    assert len(chunks) == 700
    assert {len(chunk["content"]["text"]) for chunk in chunks} == {100}


def test_a_flood_waits_while_its_output_is_not_taken(client: Client, session: str) -> None:
    client.agent.receive_line(prompt_line(session, "flood 100000000"))
    assert client.agent.next_deadline() is None

    taken = b"".join(client.agent.take_output())

    assert 65_536 <= len(taken) < 70_000
    assert client.agent.next_deadline() == client.now


def test_use_reports_the_total_of_the_session(client: Client, session: str) -> None:
    client.prompt(session, "use 40\nuse 2")

    assert [update["used"] for update in client.updates("usage_update")] == [40, 42]


# Cancelling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["sleep 1000", "tool bash 1000", "ask bash", "terminal ls"])
def test_every_waiting_step_can_be_cancelled(step: str) -> None:
    client = Client()
    session = client.open({"terminal": True})
    asked = client.prompt(session, f"say before\n{step}\nsay after")

    client.cancel(session)

    assert client.result_of(asked) == {"stopReason": "cancelled"}
    assert client.text == "before"


def test_hang_ignores_both_kinds_of_cancel(client: Client, session: str) -> None:
    asked = client.prompt(session, "hang\nsay never")

    client.cancel(session)
    client.notify("$/cancel_request", requestId=asked)
    client.wait(1e6)

    assert client.answers_to(asked) == []
    assert client.text == ""


def test_a_cancelled_turn_cancels_its_permission_request(client: Client, session: str) -> None:
    client.prompt(session, "ask bash")
    (request,) = client.requests()

    client.cancel(session)
    client.answer(request["id"], {"outcome": {"outcome": "cancelled"}})

    (taken_back,) = [said for said in client.notifications() if said["method"][0] == "$"]
    assert taken_back["method"] == "$/cancel_request"
    assert taken_back["params"] == {"requestId": request["id"]}
    assert client.text == ""


def test_a_cancelled_request_ends_its_turn_with_an_error(client: Client, session: str) -> None:
    asked = client.prompt(session, "sleep 1000\nsay never")

    client.notify("$/cancel_request", requestId=asked)

    assert client.error_of(asked)[0] == -32800
    assert client.agent.next_deadline() is None
    assert client.result_of(client.prompt(session, "say next"))


def test_cancelling_an_unknown_request_changes_nothing(client: Client, session: str) -> None:
    before = len(client.heard)

    client.cancel(session)
    client.cancel("scripted-0")
    client.notify("$/cancel_request", requestId=4711)

    assert len(client.heard) == before


# Scripts ---------------------------------------------------------------------------------------


def test_an_unknown_step_fails_the_turn_and_lists_the_steps(client: Client, session: str) -> None:
    code, text = client.error_of(client.prompt(session, "say a\n\nSAY b"))

    assert code == -32603
    assert "line 3 of the script begins with 'SAY'" in text
    assert "hint: the steps are say, think" in text


def test_a_tool_with_invalid_seconds_starts_and_fails(client: Client, session: str) -> None:
    client.error_of(client.prompt(session, "tool bash soon"))

    statuses = [u["status"] for u in client.updates("tool_call", "tool_call_update")]
    assert statuses == ["in_progress", "failed"]


def test_the_last_text_is_the_script_and_earlier_texts_are_context(
    client: Client, session: str
) -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    blocks = [{"type": "text", "text": "say old"}, link, {"type": "text", "text": "context"}]

    client.prompt(session, prompt=blocks)

    assert client.text == "say old\nresource_link file:///a\n"


def test_sessions_of_one_agent_do_not_wait_for_each_other(client: Client, session: str) -> None:
    other = client.new_session()
    slow = client.prompt(session, "sleep 10\nsay slow")
    quick = client.prompt(other, "sleep 5\nsay quick")

    client.wait(5.0)
    assert (client.text, client.answers_to(slow)) == ("quick", [])
    client.wait(5.0)

    assert client.result_of(quick) == client.result_of(slow)


def test_a_prompt_for_a_busy_session_is_refused_and_counted(client: Client, session: str) -> None:
    first = client.prompt(session, "sleep 1\noverlaps")

    code, text = client.error_of(client.prompt(session, "say me too"))
    client.finish(first)

    assert (code, client.agent.overlaps) == (-32600, 1)
    assert "busy" in text
    assert client.text == "overlaps: 1\n"
    assert [action.kind for action in client.actions] == ["log"]
