"""What is printed says everything, covers secrets, and can be read again."""

import json
import math
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.config import Settings
from supervisor.configuration import Configuration, load, to_plain, values
from supervisor.configuration.loader import SCHEMA
from supervisor.configuration.schema import leaves
from supervisor.configuration.sources import dotted
from supervisor.core.errors import ConfigError
from supervisor.core.limits import Limits
from supervisor.core.redaction import REDACTED
from tests.support.config_home import Home

EVERYTHING = """
settings = { suspend_after_seconds = inf, turn_deadline_seconds = 5, limits.tokens = 9 }
daemon = { tcp_port = 8080, allowed_origins = ["http://localhost:3000"] }

[agents.claude]
preset = "claude"
auth = "login"
workspace = "~/src"
mode = "plan"
options = { fast = true, model = "m" }
handshake_seconds = 5
tools = "http"
subagents = true
env = { API_KEY = "hush-hush-1", PRICE = "$$5", TAKEN = "$HOME" }
permissions = { tools = ["b", "a"], skills = [], mode = "approve_all" }
limits = { max_children = 1 }
mcp_servers.files = { command = "files", env.TOKEN = "hush-hush-2" }
mcp_servers.far = { url = "https://u:hush-hush-3@far/", headers.Authorization = "hush-hush-4" }

[agents.print]
preset = "claude-print"

[agents.reader]
function = "a.b:c"
"""


def again(configuration: Configuration, path: Path) -> Configuration:
    path.write_text(json.dumps(to_plain(configuration, secrets="kept"), allow_nan=False))
    return load(cwd=path.parent, environ={"HOME": "/nowhere"}, path=path)


def same(one: Configuration, two: Configuration) -> bool:
    return (one.settings, one.agents, one.daemon) == (two.settings, two.agents, two.daemon)


def test_a_printed_configuration_can_be_loaded(home: Home) -> None:
    home.write("project", EVERYTHING)
    configuration = home.load()

    assert same(again(configuration, home.folder / "again.json"), configuration)


whole = st.integers(1, 1000)
seconds = st.floats(0, 1e300) | st.integers(0, 2**53)
limits = st.builds(Limits, max_depth=whole, tokens=st.none() | whole, cost=st.none() | seconds)
some_settings = st.builds(
    Settings,
    queue_cap=whole,
    exit_seconds=seconds,
    suspend_after_seconds=seconds | st.just(math.inf),
    answers_for_children=st.booleans(),
    on_stall=st.sampled_from(["notify", "stop"]),
    limits=limits,
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
environments = st.dictionaries(
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,4}", fullmatch=True), texts, max_size=3
)


@given(some_settings, environments, st.lists(texts, max_size=3))
def test_any_configuration_can_be_dumped_and_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    settings: Settings,
    env: dict[str, str],
    words: list[str],
) -> None:
    first: dict[str, Any] = {
        "settings": {
            **attrs.asdict(settings, filter=lambda _, value: not attrs.has(type(value))),
            "limits": attrs.asdict(settings.limits),
        },
        "agents": {
            "a": {
                "command": ["program", *words],
                "env": {
                    name: text.replace("$", "$$", 1) if text.startswith("$") else text
                    for name, text in env.items()
                },
            }
        },
    }
    folder = tmp_path_factory.mktemp("plain")
    configuration = load(
        cwd=None, environ={"HOME": str(folder), "XDG_CONFIG_DIRS": "/-"}, flags=flat(first)
    )

    assert configuration.settings == settings
    assert configuration.agent("a").env == env
    assert same(again(configuration, folder / "again.json"), configuration)


def flat(tables: dict[str, Any], at: str = "") -> dict[str, object]:
    """The tables as flags; what is None has to be said by its word."""
    found: dict[str, object] = {}
    for name, value in tables.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{at}{name}.")
        elif value != {}:
            found[f"{at}{name}"] = "none" if value is None else value
    return found


def test_secrets_are_redacted_unless_requested(home: Home) -> None:
    home.write("project", EVERYTHING)
    configuration = home.load()

    assert "hush" not in json.dumps(to_plain(configuration))
    assert "hush" not in str(values(configuration))
    assert json.dumps(to_plain(configuration, secrets="kept")).count("hush-hush-") == 4


@pytest.mark.parametrize(
    "table",
    [
        f'env.KEY = "{REDACTED}"',
        f'command = ["program", "--token={REDACTED}"]',
        f'mcp_servers.far.url = "https://u:{REDACTED}@far/"',
    ],
)
def test_a_redacted_value_is_refused(home: Home, table: str) -> None:
    program = "" if table.startswith("command") else 'command = "program"\n'

    assert "redacted" in home.problem(f"[agents.a]\n{program}{table}").hint


def test_every_value_is_listed_with_its_origin(home: Home) -> None:
    home.write("project", EVERYTHING)

    listed = {path: (value, origin) for path, value, origin in values(home.load())}

    assert {dotted(path) for path in leaves(SCHEMA)} <= listed.keys()
    value, origin = listed["settings.limits.tokens"]
    assert (value, origin.line) == (9, 2)
    assert listed["agents.claude.limits.tokens"] == (value, origin)
    assert listed["agents.claude.limits.max_depth"][1].kind == "default"
    assert listed["agents.claude.command"][1].kind == "preset"
    assert listed["agents.claude.env.TAKEN"][0] == {"from": "HOME"}


def test_origins_are_refused_in_a_toml_file(home: Home) -> None:
    home.write("project", "origins = {}")

    with pytest.raises(ConfigError, match="origins is not a setting"):
        home.load()
