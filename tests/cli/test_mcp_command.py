"""`understudy mcp`: an assistant's way to the tools, which outlives the daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.daemon_place import is_listening
from tests.support.cli_runner import COMMAND, in_a_process
from tests.support.process_programs import known as process_of
from tests.support.process_programs import stop, wait_for


def socket_path() -> str:
    return f"{os.environ['XDG_RUNTIME_DIR']}/understudy/understudy.sock"


def daemon_pid() -> int:
    found: int = in_a_process("status", "--json").json["pid"]
    return found


class Assistant:
    """An assistant that has started the command."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "mcp", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._calls = 0

    def send(self, method: str, **params: object) -> None:
        self._calls += 1
        message = {"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self, number: int | None = None) -> Any:  # noqa: ANN401 - any JSON
        """Return the next answer, which must be that of the call with the number, or the last."""
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == (self._calls if number is None else number)
        return answer

    def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON
        """Call a tool; return its result."""
        return self.ask("tools/call", name=tool, arguments=arguments)["result"]

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - any JSON
        self.send(method, **params)
        return self.read()

    def initialize(self) -> Any:  # noqa: ANN401 - any JSON
        return self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "assistant", "version": "1"},
        )

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)


@pytest.fixture(autouse=True)
def end_daemon(home: Path) -> Iterator[None]:
    """Kill the daemon that the test has started, if it still runs."""
    yield
    if is_listening(socket_path()):
        os.kill(daemon_pid(), signal.SIGKILL)


def test_the_command_starts_the_daemon_and_speaks_only_the_protocol() -> None:
    assistant = Assistant()
    with assistant.process:
        greeted = assistant.initialize()
        listed = assistant.ask("tools/list")

        assert greeted["result"]["protocolVersion"] == "2025-11-25"
        assert isinstance(listed["result"]["tools"], list)
        assert assistant.close() == 0
    assert is_listening(socket_path())


def test_a_killed_daemon_is_reported_and_the_next_call_starts_another() -> None:
    assistant = Assistant()
    with assistant.process:
        assistant.initialize()
        first = process_of(daemon_pid())
        stop(first)  # so that the call is under way when the daemon dies
        assistant.send("ping")
        os.kill(first.pid, signal.SIGKILL)
        failure = assistant.read()
        wait_for(lambda: not is_listening(socket_path()))

        assert "the next call connects again" in failure["error"]["message"]
        assert assistant.ask("ping")["result"] == {}
        assert daemon_pid() != first.pid
        assert assistant.close() == 0


def test_a_wait_ends_with_its_daemon_and_the_next_wait_has_the_outcome() -> None:
    assistant = Assistant()
    with assistant.process:
        assistant.initialize()
        created = assistant.call("create", agent="scripted", name="sleeper")
        assistant.call("send", session="sleeper", text="sleep 600")
        waiting = {"sessions": ["sleeper"], "seconds": 45}
        assistant.send("tools/call", name="wait", arguments=waiting)
        assert assistant.ask("ping")["result"] == {}  # it overtakes the wait, which was sent before
        os.kill(daemon_pid(), signal.SIGKILL)
        failure = assistant.read(4)
        wait_for(lambda: not is_listening(socket_path()))
        waited = assistant.call("wait", **waiting)

        assert "the supervisor has ended" in failure["error"]["message"]
        assert waited["structuredContent"]["reason"] == "news"
        (session,) = waited["structuredContent"]["sessions"]
        assert session["session"] == created["structuredContent"]["session"]
        assert session["outcome"] == "lost"
        assert assistant.close() == 0


def test_without_a_daemon_and_without_a_start_each_call_says_so() -> None:
    assistant = Assistant("--no-start")
    with assistant.process:
        refused = assistant.ask("ping")
        again = assistant.ask("ping")

        assert "no supervisor answers" in refused["error"]["message"]
        assert "no supervisor answers" in again["error"]["message"]
        assert assistant.close() == 0
    assert not is_listening(socket_path())


def test_another_scope_is_refused() -> None:
    done = in_a_process("mcp", "--scope", "self")

    assert done.code == 2
    assert "all" in done.err
