"""agents, config: what is there, and where it comes from."""

from pathlib import Path

import pytest

from tests.cli.calling import Caller


def write(home: Path, text: str) -> None:
    file = home / "understudy.toml"
    file.write_text(text)
    file.chmod(0o600)


def test_agents_that_are_built_in_are_always_ready(call: Caller) -> None:
    found = {one["name"]: one for one in call("agents", "--json").json}

    assert found["echo"]["ready"]
    assert found["scripted"]["origin"] == "built in"


def test_a_preset_that_is_not_installed_says_how_to_get_it(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    shown = call("agents").out

    assert "codex" in shown
    assert "npm install" in shown


def test_every_preset_is_said_to_be_found_or_not(
    call: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "gemini"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    presets = [line for line in call("agents").out.splitlines() if " preset " in line]

    assert len(presets) > 10
    found = [line.split()[0] for line in presets if " not found " not in line]
    assert found == ["gemini"]
    assert all(" found " in line for line in presets)


def test_agents_of_the_configuration_are_listed_with_what_is_missing(
    call: Caller, home: Path
) -> None:
    write(
        home, '[agents.mine]\ncommand = ["no-such-program"]\n[agents.mine.env]\nKEY = "$NOT_SET"\n'
    )

    (mine,) = [one for one in call("agents", "--json").json if one["name"] == "mine"]

    assert (mine["origin"], mine["ready"]) == ("configured", False)
    assert mine["hint"] == "set $NOT_SET where it is started"


def test_config_gives_one_value_bare(call: Caller, home: Path) -> None:
    write(home, '[settings]\nqueue_cap = 20\n[daemon]\nsocket = "/run/x.sock"\n')

    assert call("config", "get", "daemon.socket").out == "/run/x.sock\n"
    assert call("config", "get", "settings.queue_cap").out == "20\n"
    told = call("config", "get", "settings.queue_cap", "--json").json
    assert told["from"] == f"{home}/understudy.toml line 2"


def test_config_does_not_know_every_word(call: Caller) -> None:
    done = call("config", "get", "daemon.sockt")

    assert done.code == 3
    assert "did you mean daemon.socket?" in done.err


@pytest.mark.parametrize("option", [["--json"], ["--config", "x.toml"]])
def test_an_option_of_config_is_not_passed_over_because_of_where_it_stands(
    call: Caller, option: list[str]
) -> None:
    done = call("config", *option, "token")

    assert done.code == 2
    assert "Write options after token." in done.err


def test_config_shows_each_value_and_where_it_comes_from(
    call: Caller, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "[settings]\nqueue_cap = 20\n")
    monkeypatch.setenv("UNDERSTUDY_EXIT_SECONDS", "2.5")

    lines = [line.split(None, 2) for line in call("config").out.splitlines()]
    shown = {line[0]: line[1:] for line in lines}

    assert shown["settings.queue_cap"] == ["20", f"{home}/understudy.toml line 2"]
    assert shown["settings.exit_seconds"] == ["2.5", "$UNDERSTUDY_EXIT_SECONDS"]
    assert shown["settings.on_stall"] == ['"notify"', "default"]


def test_config_can_be_read_again_from_its_own_json(call: Caller, home: Path) -> None:
    write(home, "[settings]\nqueue_cap = 20\n")
    copy = home / "copy.json"
    copy.write_text(call("config", "--json").out)
    copy.chmod(0o600)

    again = call("config", "--config", copy, "--json").json

    assert again["settings"]["queue_cap"] == 20


def test_a_wrong_configuration_is_said_before_anything_is_done(call: Caller, home: Path) -> None:
    write(home, "[settings]\nqueue_cup = 20\n")

    for command in (["config"], ["agents"], ["run", "hello"]):
        done = call(*command)
        assert done.code == 1
        assert "queue_cup" in done.err
        assert "hint: did you mean" in done.err


def test_config_check_says_all_that_is_wrong(call: Caller, home: Path) -> None:
    assert call("config", "check").code == 0

    write(home, "[settings]\nqueue_cup = 20\non_stall = 3\n")
    done = call("config", "check")

    assert done.code == 1
    assert "queue_cup" in done.out
    assert "on_stall" in done.out
    assert len(call("config", "check", "--json").json) == 2


def test_config_check_looks_at_the_file_that_is_named(call: Caller, home: Path) -> None:
    assert call("config", "check", home / "missing.toml").code == 1


def test_there_is_no_token_before_a_daemon_has_made_one(call: Caller) -> None:
    done = call("config", "token")

    assert done.code == 1
    assert "there is no token" in done.err
