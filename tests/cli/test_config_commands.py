"""`understudy agents` and `understudy config`."""

from pathlib import Path

import pytest

from tests.support.cli_runner import Caller


def write(home: Path, text: str) -> None:
    file = home / "understudy.toml"
    file.write_text(text)
    file.chmod(0o600)


def test_built_in_agents_are_always_ready(call: Caller) -> None:
    found = {one["name"]: one for one in call("agents", "--json").json["items"]}

    assert found["echo"]["installed"]
    assert found["scripted"]["source"] == "built-in"


def test_a_missing_preset_has_an_installation_hint(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    shown = call("agents").out

    assert "codex" in shown
    assert "npm install" in shown


def test_every_preset_is_listed_as_found_or_not(
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


def test_configured_agents_are_listed_with_missing_variables(call: Caller, home: Path) -> None:
    write(
        home, '[agents.mine]\ncommand = ["no-such-program"]\n[agents.mine.env]\nKEY = "$NOT_SET"\n'
    )

    (mine,) = [one for one in call("agents", "--json").json["items"] if one["name"] == "mine"]

    assert (mine["source"], mine["installed"]) == ("configured", False)
    assert mine["missing"] == "set $NOT_SET in its environment"


def test_config_get_prints_one_bare_value(call: Caller, home: Path) -> None:
    write(home, '[settings]\nqueue_cap = 20\n[daemon]\nsocket = "/run/x.sock"\n')

    assert call("config", "get", "daemon.socket").out == "/run/x.sock\n"
    assert call("config", "get", "settings.queue_cap").out == "20\n"
    told = call("config", "get", "settings.queue_cap", "--json").json
    assert told["from"] == f"{home}/understudy.toml line 2"


def test_config_get_refuses_an_unknown_setting(call: Caller) -> None:
    done = call("config", "get", "daemon.sockt")

    assert done.code == 3
    assert "did you mean daemon.socket?" in done.err


@pytest.mark.parametrize("option", [["--json"], ["--config", "x.toml"]])
def test_options_before_a_config_subcommand_are_refused(call: Caller, option: list[str]) -> None:
    done = call("config", *option, "token")

    assert done.code == 2
    assert "Write options after token." in done.err


def test_config_shows_each_value_and_its_origin(
    call: Caller, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "[settings]\nqueue_cap = 20\n")
    monkeypatch.setenv("UNDERSTUDY_EXIT_SECONDS", "2.5")

    lines = [line.split(None, 2) for line in call("config").out.splitlines()]
    shown = {line[0]: line[1:] for line in lines}

    assert shown["settings.queue_cap"] == ["20", f"{home}/understudy.toml line 2"]
    assert shown["settings.exit_seconds"] == ["2.5", "$UNDERSTUDY_EXIT_SECONDS"]
    assert shown["settings.on_stall"] == ['"notify"', "default"]


def test_config_json_can_be_loaded_again(call: Caller, home: Path) -> None:
    write(home, "[settings]\nqueue_cap = 20\n")
    copy = home / "copy.json"
    copy.write_text(call("config", "--json").out)
    copy.chmod(0o600)

    again = call("config", "--config", copy, "--json").json

    assert again["settings"]["queue_cap"] == 20


def test_an_invalid_configuration_is_reported_before_any_work(call: Caller, home: Path) -> None:
    write(home, "[settings]\nqueue_cup = 20\n")

    for command in (["config"], ["agents"], ["run", "hello"]):
        done = call(*command)
        assert done.code == 1
        assert "queue_cup" in done.err
        assert "hint: did you mean" in done.err


def test_config_check_lists_all_problems(call: Caller, home: Path) -> None:
    assert call("config", "check").code == 0

    write(home, "[settings]\nqueue_cup = 20\non_stall = 3\n")
    done = call("config", "check")

    assert done.code == 1
    assert "queue_cup" in done.out
    assert "on_stall" in done.out
    assert len(call("config", "check", "--json").json["items"]) == 2


def test_config_check_reads_the_named_file(call: Caller, home: Path) -> None:
    write(home, "[settings]\nqueue_cup = 20\n")

    assert call("config", "check", home / "understudy.toml").code == 1
    assert call("config", "check", home / "missing.toml").code == 3


def test_a_missing_file_in_the_environment_is_not_found(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", "/nowhere/understudy.toml")

    for command in (["ps"], ["config"], ["config", "check"]):
        done = call(*command)
        assert done.code == 3
        assert "hint: correct or unset $UNDERSTUDY_CONFIG\n" in done.err


NOT_IMPORTABLE = '[agents.greeter]\nfunction = "greeter_agents:greeter"\n'


def test_config_check_reports_a_function_that_cannot_be_imported(call: Caller, home: Path) -> None:
    write(home, NOT_IMPORTABLE)

    done = call("config", "check")

    assert done.code == 1
    assert "greeter_agents:greeter could not be imported" in done.out
    assert done.err == "1 problem.\n"


def test_agents_lists_a_function_that_cannot_be_imported_as_not_ready(
    call: Caller, home: Path
) -> None:
    write(home, NOT_IMPORTABLE)

    (greeter,) = [one for one in call("agents", "--json").json["items"] if one["name"] == "greeter"]

    assert not greeter["installed"]
    assert "could not be imported" in greeter["missing"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("x = ", []),
        ("", ["--config", "missing.toml"]),
        ("", ["--tcp", "99999"]),
        ("", ["--socket", "x" * 120]),
        (NOT_IMPORTABLE, []),
    ],
)
def test_serve_exits_with_2_on_an_invalid_configuration(
    call: Caller, home: Path, text: str, options: list[str]
) -> None:
    """The systemd unit does not restart a daemon that exits with 2."""
    write(home, text)

    assert call("serve", *options).code == 2


def test_a_problem_of_an_option_is_told_by_the_name_of_the_option(call: Caller) -> None:
    assert call("serve", "--tcp", "99999").err.startswith("error: --tcp is 99999\n")


def test_a_setting_without_a_value_is_printed_as_in_a_file(call: Caller) -> None:
    (line,) = [one for one in call("config").out.splitlines() if "turn_deadline_seconds" in one]

    assert '"none"' in line
    assert call("config", "get", "settings.turn_deadline_seconds").out == "none\n"


def test_a_problem_of_a_whole_file_has_one_blank_after_its_path(call: Caller, home: Path) -> None:
    write(home, "x = ")

    assert "understudy.toml: is not TOML" in call("config", "check").out


def test_config_token_fails_without_a_token_file(call: Caller) -> None:
    done = call("config", "token")

    assert done.code == 1
    assert "no token at" in done.err
