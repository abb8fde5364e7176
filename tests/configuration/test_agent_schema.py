"""An agent's table says what it is, and whatever cannot be meant is refused."""

import pytest

from supervisor.configuration import AgentMcpServer, FromEnvironment
from supervisor.configuration.agent_schema import BUILT_IN
from supervisor.core.errors import AgentUnknown, ConfigError
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.drivers import builtin
from tests.support.config_home import Home


def test_an_agent_of_each_kind(home: Home) -> None:
    home.write(
        "project",
        """
        [agents.coder]
        command = ["coder", "--acp"]
        auth = "api-key"
        mode = "plan"
        options = { model = "large", verbose = true }
        handshake_seconds = 5
        tools = "off"
        subagents = true

        [agents.writer]
        driver = "command"
        command = 'writer "one word"'
        resume_command = ["writer", "{session_id}"]
        text = "message[kind=text].text"

        [agents.reader]
        function = "library.readers:slow"
        """,
    )

    coder, writer, reader = home.load().agents

    assert (coder.name, coder.driver, coder.command) == ("coder", "acp", ("coder", "--acp"))
    assert (coder.auth, coder.mode, coder.handshake_seconds) == ("api-key", "plan", 5.0)
    assert (coder.tools, coder.subagents) == ("off", True)
    assert coder.options == {"model": "large", "verbose": True}
    assert (writer.driver, writer.command) == ("command", ("writer", "one word"))
    assert (writer.resume_command, writer.text) == (
        ("writer", "{session_id}"),
        "message[kind=text].text",
    )
    assert (reader.driver, reader.function) == ("python", "library.readers:slow")


def test_an_agent_table_sets_defaults_of_its_sessions(home: Home) -> None:
    home.write(
        "project",
        """
        settings.limits.max_depth = 1
        [agents.coder]
        command = "coder"
        workspace = "src"
        limits.max_children = 2
        permissions = { tools = ["read"], skills = [], mode = "deny_all" }
        """,
    )

    assert home.load().agent("coder").session_defaults() == {
        "workspace": str(home.project / "src"),
        "limits": Limits(max_depth=1, max_children=2),
        "permissions": Permissions(tools=["read"], skills=[], mode="deny_all"),
    }


def test_an_agent_with_empty_tables_has_no_session_defaults(
    home: Home,
) -> None:
    home.write("project", 'agents.coder = { command = "coder", permissions = {}, limits = {} }')

    assert home.load().agent("coder").session_defaults() == {}


def test_a_value_of_the_environment_is_looked_up_later(home: Home) -> None:
    home.write(
        "project",
        """
        [agents.coder]
        command = "coder"
        env = { KEY = "$REAL_KEY", TOO = { from = "OTHER" }, PRICE = "$$5", PLAIN = "a$b" }
        """,
    )

    agent = home.load(REAL_KEY="s3cret").agent("coder")

    assert agent.env == {
        "KEY": FromEnvironment("REAL_KEY"),
        "TOO": FromEnvironment("OTHER"),
        "PRICE": "$5",
        "PLAIN": "a$b",
    }
    assert agent.missing_variables({"REAL_KEY": "s3cret"}) == ("OTHER",)


def test_secret_values_of_an_agent_appear_in_no_message_or_repr(home: Home) -> None:
    home.write("project", 'agents.a = { command = "a", env = { KEY = "hush", B = "$" } }')
    with pytest.raises(ConfigError) as refusal:
        home.load()

    home.write("user", 'agents.a = { command = "a", env = { KEY = "hush" } }')
    home.write("project", "")

    assert "hush" not in str(refusal.value)
    assert "hush" not in repr(home.load())


def test_a_secret_of_another_type_is_in_no_message(home: Home) -> None:
    problem = home.problem('agents.a = { command = "a", env = { PIN = 4711 } }')

    assert (problem.path, problem.problem) == ("agents.a.env.PIN", "is not a text")


def test_a_flag_gives_a_number_of_an_agent_as_text(home: Home) -> None:
    flags: dict[str, object] = {"agents.a.command": "a", "agents.a.handshake_seconds": "2.5"}

    assert home.load(flags=flags).agent("a").handshake_seconds == 2.5


def test_programs_beside_the_file_are_found_from_anywhere(home: Home) -> None:
    home.write("user", 'agents.a.command = ["./a", "./b"]\nagents.b.command = "~/b"')

    configuration = home.load()

    assert configuration.agent("a").command == (
        str(home.folder / ".config/understudy/a"),
        "./b",
    )
    assert configuration.agent("b").command == (str(home.folder / "b"),)


def test_mcp_servers_are_commands_or_addresses(home: Home) -> None:
    home.write(
        "project",
        """
        [agents.coder]
        command = "coder"
        [agents.coder.mcp_servers.files]
        command = ["files", "--read-only"]
        env.ROOT = "/srv"
        [agents.coder.mcp_servers.tickets]
        url = "https://tickets.example/mcp"
        headers.Authorization = "$TICKETS"
        """,
    )

    agent = home.load().agent("coder")

    assert agent.mcp_servers == (
        AgentMcpServer(name="files", command=("files", "--read-only"), env={"ROOT": "/srv"}),
        AgentMcpServer(
            name="tickets",
            url="https://tickets.example/mcp",
            headers={"Authorization": FromEnvironment("TICKETS")},
        ),
    )
    assert agent.missing_variables({}) == ("TICKETS",)


def test_flags_can_change_one_value_of_an_agent(home: Home) -> None:
    home.write("user", 'agents.coder = { command = "coder", env = { A = "1", B = "2" } }')

    agent = home.load(flags={"agents.coder.env.B": "3"}).agent("coder")

    assert (agent.command, agent.env) == (("coder",), {"A": "1", "B": "3"})


