"""Agents are made of their tables; what they want of our environment is looked up at the start."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import supervisor
from supervisor.configuration import make_agents
from supervisor.core.errors import ConfigError
from supervisor.drivers.acp.agent import HANDSHAKE_SECONDS, AcpAgent, acp
from supervisor.drivers.process.port import LaunchFailed
from supervisor.drivers.python import PythonAgent
from tests.configuration.home import Home


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with agents in it."""

    async def librarian(turn: supervisor.Turn) -> str:
        return f"{turn.text} is lent out"

    module: Any = ModuleType("library")
    module.librarian = librarian
    module.decorated = supervisor.agent("somebody")(librarian)
    module.plain = lambda turn: "no"
    monkeypatch.setitem(sys.modules, "library", module)
    return module  # type: ignore[no-any-return]


def make(home: Home, text: str, **environ: str) -> list[Any]:
    home.write("project", text)
    return list(make_agents(home.load(), environ=environ))


def test_an_agent_of_acp_is_as_the_constructor_makes_it(home: Home) -> None:
    (made,) = make(
        home,
        """
        [agents.coder]
        command = ["coder", "--acp"]
        env = { A = "1", B = "$B" }
        auth = "key"
        mode = "plan"
        options.model = "large"
        mcp_servers.files = { command = "files -r", env.C = "$C" }
        mcp_servers.far = { url = "https://far/", transport = "sse", headers.X = "$C" }
        """,
        B="2",
        C="3",
    )

    servers = [
        {"name": "files", "command": "files", "args": ["-r"], "env": {"C": "3"}},
        {"type": "sse", "name": "far", "url": "https://far/", "headers": {"X": "3"}},
    ]
    meant = acp("coder", ["coder", "--acp"], env={"A": "1", "B": "2"}, auth="key", mode="plan")
    assert isinstance(made, AcpAgent)
    assert (made.name, made.command, made.auth, made.mode) == (
        "coder",
        meant.command,
        "key",
        "plan",
    )
    assert dict(made.env) == meant.env
    assert made.options == {"model": "large"}
    assert made.handshake_seconds == HANDSHAKE_SECONDS
    assert [
        {key: value if isinstance(value, str | list) else dict(value) for key, value in one.items()}
        for one in made.mcp_servers
    ] == servers


def test_what_an_agent_starts_with_is_what_the_environment_has_then(home: Home) -> None:
    environ: dict[str, str] = {}
    home.write("project", 'agents.coder = { command = "coder", env = { KEY = "$REAL" } }')
    (made,) = make_agents(home.load(), environ=environ)
    assert isinstance(made, AcpAgent)

    with pytest.raises(LaunchFailed, match="agent coder is to get \\$REAL"):
        made.launch(None)
    environ["REAL"] = "s3cret"

    assert made.launch(None).environment["KEY"] == "s3cret"
    assert "s3cret" not in repr(made)


def test_an_agent_without_what_its_servers_need_does_not_start(home: Home) -> None:
    text = 'agents.a = { command = "a", mcp_servers.far = { url = "u", headers.X = "$GONE" } }'

    (made,) = make(home, text)

    with pytest.raises(LaunchFailed, match="GONE"):
        made.launch(None)


@pytest.mark.parametrize("name", ["librarian", "decorated"])
def test_a_function_is_an_agent_by_the_name_of_its_table(
    home: Home, library: ModuleType, name: str
) -> None:
    (made,) = make(home, f'agents.clerk.function = "library:{name}"')

    assert made == PythonAgent("clerk", library.librarian)


def test_a_function_may_be_inside_something(home: Home) -> None:
    (made,) = make(home, 'agents.loud.function = "supervisor.drivers.builtin:echo.function"')

    assert made.name == "loud"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("library.missing:x", "ModuleNotFoundError"),
        ("library:nobody", "AttributeError"),
        ("library:plain", "no async function"),
        ("broken:x", "RuntimeError: 'on purpose'"),
    ],
)
def test_a_function_that_is_not_to_be_had_is_refused_with_its_place(
    home: Home, library: ModuleType, function: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write("broken.py", "raise RuntimeError('on purpose')")
    monkeypatch.syspath_prepend(str(home.folder))

    with pytest.raises(ConfigError, match=r"line 1: agents\.a is no agent") as refusal:
        make(home, f'agents.a.function = "{function}"')

    assert said in str(refusal.value)
    assert refusal.value.hint


def test_all_functions_that_are_not_to_be_had_are_said_at_once(home: Home) -> None:
    with pytest.raises(ConfigError, match="2 problems"):
        make(home, 'agents.a.function = "gone:a"\nagents.b.function = "gone:b"')


async def test_a_configured_agent_does_its_work(home: Home, library: ModuleType) -> None:
    home.write("project", 'agents.clerk = { function = "library:librarian", workspace = "." }')
    configuration = home.load()
    agents = make_agents(configuration, environ={})

    async with supervisor.open(agents=agents, settings=configuration.settings) as sup:
        defaults = configuration.agent("clerk").session_defaults()
        session = await sup.create("clerk", **defaults)
        result = await session.prompt("Emma")

        assert result.text == "Emma is lent out"
        assert (await session.info()).workspace == str(home.project)


async def test_a_configured_program_does_its_work_in_a_real_process(home: Home) -> None:
    home.write(
        "project",
        f"""
        [agents.actor]
        command = ["{sys.executable}", "-m", "supervisor.drivers.scripted"]
        env.PYTHONPATH = "$HERE"
        [agents.poor]
        command = "{sys.executable}"
        env.KEY = "$GONE"
        """,
    )
    configuration = home.load()
    here = str(Path(supervisor.__file__).parents[1])
    agents = make_agents(configuration, environ={"HERE": here})

    async with supervisor.open(agents=agents, settings=configuration.settings) as sup:
        session = await sup.create("actor")
        assert (await session.prompt("say hello")).text == "hello"

        with pytest.raises(supervisor.AgentStartFailed, match="poor"):
            await sup.create("poor")


def test_nothing_slow_is_imported_before_an_agent_is_made() -> None:
    source = Path(supervisor.__file__).parent / "configuration"
    early = [
        line
        for file in source.rglob("*.py")
        for line in file.read_text().splitlines()
        if line.startswith(("import trio", "from supervisor.drivers"))
    ]

    assert early == []
