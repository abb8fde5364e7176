"""Files, environment and flags lie upon each other, and every value knows which of them it is."""

from pathlib import Path

import pytest

from supervisor.config import Settings
from supervisor.configuration import Origin, check, load
from supervisor.core.errors import ConfigError
from tests.support.config_home import Home


def test_without_a_file_all_values_are_defaults(home: Home) -> None:
    configuration = home.load()

    assert configuration.settings == Settings()
    assert configuration.agents == ()
    assert configuration.files == ()
    assert set(configuration.origins.values()) == {Origin("default")}


def test_the_later_layer_wins(home: Home) -> None:
    layers = ["system", "user", "project"]
    for place, cap in zip(layers, (1, 2, 3), strict=True):
        home.write(place, f"settings.queue_cap = {cap}")

    configuration = home.load()
    assert configuration.settings.queue_cap == 3
    assert [Path(file).parent.name for file in configuration.files] == [
        *("understudy", "understudy", "project")
    ]
    assert home.load(UNDERSTUDY_QUEUE_CAP="4").settings.queue_cap == 4
    flags: dict[str, object] = {"settings.queue_cap": 5}
    assert home.load(UNDERSTUDY_QUEUE_CAP="4", flags=flags).settings.queue_cap == 5


def test_layers_are_merged_value_by_value(home: Home) -> None:
    home.write("user", "[settings.limits]\nmax_depth = 1\nmax_children = 2")
    home.write("project", "[settings.limits]\nmax_children = 3")

    limits = home.load().settings.limits

    assert (limits.max_depth, limits.max_children, limits.max_spawns) == (1, 3, 200)


def test_every_value_has_its_origin(home: Home) -> None:
    file = home.write("project", "[settings]\n\nqueue_cap = 3\n")
    flags: dict[str, object] = {"settings.exit_seconds": "1"}

    origins = home.load(UNDERSTUDY_MAX_SESSIONS="9", flags=flags).origins

    assert origins["settings.queue_cap"] == Origin("file", str(file), 3)
    assert str(origins["settings.queue_cap"]) == f"{file} line 3"
    assert str(origins["settings.max_sessions"]) == "$UNDERSTUDY_MAX_SESSIONS"
    assert str(origins["settings.exit_seconds"]) == "flag settings.exit_seconds"
    assert str(origins["settings.on_stall"]) == "default"


def test_the_first_system_folder_wins(home: Home) -> None:
    home.write("etc/understudy/understudy.toml", "settings.queue_cap = 1")
    home.write("far/understudy/understudy.toml", "settings.queue_cap = 2")

    configuration = home.load(XDG_CONFIG_DIRS=f"{home.folder}/etc:far:{home.folder}/far")

    assert configuration.settings.queue_cap == 1


def test_the_project_file_is_searched_in_cwd_only(home: Home) -> None:
    home.write("understudy.toml", "settings.queue_cap = 9")

    assert home.load().settings.queue_cap == 10


def test_without_cwd_there_is_no_project_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("project", "settings.queue_cap = 9")
    monkeypatch.chdir(home.project)

    assert load(cwd=None, environ=home.environ).settings.queue_cap == 10


def test_a_file_of_both_project_and_user_is_read_once(home: Home) -> None:
    file = home.write("user", "settings.queue_cap = 9")

    configuration = load(cwd=file.parent, environ=home.environ)

    assert configuration.files == (str(file),)


def test_a_named_file_replaces_all_other_files(home: Home) -> None:
    home.write("project", "settings.queue_cap = 9\nsettings.max_sessions = 8")
    home.write("project/other.toml", "settings.queue_cap = 7")

    for configuration in (
        home.load(path="other.toml"),
        home.load(UNDERSTUDY_CONFIG="~/project/other.toml"),
    ):
        assert configuration.settings == Settings(queue_cap=7)


def test_a_named_file_must_exist(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: file not found") as refusal:
        home.load(path="nowhere.toml")

    assert "check the path" in refusal.value.hint


def test_one_file_can_be_checked_alone(home: Home) -> None:
    right = home.write("right.toml", "settings.queue_cap = 9")
    wrong = home.write("wrong.toml", "settings.queue_cap = 0")

    assert check(right) == []
    assert [problem.path for problem in check(wrong)] == ["settings.queue_cap"]
    assert [problem.problem for problem in check(home.folder / "none")] == ["file not found"]


def test_without_home_the_user_database_is_used(home: Home) -> None:
    environ = {"XDG_CONFIG_HOME": str(home.folder), "XDG_CONFIG_DIRS": str(home.folder)}

    configuration = load(cwd=home.project, environ=environ)

    assert configuration.daemon.state_folder.startswith("/")
