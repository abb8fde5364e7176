"""Commands with a real daemon process and terminals."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_command_words import completions
from tests.support.cli_runner import COMMAND, ROOT, Caller, in_a_process, on_a_terminal


@pytest.fixture
def daemon(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a listening daemon; kill it at the end if it still runs."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--state-folder", str(home / "state")],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "listening on" in line:
            break
    yield process
    process.kill()
    process.communicate()


def test_a_session_continues_between_commands(call: Caller, daemon: subprocess.Popen[str]) -> None:
    made = call("new", "echo", "--name", "bob", "--json").json["id"]

    assert call("send", "bob", "hello", "--wait").out == "hello\n"
    assert [info["id"] for info in call("ps", "--json").json["items"]] == [made]
    assert "> hello\nhello\n── completed" in call("log", "bob").out
    assert "agent_text" in call("log", "bob", "--records").out
    assert call("search", "hello", "--json").json["items"]
    assert "bob" in call("tree").out
    printed = call("top").out
    assert "1 of 1 sessions live, 0 running turns.\nNAME" in printed
    assert printed.endswith(f"\n\n{call('tree').out}")
    assert call("export", "bob").out.count("hello") > 1
    assert call("show", "nobody").code == 3
    assert call("rm", made, "--json").json == {"session_id": made, "deleted": True}
    assert call("ps", "--all", "--json").json["items"] == []


# Whose part is the daemon's, or that of live pictures: none of them is for who asks one thing.
HEAVY = {"actors", "anyio", "cattrs", "httpcore", "httpx", "hypercorn", "msgspec", "pygments"}
HEAVY |= {"rich", "sqlite3", "starlette", "supervisor.core.events", "supervisor.core.table"}
HEAVY |= {"supervisor.drivers.port", "supervisor.handles.session", "supervisor.store"}
SMALL = ["ps", "tree", "inbox", "show bob", "why bob", "inputs bob", "log bob", "send bob hello"]
SMALL += ["interrupt bob", "stop bob", "resume bob"]


# These only read, and run without trio.
READING = ["ps", "tree", "inbox", "show bob", "why bob", "log bob"]


def test_a_short_command_imports_no_slow_module(
    call: Caller, daemon: subprocess.Popen[str]
) -> None:
    call("new", "echo", "--name", "bob")
    program = (
        "import sys; from supervisor.cli import main; code = main(sys.argv[1:]);"
        "print(*sys.modules); sys.exit(code)"
    )

    for command in SMALL:
        done = subprocess.run(
            [sys.executable, "-c", program, *command.split()],
            capture_output=True,
            text=True,
            check=True,
        )
        slow = HEAVY | {"trio", "supervisor.configuration.loader"} if command in READING else HEAVY
        assert not set(done.stdout.splitlines()[-1].split()) & slow, command


def test_a_permission_request_is_answered(call: Caller, daemon: subprocess.Popen[str]) -> None:
    call("new", "scripted", "--name", "bob")
    sent = call("send", "bob", "ask rm", "--json").json
    while not (asked := call("inbox", "--json").json["items"]):
        pass

    told = call("answer", "bob", "yes", "--json").json
    assert told == {"request_id": asked[0]["id"], "decision": "allow_once"}
    with on_a_terminal("watch", "bob", "--json") as watching:
        seen = watching.see(f'"turn_id":"{sent["turn_id"]}","kind":"turn_ended"')
        watching.press_ctrl_c()
        assert watching.end() == 130
    assert "rm: allowed" in seen


def test_completion_knows_sessions_agents_requests_and_tags(
    call: Caller, daemon: subprocess.Popen[str]
) -> None:
    made = call("new", "scripted", "--name", "bob", "--tag", "post", "--json").json["id"]
    call("send", "bob", "ask rm")
    while not (asked := call("inbox", "--json").json["items"]):
        pass

    assert completions("stop b") == ["bob"]
    assert completions(f"show {made[:4]}") == [made]
    assert completions("rules ls b") == ["bob"]
    assert completions("new scr") == ["scripted"]
    assert completions("answer ") == ["bob", asked[0]["id"]]
    assert completions("stop --tag p") == ["post"]


@pytest.mark.parametrize("whom", [["bob"], []], ids=["one", "all"])
def test_watch_starts_with_the_last_records(
    whom: list[str], call: Caller, daemon: subprocess.Popen[str]
) -> None:
    """A store may hold years."""
    call("new", "scripted", "--name", "bob")
    for text in ("first", "second", "third"):
        call("send", "bob", f"say {text}", "--wait")

    with on_a_terminal("watch", *whom, "--records", "--last", "3") as terminal:
        seen = terminal.see("turn_ended")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert "third" in seen
    assert "second" not in seen

    with on_a_terminal("watch", *whom, "--records", "--after", "0") as terminal:
        terminal.see("third")
        assert "session_created" in terminal.seen


def test_watch_shows_what_other_commands_do(call: Caller, daemon: subprocess.Popen[str]) -> None:
    call("new", "scripted", "--name", "bob")
    with on_a_terminal("watch", "bob", "--records") as watching:
        watching.see("session_started")
        call("send", "bob", "tool bash 60")
        watching.see("tool_call")
        call("interrupt", "bob")
        watching.see("interrupted, cancelled")
        watching.press_ctrl_c()
        assert watching.end() == 130
    assert "Traceback" not in watching.seen


def test_an_ascii_terminal_gets_replacement_characters(
    call: Caller, daemon: subprocess.Popen[str]
) -> None:
    call("new", "echo", "--name", "Jürgen")
    with on_a_terminal("top", "--every", "0.1", PYTHONIOENCODING="ascii") as top:
        top.see("J?rgen")
        assert top.end() == 0  # printed once, since a screen needs more than ASCII


def test_the_daemon_is_reloaded_and_stopped(daemon: subprocess.Popen[str], home: Path) -> None:
    config_file = home / ".config" / "understudy" / "understudy.toml"
    config_file.parent.mkdir(parents=True)
    assert in_a_process("reload").out == "Nothing changed.\n"
    config_file.write_text("[settings]\nqueue_cap = 3\n[daemon]\nmax_connections = 9")
    told = in_a_process("reload", "--json")
    assert (told.json["settings"], told.json["fixed"]) == (
        ["queue_cap"],
        ["daemon.max_connections"],
    )
    config_file.write_text("[settings]\nqueue_cap = -3")
    wrong = in_a_process("reload")
    assert (wrong.code, "queue_cap" in wrong.err) == (1, True)

    os.kill(daemon.pid, signal.SIGTERM)
    _, log = daemon.communicate(timeout=30)
    assert daemon.returncode == 0
    assert "configuration reloaded" in log


def test_the_tutorial_can_be_followed_with_the_scripted_agent(
    call: Caller, daemon: subprocess.Popen[str]
) -> None:
    page = (ROOT / "docs/tutorial/daemon.md").read_text()
    (typed,) = re.findall(r"With `scripted`, send steps:\n\n```console\n(.*?)```", page, re.DOTALL)
    call("new", "scripted", "--name", "builder")

    said = [
        call(*shlex.split(line.removeprefix("$ understudy "))).out for line in typed.splitlines()
    ]

    assert [text.split()[0] for text in said[:3]] == ["started", "queued", "staged"]
    assert "say in French" in said[3]
    assert "interrupted in" in call("interrupt", "builder", "--reason", "that was plenty").out
