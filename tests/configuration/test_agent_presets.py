"""Presets: agents that many people have, found or not."""

import re
import stat
from pathlib import Path

import pytest

from supervisor.configuration import find_program, presets
from supervisor.configuration.agent_presets import PRESET_NAMES, login_help
from supervisor.configuration.agent_schema import BUILT_IN
from tests.support.config_home import Home


def install(home: Home, program: str) -> Path:
    path = home.write(f"bin/{program}", "#!/bin/sh\n")
    path.chmod(stat.S_IRWXU)
    return path


def test_a_preset_reports_whether_its_program_is_installed(home: Home) -> None:
    path = install(home, "gemini")

    found = {preset.name: preset.found_at for preset in presets(home.environ)}

    assert found.pop("gemini") == str(path)
    assert set(found.values()) == {None}


def test_every_acp_preset_says_how_to_log_in() -> None:
    known = {preset.name: preset.driver for preset in presets({})}

    helps = {name: login_help(name) for name in known}

    assert {name for name, found in helps.items() if found is None} == {
        name for name, driver in known.items() if driver == "command"
    }
    assert all(found.preset == name for name, found in helps.items() if found is not None)


def test_the_older_name_of_a_program_is_found(home: Home) -> None:
    (before,) = (preset for preset in presets(home.environ) if preset.name == "claude")
    install(home, "claude-code-acp")
    (after,) = (preset for preset in presets(home.environ) if preset.name == "claude")

    assert (before.command, before.found_at) == (("claude-agent-acp",), None)
    assert after.command == ("claude-code-acp",)


def test_without_path_no_preset_is_installed() -> None:
    assert {preset.found_at for preset in presets({})} == {None}
    assert find_program(("sh",), {}) is None


def test_every_preset_says_how_to_get_it_and_names_no_host(home: Home) -> None:
    for preset in presets(home.environ):
        assert preset.hint
        assert not re.search(r"https?:|www\.|\.(com|org|io|dev)\b", preset.hint)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_makes_an_agent(home: Home, name: str) -> None:
    home.write("project", f'agents.mine.preset = "{name}"')

    configuration = home.load()

    (preset,) = (preset for preset in presets(home.environ) if preset.name == name)
    agent = configuration.agent("mine")
    assert (agent.driver, agent.command) == (preset.driver, preset.command)
    assert str(configuration.origins["agents.mine.command"]) == f"preset {name}"


def test_an_agents_own_table_wins_over_its_preset(home: Home) -> None:
    home.write("project", 'agents.mine = { preset = "gemini", command = "gemini --old" }')

    configuration = home.load()

    assert configuration.agent("mine").command == ("gemini", "--old")
    assert configuration.origins["agents.mine.command"].kind == "file"


def test_no_preset_has_the_name_of_a_built_in_agent() -> None:
    assert not set(PRESET_NAMES) & set(BUILT_IN)
