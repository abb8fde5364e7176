"""The life of a detached daemon: started on demand or by hand, read without, stopped."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.daemon_place import is_listening
from tests.support.cli_runner import COMMAND, Called, Caller, in_a_process, on_a_terminal

STORE_NOTE = "The daemon is not running; showing its store"


def state_of(home: Path) -> Path:
    return home / ".local/state/understudy"


def daemon_pid() -> int:
    found: int = in_a_process("status", "--json").json["pid"]
    return found


def kill(pid: int) -> None:
    """Kill the process and wait until it has ended."""
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
    os.close(descriptor)
    while is_listening(socket_path()):
        pass


def socket_path() -> str:
    return f"{os.environ['XDG_RUNTIME_DIR']}/understudy/understudy.sock"


@pytest.fixture(autouse=True)
def end_daemon(home: Path) -> Iterator[None]:
    """Kill the daemon that the test has started, if it still runs."""
    yield
    if is_listening(socket_path()):
        os.kill(daemon_pid(), signal.SIGKILL)


def test_five_commands_at_once_start_one_daemon(home: Path) -> None:
    commands = [
        subprocess.Popen(
            [*COMMAND, "new", "echo", "--name", f"bob{number}"], stderr=subprocess.PIPE, text=True
        )
        for number in range(5)
    ]

    errors = [command.communicate(timeout=120)[1] for command in commands]

    assert [command.returncode for command in commands] == [0] * 5
    assert sum("Started the daemon" in error for error in errors) == 1
    assert (state_of(home) / "daemon.log").read_text().count("listening on") == 1
    assert len(in_a_process("ps", "--json").json["items"]) == 5


def test_a_killed_daemon_is_read_from_its_store_and_started_again(home: Path, call: Caller) -> None:
    first = in_a_process("new", "scripted", "--name", "bob")
    in_a_process("send", "bob", "sleep 1000")
    kill(daemon_pid())

    shown = {name: call(*name.split(), *words) for name, words in READING.items()}
    absent = call("new", "echo", "--no-start")
    again = in_a_process("send", "bob", "say hello", "--wait")

    assert "Started the daemon" in first.err
    assert {name: done.code for name, done in shown.items()} == dict.fromkeys(READING, 0)
    assert all(STORE_NOTE in done.err for done in shown.values())
    assert "bob" in shown["ps"].out
    assert (absent.code, absent.out) == (5, "")
    assert (again.code, again.out) == (0, "hello\n")


READING = {
    "ps": [],
    "tree": [],
    "show": ["bob"],
    "log": ["bob"],
    "why": ["bob"],
    "inputs": ["bob"],
    "inbox": [],
    "search": ["sleep"],
    "usage": [],
    "rules ls": ["bob"],
}


def test_json_of_a_store_has_its_note_as_a_warning(home: Path, call: Caller) -> None:
    state_of(home).mkdir(parents=True, mode=0o700)
    call("run", "hello", "--state", state_of(home) / "state.db")

    done = call("ps", "--json")

    assert [info["title"] for info in done.json["items"]] == ["hello"]
    assert json.loads(done.err)["warning"].startswith(STORE_NOTE)


def test_a_reading_command_starts_nothing(home: Path, call: Caller) -> None:
    done = call("ps")

    assert done.code == 5
    assert "no store exists at" in done.err
    assert not state_of(home).exists()


def test_what_needs_a_daemon_says_how_to_start_one(call: Caller) -> None:
    done = call("wait", "--any")

    assert (done.code, call("attach", "bob").code) == (5, 2)
    assert "hint: start it with `understudy serve --detach`\n" in done.err


def test_autostart_can_be_turned_off(
    home: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_DAEMON__AUTOSTART", "false")

    assert call("new", "echo").code == 5
    assert not state_of(home).exists()


def test_a_daemon_that_cannot_start_shows_its_exit_code_and_log(home: Path) -> None:
    state_of(home).mkdir(parents=True, mode=0o700)
    (state_of(home) / "state.db").write_text("not a database")

    done = in_a_process("new", "echo")

    assert done.code == 5
    assert "the daemon ended with exit code 2 before it listened:\n" in done.err
    assert "state.db is not an understudy store" in done.err


def test_a_state_folder_that_is_a_file_is_reported(home: Path) -> None:
    state_of(home).parent.mkdir(parents=True)
    state_of(home).write_text("")

    done = in_a_process("new", "echo", "--json")

    assert done.code == 5
    assert json.loads(done.err)["error"]["code"] == "daemon_start_failed"


def test_a_detached_daemon_outlives_its_terminal_and_goes_down(home: Path, call: Caller) -> None:
    with on_a_terminal("serve", "--detach", "--state-folder", "other") as terminal:
        assert terminal.end() == 0
    log = home / "other/daemon.log"

    status = in_a_process("status", "--json").json
    refused = in_a_process("serve", "--detach")
    logged = call("logs", "-n", "1")
    down = in_a_process("down", "--json")

    assert str(log) in terminal.seen
    assert (status["running"], status["log"], log.stat().st_mode & 0o777) == (True, str(log), 0o600)
    assert status["stats"]["sessions"] == 0
    assert (refused.code, "a daemon already runs" in refused.err) == (1, True)
    assert "listening on" in logged.out
    assert down.json == {
        "was_running": True,
        "pid": status["pid"],
        "exit_code": 0,
        "interrupted": [],
    }
    assert call("status").code == 5


def test_down_now_names_the_turns_that_it_interrupts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_EXIT_SECONDS", "600")
    made = in_a_process("new", "scripted", "--name", "bob", "--json").json["id"]
    in_a_process("send", "bob", "sleep 1000")
    with on_a_terminal("down") as terminal:  # as if it took too long
        terminal.see("bob")
        terminal.press_ctrl_c()
        terminal.end()

    done = in_a_process("down", "--now", "--json")

    assert (done.code, done.json["exit_code"]) == (6, 6)
    assert done.json["interrupted"] == [made]


def test_down_says_that_a_suspended_daemon_does_not_answer(home: Path) -> None:
    in_a_process("new", "echo")
    pid = daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        with on_a_terminal("down") as terminal:
            terminal.see(f"(process {pid}) does not answer")
            terminal.see(f"kill -9 {pid}")
            terminal.see("stopping the daemon")
            os.kill(pid, signal.SIGCONT)
            assert terminal.end() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_run_in_the_daemon_is_interrupted_by_ctrl_c(home: Path) -> None:
    with on_a_terminal("run", "--daemon", "--agent", "scripted", "say a\nsleep 1000") as terminal:
        terminal.see("\na")
        terminal.press_ctrl_c()
        assert terminal.end() == 130

    (session,) = in_a_process("ps", "--json").json["items"]
    assert (session["badge"], session["workspace"]) == ("idle", str(home))
    assert "The turn was interrupted." in terminal.seen


def test_run_in_the_daemon_rejects_requests_without_a_terminal(home: Path) -> None:
    done = in_a_process("run", "--daemon", "--agent", "scripted", "ask bash")

    assert (done.code, done.out) == (0, "bash: rejected\n")


def test_run_in_the_daemon_takes_no_file(call: Caller) -> None:
    assert call("run", "--daemon", "--state", "x.db", "hello").code == 2


def test_logs_follow_the_file_when_it_is_replaced(home: Path) -> None:
    state_of(home).mkdir(parents=True, mode=0o700)
    log = state_of(home) / "daemon.log"
    log.with_name("daemon.log.1").write_text("oldest\nolder\n")
    log.write_text("old \x1b[31m\n")

    with on_a_terminal("logs", "-f", "-n", "2") as terminal:
        terminal.see("old \r\n")
        log.replace(log.with_name("daemon.log.1"))
        log.write_text("new\n")
        terminal.see("new")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert "older" in terminal.seen
    assert "oldest" not in terminal.seen
    assert "\x1b[31m" not in terminal.seen


def test_logs_without_a_file_say_where_the_log_is(call: Caller) -> None:
    done = call("logs")

    assert done.code == 3
    assert "journalctl" in done.err


def test_down_without_a_daemon_has_nothing_to_do(call: Caller) -> None:
    assert call("down") == Called(0, "", "The daemon is not running.\n")
