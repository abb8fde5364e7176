"""Whatever a file says, it is read or refused: nothing else happens."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.configuration import check, load
from supervisor.configuration.agent_schema import AGENT
from supervisor.configuration.loader import SCHEMA
from supervisor.configuration.schema import leaves
from supervisor.core.errors import ConfigError

# Names that mean something where they are, somewhere else, or nowhere.
NAMES = sorted({part for path in (*leaves(SCHEMA), *leaves(AGENT)) for part in path})
names = st.sampled_from([*NAMES, "from", "agents", "env", "options", "x", "", "\x1b[2J"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "none", "inf", "$A", "$$", "claude", "acp", "python", "a:b", "~/x"])
    | st.text(st.characters(codec="utf-8"), max_size=5)
)
anything = st.recursive(
    scalars,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(names, inside, max_size=4),
    max_leaves=12,
)
agents = st.dictionaries(st.sampled_from(list(AGENT.nodes)), anything, min_size=1, max_size=4)
files = st.fixed_dictionaries(
    {},
    optional={
        "settings": anything,
        "daemon": anything,
        "agents": st.dictionaries(st.sampled_from("abc"), agents, max_size=3) | anything,
        "other": anything,
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("anything")


@given(files)
def test_check_and_load_agree_on_any_text(folder: Path, tables: dict[str, object]) -> None:
    path = folder / "any.json"
    path.write_text(json.dumps(tables))
    environ = {"HOME": str(folder)}

    problems = check(path, environ=environ)
    refused: ConfigError | None = None
    try:
        load(cwd=None, environ=environ, path=path)
    except ConfigError as error:
        refused = error

    assert (refused is not None) == bool(problems)
    assert all(str(problem).isprintable() and problem.hint for problem in problems)


@given(st.dictionaries(st.text(max_size=20) | names.map("settings.{}".format), anything))
def test_any_flags_are_read_or_refused(folder: Path, flags: dict[str, object]) -> None:
    environ = {"HOME": str(folder), "XDG_CONFIG_DIRS": str(folder)}

    for problem in check(environ=environ, flags=flags):
        assert str(problem).isprintable()
