"""Agents are made of their tables, as a program would make them."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

import supervisor
from supervisor.configuration import agent_table, make_agents
from supervisor.core.errors import ConfigError
from supervisor.drivers.acp.agent import AcpAgent, acp
from supervisor.drivers.agent_tools import ToolsSetting
from supervisor.drivers.command.agent import command
from supervisor.drivers.command.template import OutputForm
from supervisor.drivers.confined import Confined
from supervisor.drivers.python import PythonAgent
from tests.support.config_home import Home


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


def test_a_configured_acp_agent_equals_a_constructed_agent(home: Home) -> None:
    (made,) = make(
        home,
        """
        [agents.coder]
        command = ["coder", "--acp"]
        env = { A = "1", B = "$B", D = "$$literal" }
        auth = "key"
        mode = "plan"
        options.model = "large"
        mcp_servers.files = { command = "files -r", env.C = "$C" }
        mcp_servers.far = { url = "https://far/", transport = "sse", headers.X = "$C" }
        """,
        B="2",
        C="3",
    )

    meant = acp(
        "coder",
        ["coder", "--acp"],
        env={"A": "1", "B": "$B", "D": "$$literal"},
        auth="key",
        mode="plan",
        options={"model": "large"},
        mcp_servers=[
            {"name": "files", "command": "files", "args": ["-r"], "env": {"C": "$C"}},
            {"type": "sse", "name": "far", "url": "https://far/", "headers": {"X": "$C"}},
        ],
    )
    assert made == meant
    assert made.launch(None).environment.items() >= {("A", "1"), ("B", "2"), ("D", "$literal")}
    assert [one.get("env") or one["headers"] for one in made.resolved_servers()] == [
        {"C": "3"},
        {"X": "3"},
    ]


def test_a_configured_command_agent_equals_a_constructed_agent(home: Home) -> None:
    (made,) = make(
        home,
        """
        [agents.helper]
        driver = "command"
        command = ["helper", "{prompt}"]
        env.A = "$B"
        resume_command = "helper --again {session_id}"
        text = "[type=answer].text"
        session_id_at = "id"
        """,
        B="2",
    )

    meant = command(
        "helper",
        ["helper", "{prompt}"],
        env={"A": "$B"},
        resume_command=["helper", "--again", "{session_id}"],
        text="[type=answer].text",
        session_id_at="id",
    )
    assert made == meant
    launch = made.launch(None, prompt="x", session_id=None, new_session_id="f")
    assert launch.environment["A"] == "2"


def test_the_output_formats_match_the_driver() -> None:
    assert get_args(agent_table.OutputForm) == get_args(OutputForm)


def test_tools_are_handed_over_as_the_driver_can() -> None:
    assert get_args(agent_table.ToolsChoice) == get_args(ToolsSetting)


@pytest.mark.parametrize("tools", get_args(ToolsSetting))
def test_an_agent_gets_its_setting_of_tools(home: Home, tools: ToolsSetting) -> None:
    (made,) = make(home, f'[agents.coder]\ncommand = ["x"]\ntools = "{tools}"')

    assert made == acp("coder", ["x"], tools=tools)


@pytest.mark.parametrize("word", ["true", "false"])
def test_an_agent_gets_its_setting_of_subagents(home: Home, word: str) -> None:
    (made,) = make(home, f'[agents.coder]\ncommand = ["x"]\nsubagents = {word}')

    assert made == acp("coder", ["x"], subagents=word == "true")


def test_session_defaults_of_a_table_confine_its_agent(home: Home) -> None:
    text = 'agents.a = { command = "a", workspace = "/srv", permissions.tools = ["read"] }'

    (made,) = make(home, text)

    assert isinstance(made, Confined)
    assert (made.name, made.workspace, made.limits) == ("a", "/srv", None)
    assert made.permissions == supervisor.Permissions(tools=["read"])


def test_variables_are_looked_up_at_each_start(home: Home) -> None:
    environ: dict[str, str] = {}
    home.write("project", 'agents.coder = { command = "coder", env = { KEY = "$REAL" } }')
    (made,) = make_agents(home.load(), environ=environ)
    assert isinstance(made, AcpAgent)

    with pytest.raises(ConfigError, match="agent coder needs \\$REAL"):
        made.launch(None)
    environ["REAL"] = "s3cret"

    assert made.launch(None).environment["KEY"] == "s3cret"
    assert "s3cret" not in repr(made)


def test_an_agent_with_a_missing_server_variable_does_not_start(home: Home) -> None:
    text = 'agents.a = { command = "a", mcp_servers.far = { url = "u", headers.X = "$GONE" } }'

    (made,) = make(home, text)

    with pytest.raises(ConfigError, match="GONE"):
        made.launch(None)


COMMAND_PRESETS = {
    "claude-print": [
        {"type": "system", "subtype": "init", "session_id": "c-1"},
        {"type": "assistant", "session_id": "c-1", "message": {"content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "an answer"},
        ]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x"}]}},
        {"type": "result", "subtype": "success", "result": "an answer", "session_id": "c-1"},
    ],
    "codex-exec": [
        {"type": "thread.started", "thread_id": "c-1"},
        {"type": "turn.started"},
        {"type": "item.started", "item": {"id": "1", "type": "command_execution"}},
        {"type": "item.completed", "item": {"id": "0", "type": "reasoning", "text": "hm"}},
        {"type": "item.completed", "item": {"id": "2", "type": "agent_message",
                                            "text": "an answer"}},
        {"type": "turn.completed", "usage": {"input_tokens": 1}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMAND_PRESETS)
def test_a_command_preset_parses_output_and_continues_its_conversation(
    home: Home, name: str
) -> None:
    (made,) = make(home, f'agents.a.preset = "{name}"')
    output = made.new_output()

    said = output.feed(
        b"".join(json.dumps(line).encode() + b"\n" for line in COMMAND_PRESETS[name])
    )

    assert said == ["an answer"]
    assert output.session_id == "c-1"
    assert "c-1" in made.launch(None, prompt="x", session_id="c-1", new_session_id="f").command
    assert "f" not in made.launch(None, prompt="x", session_id=None, new_session_id="f").command


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
        ("library:plain", "not an async function"),
        ("broken:x", "RuntimeError: 'on purpose'"),
    ],
)
def test_a_function_that_cannot_be_imported_is_refused_with_its_origin(
    home: Home, library: ModuleType, function: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write("broken.py", "raise RuntimeError('on purpose')")
    monkeypatch.syspath_prepend(str(home.folder))

    with pytest.raises(ConfigError, match=r"line 1: agents\.a is not an agent") as refusal:
        make(home, f'agents.a.function = "{function}"')

    assert said in str(refusal.value)
    assert refusal.value.hint


def test_all_functions_that_cannot_be_imported_are_reported_at_once(home: Home) -> None:
    with pytest.raises(ConfigError, match="2 problems"):
        make(home, 'agents.a.function = "gone:a"\nagents.b.function = "gone:b"')


async def test_a_configured_agent_does_its_work(home: Home, library: ModuleType) -> None:
    home.write("project", 'agents.clerk = { function = "library:librarian", workspace = "." }')
    configuration = home.load()
    agents = make_agents(configuration, environ={})

    async with supervisor.open(agents=agents, settings=configuration.settings) as sup:
        session = await sup.create("clerk")
        result = await session.prompt("Emma")

        assert result.text == "Emma is lent out"
        assert (await session.info()).workspace == str(home.project)


async def test_configured_programs_do_their_work_in_real_processes(home: Home) -> None:
    home.write(
        "project",
        f"""
        [agents.actor]
        command = ["{sys.executable}", "-m", "supervisor.drivers.scripted"]
        env.PYTHONPATH = "$HERE"
        [agents.copy]
        driver = "command"
        command = "cat"
        [agents.poor]
        command = "{sys.executable}"
        env.KEY = "$GONE"
        """,
    )
    configuration = home.load()
    here = str(Path(supervisor.__file__).parents[1])
    agents = make_agents(configuration, environ={"HERE": here})

    async with supervisor.open(agents=agents, settings=configuration.settings) as sup:
        for agent, text in (("actor", "say hello"), ("copy", "hello")):
            session = await sup.create(agent)
            assert (await session.prompt(text)).text == "hello"

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
