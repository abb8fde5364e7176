"""Steps that misbehave, each with exactly its intended effect."""

from __future__ import annotations

import json

import pytest

from supervisor.drivers.scripted import ProcessAction
from tests.support.scripted_client import Client, prompt_line

# Its process -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "action"),
    [
        ("ignore-term", ProcessAction("ignore_term")),
        ("stop-self", ProcessAction("stop")),
        ("deaf", ProcessAction("deafen")),
        ("close-stdout", ProcessAction("close_output")),
    ],
)
def test_a_step_on_the_process_requests_an_action(
    client: Client, session: str, step: str, action: ProcessAction
) -> None:
    client.result_of(client.prompt(session, f"{step}\nsay next"))

    assert client.actions == [action]
    assert client.text == "next"


def test_a_script_waits_until_its_action_is_done(client: Client, session: str) -> None:
    client.agent.receive_line(prompt_line(session, "say before\nstop-self\nsay after"))
    before = b"".join(client.agent.take_output())
    (action,) = client.agent.take_actions()
    client.agent.tick(1000.0)
    assert client.agent.take_output() == []

    client.agent.action_done(action)
    after = b"".join(client.agent.take_output())

    assert b'"before"' in before
    assert b'"after"' in after


def test_no_script_continues_while_an_action_waits() -> None:
    client = Client("--die-at", "cancel")
    session = client.open()
    client.agent.receive_line(prompt_line(session, "flood 900000000"))
    client.agent.receive_line(b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}')
    client.agent.take_output()
    client.agent.tick(1.0)

    assert client.agent.take_output() == []
    assert client.agent.is_exiting


def test_a_prompt_that_has_not_started_can_be_cancelled(client: Client, session: str) -> None:
    other = client.new_session()
    client.prompt(session, "sleep 5")
    heard = len(client.heard)
    client.agent.receive_line(prompt_line(session, "say no", number=90))
    client.agent.receive_line(prompt_line(other, "say never", number=91))
    client.cancel(other)

    refused, cancelled = client.heard[heard:]
    assert (refused["id"], refused["error"]["code"]) == (90, -32600)
    assert (cancelled["id"], cancelled["result"]) == (91, {"stopReason": "cancelled"})


@pytest.mark.parametrize(("step", "count"), [("fork", 1), ("fork 3", 3)])
def test_fork_sends_the_pids_as_a_thought(step: str, count: int) -> None:
    client = Client(performs={"fork": "11 12"})

    client.prompt(client.open(), f"{step}\nsay next")

    assert client.actions == [ProcessAction("fork", count)]
    assert (client.thoughts, client.text) == ("forked 11 12\n", "next")


def test_setsid_sends_the_pid_as_a_thought() -> None:
    client = Client(performs={"detach": "13"})

    client.prompt(client.open(), "setsid\nsay next")

    assert (client.thoughts, client.text) == ("detached 13\n", "next")


def test_exit_ends_the_process_during_the_turn(client: Client, session: str) -> None:
    asked = client.prompt(session, "say bye\nexit 7\nsay never")

    assert client.actions == [ProcessAction("exit", 7)]
    assert (client.text, client.answers_to(asked)) == ("bye", [])


def test_the_end_of_the_input_requests_an_exit(client: Client, session: str) -> None:
    client.prompt(session, "hang")

    client.agent.receive_eof()

    assert client.agent.take_actions() == [ProcessAction("exit", 0)]


def test_an_agent_may_ignore_the_end_of_its_input(client: Client, session: str) -> None:
    client.prompt(session, "ignore-eof\nsleep 10\nsay still here")

    client.agent.receive_eof()
    client.wait(10.0)

    assert (client.actions, client.text) == ([], "still here")


# Its output ------------------------------------------------------------------------------------


def test_spew_adds_no_newline(client: Client, session: str) -> None:
    asked = client.prompt(session, "spew 100000")

    assert client.unfinished == b""
    assert client.junk[0].startswith(b"x" * 100_000)
    assert client.answers_to(asked) == []  # it is on the same line, and so is lost


def test_an_empty_raw_line_ends_spewed_bytes(client: Client, session: str) -> None:
    asked = client.prompt(session, "spew 10\nraw\nsay next")

    assert client.junk == [b"x" * 10]
    assert client.result_of(asked) == {"stopReason": "end_turn"}


def test_spew_waits_while_the_output_is_full(client: Client, session: str) -> None:
    client.agent.receive_line(prompt_line(session, "spew 500000000"))

    assert sum(map(len, client.agent.take_output())) == 65_536


def test_spew_stderr_goes_to_the_log(client: Client, session: str) -> None:
    client.prompt(session, "spew-stderr 40000\nsay next")

    assert sum(len(action.text) for action in client.actions) == 40_000
    assert client.text == "next"


