"""All commands: the table, the cost of --help, and completion."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from supervisor.cli.command_table import COMMANDS, overview_text
from supervisor.cli.common_options import STARTING_COMMANDS
from supervisor.cli.group import commands
from tests.support.cli_runner import COMMAND, Caller, in_a_process

# As DESIGN has them; what is more is more.
WANTED = (
    "demo",
    "serve",
    "acp",
    "mcp",
    "run",
    "chat",
    "ps",
    "tree",
    "top",
    "new",
    "send",
    "steer",
    "interrupt",
    "spawn",
    "inputs",
    "stop",
    "resume",
    "fork",
    "clear",
    "rename",
    "archive",
    "rm",
    "watch",
    "attach",
    "log",
    "show",
    "why",
    "export",
    "query",
    "import",
    "search",
    "inbox",
    "answer",
    "rules",
    "set",
    "usage",
    "wait",
    "agents",
    "config",
    "doctor",
    "repair",
    "replay",
    "backup",
    "restore",
    "cleanup",
    "reload",
    "status",
    "logs",
    "down",
    "service",
    "hosts",
    "completion",
    "version",
)
NEEDS_DAEMON = {
    "top": [],
    "new": ["echo"],
    "send": ["x", "text"],
    "steer": ["x", "text"],
    "interrupt": ["x"],
    "spawn": ["x", "echo", "text"],
    "inputs": ["x"],
    "answer": ["x", "allow_once"],
    "stop": ["x"],
    "resume": ["x"],
    "fork": ["x"],
    "clear": ["x"],
    "archive": ["x"],
    "rm": ["x"],
    "watch": ["x"],
    "why": ["x"],
    "inbox": [],
    "reload": [],
    "ps": [],
    "tree": [],
    "show": ["x"],
    "log": ["x"],
    "search": ["x"],
    "export": ["x"],
    "import": ["x"],
    "replay": ["x", "--at", "1"],
    "repair": ["x"],
    "backup": ["x"],
    "cleanup": [],
    "rules": ["ls", "x"],
    "set": ["x", "--title", "text"],
    "usage": [],
    "wait": ["x"],
}


def command(name: str) -> click.Command:
    found = commands.get_command(click.Context(commands), name)
    assert found is not None
    return found


def subcommands(name: str) -> list[click.Command]:
    found = command(name)
    inside = list(found.commands.values()) if isinstance(found, click.Group) else []
    return [found, *inside]


def options_of(one: click.Command) -> set[str]:
    return {
        max(parameter.opts, key=len)
        for parameter in one.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    }


def test_every_documented_command_exists() -> None:
    assert set(WANTED) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_locates_every_command(name: str) -> None:
    assert command(name).name == name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_help_texts(name: str) -> None:
    for one in subcommands(name):
        assert "--json" in options_of(one)
        assert one.help
        assert all(
            parameter.help for parameter in one.params if isinstance(parameter, click.Option)
        )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_shown_for_every_command(name: str, call: Caller) -> None:
    shown = call(name, "--help")

    assert shown.code == 0
    assert shown.out.startswith(f"Usage: understudy {name}")


def test_the_overview_fits_a_narrow_terminal() -> None:
    for width in (40, 60, 80, 100):
        assert max(map(len, overview_text(width).splitlines())) <= width


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_all_commands(arguments: list[str], call: Caller) -> None:
    shown = call(*arguments)

    assert shown.code == 0
    assert all(re.search(rf"^  {name} ", shown.out, re.MULTILINE) for name in COMMANDS)


def test_help_with_other_arguments_is_the_same_list(call: Caller) -> None:
    assert call("--help", "ps").out == call("--help").out


def test_help_imports_only_the_table() -> None:
    program = "import sys; from supervisor.cli import main; main(['--help']); print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    modules = set(done.stdout.splitlines()[-1].split())
    ours = {name for name in modules if name.partition(".")[0] in ("supervisor", "actors")}
    assert ours == {"supervisor", "supervisor.cli", "supervisor.cli.command_table"}
    assert not modules & {"click", "trio", "rich", "attr", "attrs", "re", "typing", "asyncio"}


def test_a_command_exits_without_a_final_collection() -> None:
    """Python would collect unreachable objects: a tenth of the time of a small command."""
    program = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0));"
        "from supervisor.cli import main; main(['version'])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "True"


def test_help_ignores_a_closed_pipe() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{' '.join(COMMAND)} --help | true; echo over"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "over\n"
    assert done.stderr == ""


@pytest.mark.parametrize("name", NEEDS_DAEMON)
def test_without_a_daemon_a_command_exits_with_5(name: str, call: Caller) -> None:
    no_start = ["--no-start"] if name in STARTING_COMMANDS else []

    done = call(name, *no_start, *NEEDS_DAEMON[name])

    assert done.code == 5
    assert "hint: start it with `understudy serve --detach`" in done.err
    assert done.out == ""


def test_an_unknown_command_gets_a_suggestion(call: Caller) -> None:
    done = call("serch")

    assert done.code == 2
    assert "Did you mean search?" in done.err


def test_wrong_usage_exits_with_2(call: Caller) -> None:
    assert call("show").code == 2
    for wrong in ("0", "-1", "x", "1.5", "٣", "9" * 19):
        done = call("ps", "--limit", wrong)
        assert (done.code, "is not a whole number of at least 1" in done.err) == (2, True)
    assert call("--nonsense").code == 2


def test_version_prints_the_package_version(call: Caller) -> None:
    for arguments in (["version"], ["--version"]):
        assert re.fullmatch(r"understudy \d+\.\d+\.\d+\S*\n", call(*arguments).out)
    assert {"understudy", "python", "sqlite", "trio"} <= set(call("version", "--json").json)


def test_completion_of_command_names_imports_no_command() -> None:
    """Completion runs while the user waits."""
    program = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules));"
        "from supervisor.cli import main; main([])"
    )
    asked = {"_UNDERSTUDY_COMPLETE": "zsh_complete", "COMP_WORDS": "understudy ", "COMP_CWORD": "1"}

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **asked},
    )

    assert done.stdout.splitlines()[:3] == ["plain", "demo", COMMANDS["demo"][1]]
    modules = set(done.stdout.splitlines()[-1].split())
    assert not modules & {"trio", "rich", "httpx", "supervisor.cli.looking"}


IN_A_SHELL = {
    "bash": 'source "$1"; COMP_WORDS=(understudy {words}); COMP_CWORD={place};'
    ' _understudy_completion understudy; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "source $argv[1]; complete -C 'understudy {line}' | cut -f 1",
}


@pytest.mark.parametrize("shell", IN_A_SHELL)
@pytest.mark.parametrize(
    ("line", "found"),
    [("doc", "doctor"), ("export --format m", "markdown"), ("ps --li", "--limit")],
)
def test_bash_completes_with_the_script(
    shell: str, line: str, found: str, call: Caller, tmp_path: Path
) -> None:
    """The shell itself, if it is installed here."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(call("completion", shell).out)
    (tmp_path / "understudy").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (tmp_path / "understudy").chmod(0o700)
    words = line.split()
    program = IN_A_SHELL[shell].format(words=line, line=line, place=len(words))
    plain = {"bash": "--norc", "fish": "--no-config"}[shell]

    done = subprocess.run(
        [shell, plain, "-c", program, *(["x"] if shell == "bash" else []), script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )

    assert done.stdout.split() == [found]


def test_fish_gets_words_with_commas_whole(call: Caller, tmp_path: Path) -> None:
    """The shell itself, if it is installed here."""
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    (tmp_path / "understudy").write_text("#!/bin/sh\nprintf 'plain,a,b\\techo, idle\\n'\n")
    (tmp_path / "understudy").chmod(0o700)
    (tmp_path / "script").write_text(call("completion", "fish").out)

    done = subprocess.run(
        [
            fish,
            "--no-config",
            "-c",
            IN_A_SHELL["fish"].format(line="show a"),
            tmp_path / "script",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )

    assert done.stdout == "a,b\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_every_shell(shell: str, call: Caller) -> None:
    done = call("completion", shell)

    assert done.code == 0
    assert "_UNDERSTUDY_COMPLETE" in done.out
    assert call("completion", shell, "--json").json["shell"] == shell


def test_completion_completes_commands() -> None:
    asked = {"COMP_WORDS": "understudy doc", "COMP_CWORD": "1"}

    done = in_a_process(env={**os.environ, "_UNDERSTUDY_COMPLETE": "bash_complete", **asked})

    assert done.out == "plain,doctor\n"


def test_help_explains_one_command(call: Caller) -> None:
    assert call("help", "ps").out == call("ps", "--help").out
    assert call("help", "nonsense").code == 2
