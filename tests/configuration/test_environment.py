"""Variables of the environment are settings by another name, and flags by yet another."""

import re
from pathlib import Path

import pytest

import supervisor
from supervisor.configuration import check, load
from supervisor.configuration.loading import SCHEMA
from supervisor.configuration.texts import OTHERS, variables
from supervisor.core.errors import ConfigError
from tests.configuration.home import Home

SOURCES = Path(supervisor.__file__).parent.rglob("*.py")


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("UNDERSTUDY_QUEUE_CAP", ("settings", "queue_cap")),
        ("UNDERSTUDY_LIMITS__MAX_DEPTH", ("settings", "limits", "max_depth")),
        ("UNDERSTUDY_DAEMON__TCP_PORT", ("daemon", "tcp_port")),
    ],
)
def test_a_variable_is_named_after_its_setting(variable: str, path: tuple[str, ...]) -> None:
    assert variables(SCHEMA)[variable] == path


def test_no_two_settings_have_one_variable() -> None:
    known = variables(SCHEMA)

    assert len(known) == len(set(known.values()))
    assert not known.keys() & OTHERS


def test_text_becomes_what_the_setting_is(home: Home) -> None:
    configuration = home.load(
        UNDERSTUDY_QUEUE_CAP=" 12 ",
        UNDERSTUDY_EXIT_SECONDS="1e1",
        UNDERSTUDY_ANSWERS_FOR_CHILDREN="True",
        UNDERSTUDY_ON_STALL="stop",
        UNDERSTUDY_TURN_DEADLINE_SECONDS="none",
        UNDERSTUDY_SUSPEND_AFTER_SECONDS="inf",
        UNDERSTUDY_DAEMON__ALLOWED_ORIGINS="http://a:1, https://b",
        UNDERSTUDY_DAEMON__STATE_FOLDER="~/state",
    )

    settings, daemon = configuration.settings, configuration.daemon
    assert (settings.queue_cap, settings.exit_seconds, settings.on_stall) == (12, 10.0, "stop")
    assert settings.answers_for_children
    assert settings.turn_deadline_seconds is None
    assert settings.suspend_after_seconds == float("inf")
    assert daemon.allowed_origins == ("http://a:1", "https://b")
    assert daemon.state_folder == str(home.folder / "state")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("UNDERSTUDY_QUEUE_CAP", ""),
        ("UNDERSTUDY_QUEUE_CAP", "1_0"),
        ("UNDERSTUDY_QUEUE_CAP", "1.0"),
        ("UNDERSTUDY_QUEUE_CAP", "9" * 5000),
        ("UNDERSTUDY_QUEUE_CAP", "٣"),
        ("UNDERSTUDY_EXIT_SECONDS", "nan"),
        ("UNDERSTUDY_EXIT_SECONDS", "-1"),
        ("UNDERSTUDY_EXIT_SECONDS", "5 s"),
        ("UNDERSTUDY_ANSWERS_FOR_CHILDREN", "1"),
    ],
)
def test_text_that_is_no_such_thing_is_refused_with_the_variable(
    home: Home, variable: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=f"^\\${variable}: settings\\."):
        load(cwd=None, environ={**home.environ, variable: text})


def test_a_variable_of_ours_that_is_none_is_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match="UNDERSTUDY_QUEUECAP: is no variable") as refusal:
        home.load(UNDERSTUDY_QUEUECAP="3")

    assert refusal.value.hint == "did you mean UNDERSTUDY_QUEUE_CAP?"


def test_whatever_this_program_has_in_the_environment_is_no_mistake(home: Home) -> None:
    said = {
        name for file in SOURCES for name in re.findall(r'"(UNDERSTUDY_[A-Z_]+)"', file.read_text())
    }

    assert said - {"UNDERSTUDY_"} <= OTHERS
    others = dict.fromkeys(OTHERS - {"UNDERSTUDY_CONFIG"}, "x")
    assert check(cwd=home.project, environ={**home.environ, **others}) == []


def test_a_flag_that_was_not_given_says_nothing(home: Home) -> None:
    flags: dict[str, object] = {"settings.queue_cap": None, "daemon.tcp_port": 8080}

    configuration = home.load(flags=flags)

    assert configuration.settings.queue_cap == 10
    assert configuration.daemon.tcp_port == 8080


def test_flags_can_describe_agents(home: Home) -> None:
    flags: dict[str, object] = {
        "agents.coder.command": "coder --fast",
        "agents.coder.permissions.tools": "read, edit",
        "agents.coder.env": {"A": "x"},
        "agents.coder.env.B": "$HOME",
    }

    agent = home.load(flags=flags).agent("coder")

    assert agent.command == ("coder", "--fast")
    assert agent.permissions is not None
    assert agent.permissions.tools == frozenset({"read", "edit"})
    assert set(agent.env) == {"A", "B"}
    assert flags["agents.coder.env"] == {"A": "x"}


@pytest.mark.parametrize("path", ["", ".", "settings", "settings.", "agents.coder", "..."])
def test_a_flag_that_is_no_path_of_a_value_is_refused(home: Home, path: str) -> None:
    with pytest.raises(ConfigError):
        home.load(flags={path: "x"})