@pytest.mark.parametrize("line", ["not JSON", '{"jsonrpc":"2.0","id":99,"result":{}}', "[1,2]"])
def test_raw_writes_any_line(client: Client, session: str, line: str) -> None:
    client.prompt(session, f"raw {line}\nsay next")

    heard = [json.dumps(said, separators=(",", ":")) for said in client.heard]
    assert line in [*heard, *(junk.decode() for junk in client.junk)]
    assert client.text == "next"


# The protocol ----------------------------------------------------------------------------------


def test_answer_comes_before_the_end_and_the_script_goes_on(client: Client, session: str) -> None:
    asked = client.prompt(session, "answer\nsay late\nsleep 5\nsay later")
    assert client.result_of(asked) == {"stopReason": "end_turn"}
    assert client.text == "late"

    client.wait(5.0)

    assert client.text == "latelater"
    assert len(client.answers_to(asked)) == 1


def test_a_session_with_an_answered_prompt_takes_another_prompt(
    client: Client, session: str
) -> None:
    client.prompt(session, "answer\nsleep 5\nsay old")
    asked = client.prompt(session, "say new")
    client.cancel(session)
    client.wait(5.0)

    assert client.result_of(asked) == {"stopReason": "end_turn"}
    assert client.text == "newold"


def test_an_answered_script_leaves_the_session_to_the_next_prompt(
    client: Client, session: str
) -> None:
    client.prompt(session, "answer\nsleep 5")
    asked = client.prompt(session, "sleep 100")
    client.wait(5.0)

    assert client.error_of(client.prompt(session, "say me"))[0] == -32600
    client.cancel(session)
    assert client.result_of(asked) == {"stopReason": "cancelled"}


def test_answering_twice_sends_two_answers(client: Client, session: str) -> None:
    asked = client.prompt(session, "answer\nanswer refusal")

    reasons = [answer["result"]["stopReason"] for answer in client.answers_to(asked)]
    assert reasons == ["end_turn", "refusal"]


@pytest.mark.parametrize("result", ["5", '"rubbish"', "null", '{"stopReason": "tired"}'])
def test_reply_answers_with_anything(client: Client, session: str, result: str) -> None:
    asked = client.prompt(session, f"reply {result}")

    assert [answer["result"] for answer in client.answers_to(asked)] == [json.loads(result)]


def test_error_may_have_any_code(client: Client, session: str) -> None:
    assert client.error_of(client.prompt(session, "error 400 bad luck")) == (400, "bad luck")
    assert client.error_of(client.prompt(session, "error -32000")) == (-32000, "")


def test_update_may_be_of_any_kind(client: Client, session: str) -> None:
    client.prompt(session, 'update plan {"entries": []}\nupdate weather\nsay next')

    plan, weather, _ = client.updates()
    assert plan == {"sessionUpdate": "plan", "entries": []}
    assert weather == {"sessionUpdate": "weather"}


def test_notify_sends_any_notification(client: Client, session: str) -> None:
    client.prompt(session, 'notify _auth/status {"a": 1}')

    *_, said = client.notifications()
    assert (said["method"], said["params"]) == ("_auth/status", {"a": 1})


def test_request_sends_any_request_and_says_the_answer(client: Client, session: str) -> None:
    client.prompt(session, "request _weather\nrequest _time")
    client.refuse(client.requests()[-1]["id"], -32601, "what?")
    client.answer(client.requests()[-1]["id"], 5)

    assert client.text == (
        '_weather: {"error": {"code": -32601, "message": "what?"}}\n_time: {"result": 5}\n'
    )


def test_linger_delays_its_end_and_says_late(client: Client, session: str) -> None:
    asked = client.prompt(session, "linger 3\nsay never")
    client.wait(100.0)
    client.cancel(session)
    assert (client.text, client.answers_to(asked)) == ("late\n", [])

    client.wait(3.0)

    assert client.result_of(asked) == {"stopReason": "cancelled"}


def test_linger_ends_at_once_when_cancelled_again(client: Client, session: str) -> None:
    asked = client.prompt(session, "linger 3")
    client.cancel(session)
    client.cancel(session)

    assert client.result_of(asked) == {"stopReason": "cancelled"}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("fork many", "fork 'many' is not a number"),
        ("fork 1001", "fork 1001 is too many"),
        ("exit", "exit '' is not a number"),
        ("spew 1.5", "spew '1.5' is not a whole number"),
        ("linger", "linger '' is not a number"),
        ("reply", "reply '' is not JSON"),
        ("reply {", "reply '{' is not JSON"),
        ("error x y", "error 'x' is not a code"),
        ("update plan [1]", "update '[1]' is not a JSON object"),
        ("notify _a 5", "notify '5' is not a JSON object"),
    ],
)
def test_a_step_with_invalid_arguments_fails_the_turn(
    client: Client, session: str, step: str, said: str
) -> None:
    code, text = client.error_of(client.prompt(session, step))

    assert code == -32603
    assert said in text
    assert "hint:" in text
