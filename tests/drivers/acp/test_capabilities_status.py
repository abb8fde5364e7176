"""Modes, options and commands of an agent; see AgentStatus in acp/capabilities.py."""

from __future__ import annotations

from supervisor.core.state import ContextUse
from supervisor.drivers.acp.capabilities import MAX_STATUS_BYTES, AgentStatus

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
OPTION = {"id": "model", "name": "Model", "type": "select", "currentValue": "a", "options": []}


def test_a_new_session_reports_modes_and_options() -> None:
    surfaced = AgentStatus().with_session_result({"modes": MODES, "configOptions": [OPTION]})

    assert surfaced.mode == "ask"
    assert [mode["id"] for mode in surfaced.modes] == ["ask", "code"]
    assert surfaced.config_options == (OPTION,)


def test_each_status_update_changes_only_its_own_fields() -> None:
    surfaced = AgentStatus().with_session_result({"modes": MODES})
    commands = [{"name": "plan", "description": "make one"}]

    for update in (
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
        {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
        {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        {"sessionUpdate": "session_info_update", "title": "A talk"},
        {"sessionUpdate": "usage_update", "used": 10, "size": 100},
    ):
        surfaced = surfaced.with_update(update)

    assert (surfaced.mode, len(surfaced.modes)) == ("code", 2)
    assert surfaced.config_options == (OPTION,)
    assert surfaced.commands == tuple(commands)
    assert surfaced.title == "A talk"
    assert surfaced.context == ContextUse(10, 100)


def test_an_absent_title_stays_and_a_null_title_is_removed() -> None:
    titled = AgentStatus(title="A talk")

    assert titled.with_update({"sessionUpdate": "session_info_update"}).title == "A talk"
    assert titled.with_update({"sessionUpdate": "session_info_update", "title": None}).title is None


def test_an_answer_without_choices_changes_nothing() -> None:
    surfaced = AgentStatus().with_session_result({"modes": MODES})

    answers: list[object] = [None, {}, {"modes": None, "configOptions": None}, {"modes": "x"}, []]
    for answer in answers:
        assert surfaced.with_session_result(answer) == surfaced


def test_large_status_lists_are_cut() -> None:
    commands = [{"name": "x" * 1000} for _ in range(1000)]

    surfaced = AgentStatus().with_update(
        {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    )

    assert 0 < len(surfaced.commands) <= MAX_STATUS_BYTES // 1000 + 1


def test_an_invalid_mode_name_is_ignored() -> None:
    surfaced = AgentStatus(mode="ask")

    odd_ones: list[object] = [None, 3, "", "x" * 10_000, {}]
    for odd in odd_ones:
        update = {"sessionUpdate": "current_mode_update", "currentModeId": odd}
        assert surfaced.with_update(update) == surfaced
