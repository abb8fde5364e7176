"""Steering of a running script."""

from __future__ import annotations

import pytest

from tests.support.scripted_client import Client, Json


def steer(client: Client, session: str, text: str, **more: object) -> Json:
    blocks = [{"type": "text", "text": text}]
    asked = client.request("_session/steering", sessionId=session, prompt=blocks, **more)
    return client.result_of(asked)


def test_injected_steering_is_said_and_the_script_goes_on() -> None:
    client = Client("--steering", "injected")
    session = client.open()
    asked = client.prompt(session, "sleep 5\nsay done")

    assert steer(client, session, "shorter") == {"outcome": "injected"}
    assert client.heard[-1]["params"]["update"]["content"]["text"] == "shorter; "
    assert client.heard[-2]["result"] == {"outcome": "injected"}
    client.finish(asked)

    assert (client.text, client.now) == ("shorter; done", 5.0)


def test_a_script_can_wait_for_steering() -> None:
    client = Client("--steering", "injected")
    session = client.open()
    asked = client.prompt(session, "steering\nsay done")

    for text in ("shorter", "louder", "enough"):
        assert client.answers_to(asked) == []
        steer(client, session, text)

    assert client.result_of(asked) == {"stopReason": "end_turn"}
    assert client.text == "shorter; louder; enough; done"


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, "startedNewTurn"),
        ({"_meta": {"steering": {"idleBehavior": "promptRequired"}}}, "promptRequired"),
    ],
)
def test_steering_without_a_turn_follows_the_clients_choice(more: Json, outcome: str) -> None:
    client = Client("--steering", "injected")

    answer = steer(client, client.open(), "say hello", **more)

    assert answer["outcome"] == outcome
    assert client.text == ("hello" if outcome == "startedNewTurn" else "")


def test_an_agent_may_require_a_prompt_while_a_turn_runs() -> None:
    client = Client("--steering", "promptRequired")
    session = client.open()
    asked = client.prompt(session, "sleep 5\nsay done")

    assert steer(client, session, "shorter")["outcome"] == "promptRequired"
    client.finish(asked)

    assert client.text == "done"


def test_a_new_turn_of_the_agent_ends_the_old_turn() -> None:
    client = Client("--steering", "startedNewTurn")
    session = client.open()
    asked = client.prompt(session, "say old\nsleep 5\nsay never")

    answer = steer(client, session, "say new\nsleep 1\nsay over")
    client.wait(10.0)

    assert answer == {"outcome": "startedNewTurn"}
    assert client.result_of(asked) == {"stopReason": "end_turn"}
    assert client.text == "oldnewover"
    assert client.heard.index(client.answers_to(asked)[0]) < client.heard.index(
        next(said for said in client.heard if said.get("result") == answer)
    )


def test_a_turn_started_by_steering_is_busy_and_can_be_cancelled() -> None:
    client = Client("--steering", "startedNewTurn")
    session = client.open()
    steer(client, session, "sleep 1000\nsay never")
    assert client.error_of(client.prompt(session, "say me"))[0] == -32600

    client.cancel(session)

    assert client.result_of(client.prompt(session, "say next"))
    assert client.text == "next"


def test_a_failed_turn_started_by_steering_is_only_logged() -> None:
    client = Client("--steering", "startedNewTurn")

    steer(client, client.open(), "fail alone")

    assert [action.text for action in client.actions] == ["scripted: alone\n"]


def test_an_echo_agent_says_steering_texts_too() -> None:
    client = Client("--echo", "--steering", "startedNewTurn")

    steer(client, client.open(), "hello there")

    assert client.text == "hello there"
