"""Saved conversations, modes and options, and closing."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.drivers.scripted import MemoryConversations
from supervisor.drivers.scripted.conversation_files import FolderConversations
from supervisor.drivers.scripted.conversations import SavedConversations
from tests.support.scripted_client import Client, Json


@pytest.fixture(params=["memory", "folder"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> SavedConversations:
    return (
        MemoryConversations()
        if request.param == "memory"
        else FolderConversations(str(tmp_path / "state"))
    )


def reopen(client: Client, method: str, session: str) -> int:
    client.initialize()
    return client.request(method, sessionId=session, cwd="/project", mcpServers=[])


# Loading -----------------------------------------------------------------------------------------


def test_another_process_loads_a_session_and_replays_it_before_it_answers(
    saved: SavedConversations,
) -> None:
    first = Client(saved=saved)
    session = first.open()
    first.prompt(session, "say hello\ntool bash 0\nthink hm")
    second = Client("--load", saved=saved)

    asked = reopen(second, "session/load", session)

    assert second.heard[-1]["id"] == asked
    user, *rest = second.updates()
    assert user["sessionUpdate"] == "user_message_chunk"
    assert user["content"]["text"] == "say hello\ntool bash 0\nthink hm"
    assert rest == first.updates()
    assert {said["params"]["sessionId"] for said in second.notifications()} == {session}


def test_a_loaded_session_takes_prompts(saved: SavedConversations) -> None:
    session = Client(saved=saved).open()
    client = Client("--load", saved=saved)
    reopen(client, "session/load", session)

    client.result_of(client.prompt(session, "say hello again"))

    assert client.text == "hello again"


def test_a_turn_cut_off_by_its_process_keeps_the_users_text(
    saved: SavedConversations,
) -> None:
    first = Client(saved=saved)
    session = first.open()
    first.prompt(session, "say last words\ncrash")
    second = Client("--load", saved=saved)

    reopen(second, "session/load", session)

    assert [update["sessionUpdate"] for update in second.updates()] == ["user_message_chunk"]


def test_call_ids_are_unique_over_processes(
    saved: SavedConversations,
) -> None:
    first = Client(saved=saved)
    session = first.open()
    first.prompt(session, "tool a 0\ncrash")
    second = Client("--resume", saved=saved)
    reopen(second, "session/resume", session)
    second.prompt(session, "tool b 0")

    (one,), (other,) = first.updates("tool_call"), second.updates("tool_call")
    assert one["toolCallId"] != other["toolCallId"]


def test_resume_replays_nothing(saved: SavedConversations) -> None:
    first = Client(saved=saved)
    session = first.open()
    first.prompt(session, "say hello\nuse 40")
    second = Client("--resume", saved=saved)

    second.result_of(reopen(second, "session/resume", session))
    second.prompt(session, "use 2")

    assert [update.get("used") for update in second.updates()] == [42]


def test_resume_needs_no_servers(saved: SavedConversations) -> None:
    session = Client(saved=saved).open()
    client = Client("--resume", saved=saved)
    client.initialize()

    client.result_of(client.request("session/resume", sessionId=session, cwd="/project"))


def test_an_agent_may_replay_on_resume_too(saved: SavedConversations) -> None:
    first = Client(saved=saved)
    session = first.open()
    first.prompt(session, "say hello")
    second = Client("--resume", "--resume-replays", saved=saved)

    reopen(second, "session/resume", session)

    assert second.text == "hello"


@pytest.mark.parametrize("name", ["scripted-99", "../scripted-1", "scripted-1\n", "", "\x00"])
def test_an_unknown_session_is_not_found(saved: SavedConversations, name: str) -> None:
    Client(saved=saved).open()
    client = Client("--load", saved=saved)

    assert client.error_of(reopen(client, "session/load", name))[0] == -32002


def test_a_busy_session_cannot_be_loaded(saved: SavedConversations) -> None:
    client = Client("--load", saved=saved)
    session = client.open()
    client.prompt(session, "sleep 1000")

    asked = client.request("session/load", sessionId=session, cwd="/project", mcpServers=[])

    assert client.error_of(asked)[0] == -32600


def test_conversation_ids_are_unique(saved: SavedConversations) -> None:
    one, other = Client(saved=saved), Client(saved=saved)

    names = [one.open(), other.open(), one.new_session(), other.new_session()]

    assert len(set(names)) == 4


def test_only_the_newest_part_of_a_long_history_is_saved() -> None:
    saved = MemoryConversations()
    first = Client(saved=saved)
    session = first.open()
    first.prompt(session, "flood 10050")
    second = Client("--load", saved=saved)

    reopen(second, "session/load", session)

    assert len(second.updates()) == 10_000


# Closing -----------------------------------------------------------------------------------------


def test_closing_a_session_cancels_its_turn_and_removes_it() -> None:
    client = Client("--close")
    session = client.open()
    asked = client.prompt(session, "sleep 1000")

    client.result_of(client.request("session/close", sessionId=session))

    assert client.result_of(asked) == {"stopReason": "cancelled"}
    assert client.error_of(client.prompt(session, "say a"))[0] == -32002


# Choices -----------------------------------------------------------------------------------------


def opened(client: Client, capabilities: Json | None = None) -> Json:
    client.initialize(capabilities)
    return client.result_of(client.request("session/new", cwd="/project", mcpServers=[]))


def test_an_agent_without_modes_and_options_reports_none() -> None:
    assert list(opened(Client())) == ["sessionId"]


def test_a_chosen_mode_is_saved(saved: SavedConversations) -> None:
    first = Client("--modes", saved=saved)
    answer = opened(first)
    session = answer["sessionId"]
    assert answer["modes"]["currentModeId"] == "code"

    first.result_of(first.request("session/set_mode", sessionId=session, modeId="ask"))
    first.prompt(session, "choices")
    second = Client("--modes", "--load", saved=saved)
    loaded = second.result_of(reopen(second, "session/load", session))

    assert first.text == "mode ask, model small, brief False, thinking low\n"
    assert loaded["modes"]["currentModeId"] == "ask"


def test_an_unknown_mode_is_refused() -> None:
    client = Client("--modes")
    session = opened(client)["sessionId"]

    asked = client.request("session/set_mode", sessionId=session, modeId="sleep")

    assert client.error_of(asked)[0] == -32602


def test_setting_an_option_returns_all_options() -> None:
    client = Client("--config-options")
    answer = opened(client)
    current = {option["id"]: option["currentValue"] for option in answer["configOptions"]}
    assert current == {"model": "small", "thinking": "low"}

    params = {"sessionId": answer["sessionId"], "configId": "model", "value": "large"}
    changed = client.result_of(client.request("session/set_config_option", **params))

    assert [option["currentValue"] for option in changed["configOptions"]] == ["large", "low"]


def test_boolean_options_are_offered_only_to_supporting_clients() -> None:
    client = Client("--config-options")
    answer = opened(client, {"session": {"configOptions": {"boolean": {}}}})
    assert [option["id"] for option in answer["configOptions"]] == ["model", "brief", "thinking"]

    params = {"sessionId": answer["sessionId"], "configId": "brief", "value": True}
    changed = client.result_of(
        client.request("session/set_config_option", **params, type="boolean")
    )

    assert [option["currentValue"] for option in changed["configOptions"]] == [
        *("small", True),
        "low",
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("model", "huge"), ("brief", True), ("brief", "yes"), ("colour", "red")]
)
def test_an_unknown_option_is_refused(name: str, value: object) -> None:
    client = Client("--config-options")
    session = opened(client)["sessionId"]

    params = {"sessionId": session, "configId": name, "value": value}

    assert client.error_of(client.request("session/set_config_option", **params))[0] == -32602


def test_an_agent_reports_the_choices_that_it_makes_itself() -> None:
    client = Client("--modes", "--config-options")
    session = opened(client)["sessionId"]

    client.prompt(session, "choose mode ask\nchoose thinking high\nchoices")

    updates = [heard["params"]["update"] for heard in client.heard if "params" in heard]
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds[:2] == ["current_mode_update", "config_option_update"]
    assert client.text == "mode ask, model small, brief False, thinking high\n"


@pytest.mark.parametrize("step", ["choose mode sleep", "choose brief true", "choose colour red"])
def test_a_choice_that_does_not_exist_fails_the_prompt(step: str) -> None:
    client = Client("--modes", "--config-options")
    session = opened(client)["sessionId"]

    assert "names no option" in str(client.error_of(client.prompt(session, step)))
