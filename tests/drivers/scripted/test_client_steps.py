"""Steps that send requests to the client, and steps that say what the agent was given."""

from __future__ import annotations

import pytest

from supervisor.drivers.scripted import ProcessAction
from tests.support.scripted_client import ABLE, Client, Json


@pytest.fixture
def session(client: Client) -> str:
    """Open a session of a client with all capabilities."""
    return client.open(ABLE)


def asked_last(client: Client) -> Json:
    return client.requests()[-1]


# Files ---------------------------------------------------------------------------------------


def test_read_says_the_contents_of_the_file(client: Client, session: str) -> None:
    client.prompt(session, "read notes.txt")
    request = asked_last(client)
    assert request["method"] == "fs/read_text_file"
    assert request["params"] == {"sessionId": session, "path": "/project/notes.txt"}

    client.answer(request["id"], {"content": "to be\nor not"})

    assert client.text == "read notes.txt: to be\nor not\n"


def test_write_says_that_it_is_done(client: Client, session: str) -> None:
    client.prompt(session, "write /else/a to be or not")
    request = asked_last(client)
    assert request["method"] == "fs/write_text_file"
    assert request["params"] == {"sessionId": session, "path": "/else/a", "content": "to be or not"}

    client.answer(request["id"], None)

    assert client.text == "write /else/a: done\n"


@pytest.mark.parametrize(
    ("step", "said"), [("read ../a", "read ../a"), ("write ../a b", "write ../a")]
)
def test_an_error_of_the_client_is_said_and_the_script_goes_on(
    client: Client, session: str, step: str, said: str
) -> None:
    client.prompt(session, f"{step}\nsay next")
    assert asked_last(client)["params"]["path"] == "/project/../a"

    client.refuse(asked_last(client)["id"], -32603, "that is outside")

    assert client.text == f"{said}: error -32603 that is outside\nnext"


@pytest.mark.parametrize("able", [{}, {"fs": {}}, {"fs": {"readTextFile": False}}, {"fs": None}])
def test_a_client_without_capabilities_gets_no_requests(able: Json) -> None:
    client = Client()
    session = client.open(able)

    client.result_of(client.prompt(session, "read a\nwrite a b\nterminal ls"))

    assert client.requests() == []
    assert client.text == (
        "read a: the client cannot read files\n"
        "write a: the client cannot write files\n"
        "terminal: the client has no terminals\n"
    )


# Terminals -----------------------------------------------------------------------------------


def begin_terminal(client: Client, session: str) -> int:
    """Have a command run, up to where the agent waits for its end."""
    prompt = client.prompt(session, "terminal sh -c 'echo  a'")
    client.answer(asked_last(client)["id"], {"terminalId": "t1"})
    assert asked_last(client)["method"] == "terminal/wait_for_exit"
    return prompt


def test_terminal_sends_the_words_of_the_command(client: Client, session: str) -> None:
    client.prompt(session, "terminal sh -c 'echo  a'")

    request = asked_last(client)
    assert request["method"] == "terminal/create"
    assert (request["params"]["command"], request["params"]["args"]) == ("sh", ["-c", "echo  a"])
    assert request["params"]["cwd"] == "/project"


@pytest.mark.parametrize(
    ("ended", "status", "said"),
    [
        ({"exitCode": 0, "signal": None}, "completed", "exit 0"),
        ({"exitCode": 3}, "failed", "exit 3"),
        ({"signal": "SIGKILL"}, "failed", "signal SIGKILL"),
    ],
)
def test_terminal_is_a_tool_call_that_says_how_it_ended(
    client: Client, session: str, ended: Json, status: str, said: str
) -> None:
    prompt = begin_terminal(client, session)
    client.answer(asked_last(client)["id"], ended)
    client.answer(asked_last(client)["id"], {"output": "a\n", "truncated": False})
    assert asked_last(client)["method"] == "terminal/release"
    client.answer(asked_last(client)["id"], None)

    began, over = client.updates("tool_call", "tool_call_update")
    assert client.result_of(prompt) == {"stopReason": "end_turn"}
    assert began["content"] == [{"type": "terminal", "terminalId": "t1"}]
    assert over["status"] == status
    assert client.text == f"terminal: {said}: a\n\n"


def test_a_failed_terminal_request_is_said(client: Client, session: str) -> None:
    client.prompt(session, "terminal ls\nsay next")

    client.refuse(asked_last(client)["id"], -32603, "no")

    assert client.text == "terminal: error -32603 no\nnext"


def test_a_cancelled_turn_kills_and_releases_its_terminal(client: Client, session: str) -> None:
    prompt = begin_terminal(client, session)

    client.cancel(session)

    assert client.result_of(prompt) == {"stopReason": "cancelled"}
    assert [request["method"] for request in client.requests()[-2:]] == [
        "terminal/kill",
        "terminal/release",
    ]


@pytest.mark.parametrize("step", ["terminal", "terminal 'a"])
def test_an_invalid_command_fails_the_turn(client: Client, session: str, step: str) -> None:
    assert "is not a command" in client.error_of(client.prompt(session, step))[1]


# Permission for something ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "status", "said"),
    [("option-1", "completed", "allowed"), ("option-3", "failed", "rejected")],
)
def test_ask_tool_reports_the_call_and_then_asks_for_it(
    client: Client, session: str, option: str, status: str, said: str
) -> None:
    client.prompt(session, "ask-tool read a b.txt")
    (began,) = client.updates()
    request = asked_last(client)
    assert (began["status"], began["kind"]) == ("pending", "read")
    assert began["locations"] == [{"path": "/project/a b.txt"}]
    assert request["params"]["toolCall"]["toolCallId"] == began["toolCallId"]

    client.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": option}})

    assert client.updates("tool_call_update")[0]["status"] == status
    assert client.text == f"read a b.txt: {said}\n"


def test_ask_tool_needs_a_path(client: Client, session: str) -> None:
    assert "has no path" in client.error_of(client.prompt(session, "ask-tool read"))[1]


@pytest.mark.parametrize(
    "offers", ["allow_once,reject_once", "allow_once,allow_once,reject_once", "reject_always"]
)
def test_an_agent_may_offer_other_answers(offers: str) -> None:
    client = Client("--offers", offers)
    client.prompt(client.open(), "ask bash")

    options = asked_last(client)["params"]["options"]

    assert [option["kind"] for option in options] == offers.split(",")
    assert len({option["optionId"] for option in options}) == len(options)


# What it knows -----------------------------------------------------------------------------------


def test_servers_says_the_mcp_servers_of_the_session(client: Client, session: str) -> None:
    given = [{"name": "files", "command": "/bin/files", "args": [], "env": []}]
    other = client.new_session(mcpServers=given)

    client.prompt(session, "servers")
    client.prompt(other, "servers")

    assert client.text == "servers: none\nservers: files\n"


def test_cwd_says_where_the_session_is(client: Client, session: str) -> None:
    client.prompt(session, "cwd")

    assert client.text == "/project\n"


def test_env_says_the_value_of_the_variable() -> None:
    client = Client(environment={"HOME": "/root"})

    client.prompt(client.open(), "env HOME\nenv TOKEN")

    assert client.text == "HOME=/root\nTOKEN is not set\n"


def test_log_requests_a_log_action(client: Client, session: str) -> None:
    client.prompt(session, "log all is well\nsay next")

    assert client.actions == [ProcessAction("log", text="all is well\n")]
    assert client.text == "next"
