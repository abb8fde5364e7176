"""Variables of the environment are settings by another name, and flags by yet another."""

import re
from pathlib import Path

import pytest

import supervisor
from supervisor.configuration import check, load
from supervisor.configuration.loader import SCHEMA, variable_paths
from supervisor.configuration.paths import IGNORED_VARIABLES
from supervisor.core.errors import ConfigError
from tests.support.config_home import Home

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
    assert variable_paths(SCHEMA)[variable] == path


def test_no_two_settings_have_one_variable() -> None:
    known = variable_paths(SCHEMA)

    assert len(known) == len(set(known.values()))
    assert not known.keys() & IGNORED_VARIABLES


def test_a_variable_is_converted_to_the_type_of_its_setting(home: Home) -> None:
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
def test_a_variable_of_the_wrong_type_is_refused_with_its_name(
    home: Home, variable: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=f"^\\${variable}: settings\\."):
        load(cwd=None, environ={**home.environ, variable: text})


def test_an_unknown_variable_with_our_prefix_is_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match="UNDERSTUDY_QUEUECAP is not a variable") as refusal:
        home.load(UNDERSTUDY_QUEUECAP="3")

    assert refusal.value.hint == "did you mean UNDERSTUDY_QUEUE_CAP?"


def test_our_own_variables_are_not_problems(home: Home) -> None:
    said = {
        name for file in SOURCES for name in re.findall(r'"(UNDERSTUDY_[A-Z_]+)"', file.read_text())
    }

    assert said - {"UNDERSTUDY_"} <= IGNORED_VARIABLES
    others = dict.fromkeys(IGNORED_VARIABLES - {"UNDERSTUDY_CONFIG"}, "x")
    assert check(cwd=home.project, environ={**home.environ, **others}) == []


def test_a_flag_of_none_sets_nothing(home: Home) -> None:
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
def test_a_flag_with_an_unknown_path_is_refused(home: Home, path: str) -> None:
    with pytest.raises(ConfigError):
        home.load(flags={path: "x"})


def test_an_unknown_variable_gets_no_far_fetched_suggestion(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"^\$UNDERSTUDY_NOPE is not a variable") as refusal:
        home.load(UNDERSTUDY_NOPE="1")

    assert refusal.value.hint == "unset it"
