"""A client of a scripted agent in a real process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from .process_programs import PATIENCE_SECONDS, stat_fields, wait_for

Json: TypeAlias = dict[str, Any]


class RunningAgent:
    """An agent in a process; it is killed with its children at the end of the block."""

    def __init__(self, *flags: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.drivers.scripted", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input, self._output, self._errors = (
            self._process.stdin,
            self._process.stdout,
            self._process.stderr,
        )
        self.pid = self._process.pid
        self.heard: list[Json] = []
        self._unread = b""
        self._requests = 0
        self._strays: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for stray in self._strays:
            _kill(stray)
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        for pipe in (self._input, self._output, self._errors):
            pipe.close()
        self._process.wait(PATIENCE_SECONDS)

    # Send --------------------------------------------------------------------------

    def request(self, method: str, **params: object) -> int:
        self._requests += 1
        self.send({"id": self._requests, "method": method, "params": params})
        return self._requests

    def notify(self, method: str, **params: object) -> None:
        self.send({"method": method, "params": params})

    def send(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self._input.write(line)
        self._input.flush()

    def open(self) -> str:
        """Initialize the connection and open a session; return its id."""
        self.answer_to(self.request("initialize", protocolVersion=1))
        answer = self.answer_to(self.request("session/new", cwd="/", mcpServers=[]))
        return str(answer["result"]["sessionId"])

    def prompt(self, session: str, script: str) -> int:
        blocks = [{"type": "text", "text": script}]
        return self.request("session/prompt", sessionId=session, prompt=blocks)

    def end_input(self) -> None:
        self._input.close()

    def stop_listening(self) -> None:
        self._output.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    # Receive -----------------------------------------------------------------------------

    def answer_to(self, request: int) -> Json:
        while True:
            said = self.hear()
            if said.get("id") == request and "method" not in said:
                return said

    def hear_text(self, kind: str = "agent_message_chunk") -> str:
        """Wait for text of that kind."""
        while True:
            update = self.hear().get("params", {}).get("update", {})
            if update.get("sessionUpdate") == kind:
                return str(update["content"]["text"])

    def hear_pids(self) -> list[int]:
        """Wait for the thought with the pids of started children."""
        pids = [int(word) for word in self.hear_text("agent_thought_chunk").split()[1:]]
        self._strays += pids
        return pids

    def hear(self) -> Json:
        line = self.hear_line()
        assert line.endswith(b"\n"), "its output has ended"
        self.heard.append(json.loads(line))
        return self.heard[-1]

    def hear_line(self) -> bytes:
        """Return the next line, or the rest before the end of the output."""
        pieces = [self._unread]
        while b"\n" not in pieces[-1]:
            assert select.select([self._output], [], [], PATIENCE_SECONDS)[0], "it says nothing"
            pieces.append(os.read(self._output.fileno(), 1 << 20))
            if not pieces[-1]:
                break
        line, end, self._unread = b"".join(pieces).partition(b"\n")
        return line + end

    # Exit ------------------------------------------------------------------------------

    def exit_code(self) -> int:
        return self._process.wait(PATIENCE_SECONDS)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        """Return all of standard error; the process must have exited."""
        return self._errors.read().decode()


def wait_for_state(pid: int, letter: str) -> None:
    """Wait until the process has that state in /proc."""
    wait_for(lambda: state(pid) == letter)


def state(pid: int) -> str:
    return stat_fields(pid)[0]


def parent(pid: int) -> int:
    return int(stat_fields(pid)[1])


def ignored_signals(pid: int) -> int:
    """Return the mask of ignored signals."""
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigIgn:")
    ]
    return int(line.split()[1], 16)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
