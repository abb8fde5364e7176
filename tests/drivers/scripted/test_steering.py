"""Guidance for a turn that is under way."""

from __future__ import annotations

import pytest

from tests.drivers.scripted.client import Client, Json


def steer(client: Client, session: str, text: str, **more: object) -> Json:
    blocks = [{"type": "text", "text": text}]
    asked = client.request("_session/steering", sessionId=session, prompt=blocks, **more)
    return client.result_of(asked)


def test_what_is_injected_is_said_after_the_answer_and_the_script_goes_on() -> None:
    client = Client("--steering", "injected")
    session = client.open()
    asked = client.prompt(session, "sleep 5\nsay done")

    assert steer(client, session, "shorter") == {"outcome": "injected"}
    assert client.heard[-1]["params"]["update"]["content"]["text"] == "shorter; "
    assert client.heard[-2]["result"] == {"outcome": "injected"}
    client.finish(asked)

    assert (client.text, client.now) == ("shorter; done", 5.0)


def test_a_script_can_wait_until_it_was_steered_enough() -> None:
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
def test_with_nothing_to_inject_into_it_does_what_the_client_wants(
    more: Json, outcome: str
) -> None:
    client = Client("--steering", "injected")

    answer = steer(client, client.open(), "say hello", **more)

    assert answer["outcome"] == outcome
    assert client.text == ("hello" if outcome == "startedNewTurn" else "")


def test_an_agent_may_want_a_prompt_though_a_turn_runs() -> None:
    client = Client("--steering", "promptRequired")
    session = client.open()
    asked = client.prompt(session, "sleep 5\nsay done")

    assert steer(client, session, "shorter")["outcome"] == "promptRequired"
    client.finish(asked)

    assert client.text == "done"


def test_an_agent_may_start_a_new_turn_which_ends_the_old_one() -> None:
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


def test_a_turn_that_nobody_asked_for_is_busy_and_can_be_cancelled() -> None:
    client = Client("--steering", "startedNewTurn")
    session = client.open()
    steer(client, session, "sleep 1000\nsay never")
    assert client.error_of(client.prompt(session, "say me"))[0] == -32600

    client.cancel(session)

    assert client.result_of(client.prompt(session, "say next"))
    assert client.text == "next"


def test_a_turn_that_nobody_asked_for_has_nobody_to_fail() -> None:
    client = Client("--steering", "startedNewTurn")

    steer(client, client.open(), "fail alone")

    assert [want.text for want in client.wants] == ["scripted: alone\n"]


def test_an_echo_says_what_it_is_steered_to_as_well() -> None:
    client = Client("--echo", "--steering", "startedNewTurn")

    steer(client, client.open(), "hello there")

    assert client.text == "hello there"
