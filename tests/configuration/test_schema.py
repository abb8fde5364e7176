"""What cannot be meant is refused, all of it at once, with its path, its place and a suggestion."""

import math
from typing import Any

import attrs
import pytest

from supervisor.config import Settings
from supervisor.configuration.loader import SCHEMA
from supervisor.configuration.schema import leaves
from supervisor.configuration.sources import dotted
from supervisor.core.errors import ConfigError
from supervisor.core.limits import Ladder, Limits, Restart
from tests.support.config_home import Home

PATHS = [dotted(path) for path in leaves(SCHEMA)]
NUMBERS = [
    f"{prefix}.{field.name}"
    for prefix, kind in (
        ("settings", Settings),
        ("settings.limits", Limits),
        ("settings.restart", Restart),
        ("settings.ladder", Ladder),
    )
    for field in attrs.fields(kind)
    if "int" in str(field.type) or "float" in str(field.type)
]


def test_all_problems_are_reported_at_once(home: Home) -> None:
    home.write("user", "settings.queue_cap = 0")
    home.write("project", "[settings]\nqueue_capp = 1\n[daemon]\ntcp_port = 'x'\n")

    with pytest.raises(ConfigError) as refusal:
        home.load(UNDERSTUDY_MAX_SESSIONS="many", flags={"settings.nothing": 1})

    said = str(refusal.value)
    assert "5 problems" in said
    assert "project/understudy.toml line 2: settings.queue_capp is not a setting; did you" in said
    assert "project/understudy.toml line 4: daemon.tcp_port is 'x'; give a whole number" in said
    assert ".config/understudy/understudy.toml line 1: settings.queue_cap is 0" in said
    assert "$UNDERSTUDY_MAX_SESSIONS: settings.max_sessions is 'many'" in said
    assert "flag settings.nothing: settings.nothing is not a setting" in said
    assert "config check" in refusal.value.hint


def test_an_invalid_value_is_reported_even_when_a_later_layer_overrides_it(home: Home) -> None:
    home.write("user", "settings.queue_cap = 0")
    home.write("project", "settings.queue_cap = 5")

    with pytest.raises(ConfigError, match="queue_cap is 0") as refusal:
        home.load()

    assert refusal.value.hint == "give a whole number from 1 to 1000"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("settings.queue_capp", "settings.queue_cap"),
        ("settings.limits.max_dept", "settings.limits.max_depth"),
        ("settings.max_depth", "settings.limits.max_depth"),
        ("queue_cap", "settings.queue_cap"),
        ("setings.queue_cap", "settings"),
        ("agents.coder.comand", "agents.coder.command"),
        ("agents.coder.limits.max_chldren", "agents.coder.limits.max_children"),
        ("daemon.port", "daemon.tcp_port"),
    ],
)
def test_an_unknown_name_gets_the_closest_setting_as_hint(
    home: Home, said: str, meant: str
) -> None:
    problem = home.problem(f"{said} = 5")

    assert said.startswith(problem.path)
    assert problem.problem == "is not a setting"
    assert problem.hint == f"did you mean {meant}?"


def test_an_unknown_name_without_match_lists_all_settings(home: Home) -> None:
    assert home.problem("zzz = 1").hint == "known settings: settings, daemon, agents"


@pytest.mark.parametrize("path", NUMBERS)
@pytest.mark.parametrize("value", ["-1", "nan", "'5'", "true", "[1]", "2020-01-01", "{ a = 1 }"])
def test_an_invalid_number_is_refused_with_its_path(home: Home, path: str, value: str) -> None:
    problem = home.problem(f"{path} = {value}")

    assert problem.path == path
    assert problem.problem.startswith("is ")
    assert problem.hint.startswith("give a ")


@pytest.mark.parametrize("path", PATHS)
def test_no_value_is_a_list_of_tables_or_a_number_beyond_all(home: Home, path: str) -> None:
    for value in ("[{ a = 1 }]", "1" + "0" * 400):
        assert home.problem(f"{path} = {value}").path == path


@pytest.mark.parametrize("path", PATHS)
def test_a_hint_never_mentions_python_none(home: Home, path: str) -> None:
    assert "None" not in home.problem(f"{path} = [[1]]").hint


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("settings = 3", "settings"),
        ("settings.limits = 3", "settings.limits"),
        ("agents = []", "agents"),
        ("agents.coder = 'claude'", "agents.coder"),
    ],
)
def test_a_value_in_place_of_a_table_is_refused(home: Home, text: str, path: str) -> None:
    problem = home.problem(text)

    assert problem.path == path
    assert f"write [{path}]" in problem.hint


def test_a_switch_is_true_or_false(home: Home) -> None:
    assert home.problem("settings.answers_for_children = 1").hint == "give true or false"


def test_names_in_messages_have_no_control_characters(home: Home) -> None:
    problem = home.problem('settings."\\u001b[2J\\u202e" = 1')

    assert str(problem).isprintable()


def test_a_value_in_a_message_is_short(home: Home) -> None:
    assert len(str(home.problem(f"settings.on_stall = '{'x' * 5000}'"))) < 400


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("settings.limits.tokens = 'none'", None),
        ("settings.limits.cost = 3", 3.0),
        ("settings.limits.wall_seconds = 1.5", 1.5),
    ],
)
def test_the_word_none_and_whole_numbers_are_accepted(home: Home, text: str, value: object) -> None:
    home.write("project", text)

    limits: Any = home.load().settings.limits

    assert getattr(limits, text.partition(" =")[0].rpartition(".")[2]) == value


def test_never_is_a_number_where_never_is_allowed(home: Home) -> None:
    home.write("project", "settings.suspend_after_seconds = inf")

    assert home.load().settings.suspend_after_seconds == math.inf
    assert home.problem("settings.exit_seconds = inf").path == "settings.exit_seconds"