@pytest.mark.parametrize(
    "table", ['command = "evil"', 'preset = "codex"', 'command = "coder"\nenv.PATH = "/evil"']
)
def test_a_later_file_replaces_the_whole_agent(home: Home, table: str) -> None:
    home.write("user", 'agents.coder = { command = "coder", env.KEY = "$KEY", auth = "me" }')
    home.write("project", f"[agents.coder]\n{table}")

    configuration = home.load()

    assert "KEY" not in configuration.agent("coder").env
    assert configuration.agent("coder").auth is None
    assert "agents.coder.env.KEY" not in configuration.origins


def test_a_later_file_cannot_change_one_value_of_an_agent(home: Home) -> None:
    home.write("user", 'agents.coder = { command = "coder", env.KEY = "$KEY" }')

    problem = home.problem('agents.coder.env.PATH = "/evil"')

    assert (problem.path, problem.problem) == ("agents.coder", "has no command")


@pytest.mark.parametrize(
    ("table", "path", "hint"),
    [
        ('command = "x"\noutput = "text"', "agents.a.output", "driver acp uses auth, command"),
        ('driver = "command"\ncommand = "x"\nauth = "b"', "agents.a.auth", "resume_command"),
        ('function = "a:b"\nenv.A = "b"', "agents.a.env.A", "driver python uses function"),
        ('driver = "command"', "agents.a", "give it a command, or a preset"),
        ('driver = "python"\nworkspace = "/"', "agents.a", "give it a function"),
        ('preset = "claude"\ndriver = "command"', "agents.a.driver", "leave it out"),
        ('driver = "shell"', "agents.a.driver", "choose one of acp, command, python"),
        ('preset = "claud"', "agents.a.preset", "did you mean claude?"),
        ("command = []", "agents.a.command", "write a list"),
        ('command = ""', "agents.a.command", "write a list"),
        ('command = ["", "x"]', "agents.a.command", "write a text in quotes"),
        ('command = ["x", 5]', "agents.a.command", "each word"),
        ('command = "it\'s"', "agents.a.command", "close the quote"),
        ('command = ["a\\u0000"]', "agents.a.command", "remove it"),
        ('function = "a.b"', "agents.a.function", "package.module:function"),
        ('command = "x"\nenv.A = 5', "agents.a.env.A", "in quotes"),
        ('command = "x"\nenv.A = { form = "B" }', "agents.a.env.A", "from ="),
        ('command = "x"\nenv.A = { from = 5 }', "agents.a.env.A", "$$"),
        ('command = "x"\nenv."A=B" = "c"', "agents.a.env.'A=B'", "letters"),
        ('command = "x"\npermissions.tools = "read"', "agents.a.permissions.tools", "a list"),
        ('command = "x"\npermissions.tools = [""]', "agents.a.permissions.tools", "leave it"),
        ('command = "x"\npermissions.mode = "all"', "agents.a.permissions.mode", "approve_all"),
        ('command = "x"\nlimits.max_depth = -1', "agents.a.limits.max_depth", "at least 0"),
        ('driver = "command"\ncommand = "x"\noutput = "xml"', "agents.a.output", "json_lines"),
        (
            'driver = "command"\ncommand = "x"\ntext = "a..b"',
            "agents.a.text",
            "names separated by dots",
        ),
        (
            'driver = "command"\ncommand = "x"\noutput = "text"\ntext = "a"',
            "agents.a.text",
            "json_lines",
        ),
        ('command = "x"\nhandshake_seconds = nan', "agents.a.handshake_seconds", "a number"),
        ('command = "x"\ntools = "sse"', "agents.a.tools", "auto"),
        ('function = "a:b"\ntools = "off"', "agents.a.tools", "driver python uses"),
        ('command = "x"\nhandshake_seconds = true', "agents.a.handshake_seconds", "a number"),
        ('command = "x"\noptions.effort = 5', "agents.a.options.effort", "in quotes"),
        ('command = "x"\nmcp_servers.f = {}', "agents.a.mcp_servers.f", "one of command"),
        ('command = "x"\nmcp_servers.f.env.A = "b"', "agents.a.mcp_servers.f", "one of them"),
        ("", "agents.a", "one of driver"),
    ],
)
def test_an_invalid_agent_value_is_refused_with_its_path(
    home: Home, table: str, path: str, hint: str
) -> None:
    problem = home.problem(f"[agents.a]\n{table}")

    assert problem.path == path
    assert hint in problem.hint


@pytest.mark.parametrize("name", ["echo", "scripted", '""', '"a.b"', '"a b"', f'"{"a" * 65}"'])
def test_some_names_no_agent_can_have(home: Home, name: str) -> None:
    assert home.problem(f'agents.{name}.command = "x"').path.startswith("agents.")


def test_the_names_of_built_in_agents_are_reserved() -> None:
    assert set(BUILT_IN) == {agent.name for agent in builtin.BUILT_IN}


def test_a_wrong_value_causes_no_problem_of_the_whole_agent(home: Home) -> None:
    problems = home.problems("[agents.a]\ncomand = 'x'\n[agents.ab]\ndriver = 'command'")

    assert [problem.path for problem in problems] == ["agents.a.comand", "agents.ab"]


def test_an_agent_that_is_not_configured_is_unknown(home: Home) -> None:
    home.write("project", 'agents.coder.command = "x"')

    with pytest.raises(AgentUnknown) as refusal:
        home.load().agent("koder")

    assert "coder" in refusal.value.hint
