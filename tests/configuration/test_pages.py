"""The pages of the configuration say what the code has, no more and no less."""

import re
from pathlib import Path

import pytest

from supervisor.config import Settings
from supervisor.configuration import check, presets
from supervisor.configuration.agent_assembly import DRIVER_OPTIONS
from supervisor.configuration.agent_schema import AGENT, MCP_SERVER
from supervisor.configuration.loader import SCHEMA
from supervisor.configuration.schema import EXAMPLE, Leaf, Node, OpenTable, leaves
from supervisor.configuration.sources import dotted
from supervisor.configuration.toml_file import MAX_BYTES
from tests.support.config_home import Home

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = (DOCS / "reference/settings.md").read_text()
SETTING = re.compile(r"^\| `((?:settings|daemon)\.[\w.]+)` \| `([^`]+)` \| .+ \|$", re.MULTILINE)
KEY = re.compile(r"^\| `([\w.]+)` \| (all|[a-z, ]+) \| .+ \|$", re.MULTILINE)
PRESET = re.compile(r"^\| `([\w-]+)` \| (\w+) \| `([^`]+)` \| (.+) \|$", re.MULTILINE)
EXAMPLES = [
    pytest.param(text, id=f"{page}-{number}")
    for page in ("how-to/agents", "how-to/configure", "reference/settings", "tutorial/daemon")
    for number, text in enumerate(
        re.findall(
            r"^```toml\n(.*?)^```$", (DOCS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE
        )
    )
]
PLACES = {"daemon.socket", "daemon.state_folder"}  # by default they depend on who runs it


def as_toml(value: object) -> str:
    match value:
        case None:
            return '"none"'
        case str():
            return f'"{value}"'
        case bool():
            return str(value).lower()
        case tuple():
            return str(list(value))
        case _:
            return str(value)


def test_the_page_lists_every_setting_with_its_default() -> None:
    expected = {}
    for path in leaves(SCHEMA):
        value: object = Settings() if path[0] == "settings" else EXAMPLE
        for part in path[1:]:
            value = getattr(value, part)
        expected[dotted(path)] = as_toml(value)

    listed = dict(SETTING.findall(SETTINGS))

    assert listed.keys() == expected.keys()
    assert {path for path, default in listed.items() if default != expected[path]} == PLACES


def keys_of(node: Node, at: str = "") -> set[str]:
    if isinstance(node, Leaf):
        return {at}
    if isinstance(node, OpenTable):
        word = {
            "env": "VARIABLE",
            "headers": "HEADER",
            "mcp_servers": "SERVER",
            "options": "OPTION",
        }
        return keys_of(node.node, f"{at}.{word[at.rpartition('.')[2]]}")
    return {
        key
        for name, inside in node.nodes.items()
        for key in keys_of(inside, f"{at}.{name}".removeprefix("."))
    }


def test_the_page_lists_every_agent_key_with_its_drivers() -> None:
    keys = {key for key in keys_of(AGENT) if not key.startswith("limits.")} | {"limits.LIMIT"}
    drivers = {
        key: ", ".join(
            driver
            for driver, options in sorted(DRIVER_OPTIONS.items())
            if key.partition(".")[0] in options
        )
        for key in keys
    }

    section = SETTINGS.partition("## `[agents.NAME]`")[2].partition("## Presets")[0]

    assert dict(KEY.findall(section)) == {key: said or "all" for key, said in drivers.items()}
    assert MCP_SERVER.nodes.keys() == {"command", "env", "url", "transport", "headers"}


def test_the_page_lists_every_preset() -> None:
    section = SETTINGS.partition("## Presets")[2]

    assert PRESET.findall(section) == [
        (preset.name, preset.driver, " ".join(preset.command), preset.hint)
        for preset in presets({})
    ]


def test_the_page_says_how_large_a_file_may_be() -> None:
    assert f"{MAX_BYTES:,} bytes" in SETTINGS


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_can_be_loaded(home: Home, text: str) -> None:
    # The functions of the examples are those of a reader.
    found = check(home.write("example.toml", text))

    assert [one for one in found if "could not be imported" not in one.problem] == []
