"""One terminal: its command from the params of `terminal/create`, its process, its bounded output.

Agents differ: some send a program and its arguments, some a whole shell line without arguments. So
a command without arguments is run by a shell, which also runs a single program.
"""

from __future__ import annotations

import logging
import shlex
import signal
from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio
from trio_util import run_and_cancelling

from supervisor.core.ids import TurnId
from supervisor.drivers.process.processes import (
    AgentProcess,
    BeforeExec,
    Launch,
    LaunchFailed,
    Processes,
    ProcessExit,
)
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError

from .content import as_integer, as_mapping
from .tool_reports import TERMINAL_PREFIX, ToolReport, shell_line, shorten_title

SHELL: Final = "/bin/sh"
# A terminal shows standard output and standard error together, in order.
_LINE_SCRIPT: Final = "exec 2>&1\n"

_PROGRAM_SCRIPT: Final = 'exec "$@" 2>&1'

DEFAULT_OUTPUT_BYTES: Final = 1024 * 1024

MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024

MAX_WORDS: Final = 1000
# The kernel takes 128 KiB per argument; the rest is reserve.
MAX_WORD_BYTES: Final = 100_000

MAX_COMMAND_BYTES: Final = 1_000_000


@attrs.frozen
class TerminalCommand:
    """One command; `env` is added to the environment of every terminal."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    max_output_bytes: int

    @property
    def command_lines(self) -> frozenset[str]:
        """The texts under which a user may have allowed the command."""
        if not self.args:
            return frozenset({self.command.strip()})
        words = (self.command, *self.args)
        lines = (shlex.join(words), shell_line(words) or "")
        return frozenset(line.strip() for line in lines) - {""}

    def report(self, cwd: str) -> ToolReport:
        """Return the report that a permission request shows."""
        shown = shlex.join((self.command, *self.args)) if self.args else self.command
        fields: dict[str, Any] = {"command": self.command, "args": list(self.args), "cwd": cwd}
        if self.env:
            fields["env"] = dict(self.env)
            shown = " ".join((*(f"{name}={value}" for name, value in self.env.items()), shown))
        return ToolReport(
            name=shorten_title(f"{TERMINAL_PREFIX} {shown} in {cwd}"),
            title=f"Run {shown}",
            kind="execute",
            input=fields,
            paths=(),
            commands=self.command_lines,
        )

    def launch(self, cwd: str, environment: Mapping[str, str]) -> Launch:
        """Return how to run the command, through a shell that joins both outputs."""
        if self.args:
            words = (SHELL, "-c", _PROGRAM_SCRIPT, "sh", self.command, *self.args)
        else:
            words = (SHELL, "-c", _LINE_SCRIPT + self.command)
        return Launch(words, {**environment, **self.env}, cwd)


def parse_command(params: object) -> TerminalCommand:
    """Return the command in the params of `terminal/create`.

    Raise `RpcError` if it is malformed.
    """
    fields = as_mapping(params)
    command = fields.get("command")
    if not isinstance(command, str) or not command.strip():
        raise RpcError(INVALID_PARAMS, "command is not a string, or blank")
    args = _parse_list(fields, "args")
    if not all(isinstance(word, str) for word in args):
        raise RpcError(INVALID_PARAMS, "args has an item that is not a string")
    env = _parse_env(fields)
    cwd = fields.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise RpcError(INVALID_PARAMS, "cwd is not a string")
    _check_runnable((command, *args, *env, *env.values()))
    return TerminalCommand(command, tuple(args), env, cwd, _parse_output_limit(fields))


def _parse_list(params: Mapping[str, Any], name: str) -> list[Any]:
    value = params.get(name)
    if value is not None and not isinstance(value, list):
        raise RpcError(INVALID_PARAMS, f"{name} is not a list")
    return value or []


def _parse_env(params: Mapping[str, Any]) -> dict[str, str]:
    env: dict[str, str] = {}
    for item in _parse_list(params, "env"):
        name, value = as_mapping(item).get("name"), as_mapping(item).get("value")
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise RpcError(INVALID_PARAMS, "env has an item that is not a variable")
        env[name] = value
    return env


def _parse_output_limit(params: Mapping[str, Any]) -> int:
    limit = as_integer(params.get("outputByteLimit"))
    return DEFAULT_OUTPUT_BYTES if limit is None else min(limit, MAX_OUTPUT_BYTES)


def _check_runnable(words: tuple[str, ...]) -> None:
    """Raise `RpcError` if the command is too long or contains an invalid character.

    Invalid are a null character and a lone surrogate.
    """
    sizes = [len(word.encode(errors="replace")) for word in words]
    if len(words) > MAX_WORDS or sum(sizes) > MAX_COMMAND_BYTES or max(sizes) > MAX_WORD_BYTES:
        raise RpcError(INVALID_PARAMS, "the command is too long")
    for word in words:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise RpcError(INVALID_PARAMS, "the command contains a null or a lone surrogate")


_CONTINUATION_MASK: Final = 0b1100_0000

_CONTINUATION: Final = 0b1000_0000

_MAX_CHARACTER_BYTES: Final = 4


class TerminalOutput:
    """The last `max_bytes` bytes of a terminal's output."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._is_truncated = False
        self._is_ended = False

    def add(self, data: bytes) -> None:
        """Append output."""
        self._kept += data
        # Up to twice the limit is kept, so that each byte is moved at most once.
        if len(self._kept) > 2 * self._max_bytes:
            self._truncate()

    def end(self) -> None:
        """Mark the end of the output: an incomplete last character is kept as it is."""
        self._is_ended = True

    @property
    def is_truncated(self) -> bool:
        """True if the oldest output was dropped."""
        return self._is_truncated or len(self._kept) > self._max_bytes

    def text(self, max_bytes: int | None = None) -> str:
        """Return the end of the output, at most `max_bytes` of UTF-8, in whole characters."""
        self._truncate()
        most = self._max_bytes if max_bytes is None else min(max_bytes, self._max_bytes)
        kept = self._kept if self._is_ended else _without_partial_character(self._kept)
        text = bytes(_from_whole_character(_tail(kept, most))).decode(errors="replace")
        # An invalid byte becomes a replacement character of three bytes.
        encoded = text.encode()
        return bytes(_from_whole_character(_tail(encoded, most))).decode()

    def _truncate(self) -> None:
        if len(self._kept) > self._max_bytes:
            del self._kept[: len(self._kept) - self._max_bytes]
            self._is_truncated = True


def _tail(data: bytes | bytearray, count: int) -> bytes | bytearray:
    return data[len(data) - count :] if len(data) > count else data


def _from_whole_character(data: bytes | bytearray) -> bytes | bytearray:
    """Return the data from its first whole character on."""
    for index, byte in enumerate(data[: _MAX_CHARACTER_BYTES - 1]):
        if byte & _CONTINUATION_MASK != _CONTINUATION:
            return data[index:]
    return data[_MAX_CHARACTER_BYTES - 1 :]


def _without_partial_character(data: bytearray) -> bytearray:
    """Return the data up to its last whole character; the rest may arrive later."""
    for back in range(1, min(_MAX_CHARACTER_BYTES, len(data) + 1)):
        byte = data[-back]
        if byte & _CONTINUATION_MASK != _CONTINUATION:
            return data[:-back] if back < _character_length(byte) else data
    return data


def _character_length(first: int) -> int:
    """Return the length in bytes of a character that starts with this byte."""
    for length, (mask, bits) in _LEAD_BYTES.items():
        if first & mask == bits:
            return length
    return 1


_LEAD_BYTES: Final = {
    2: (0b1110_0000, 0b1100_0000),
    3: (0b1111_0000, 0b1110_0000),
    4: (0b1111_1000, 0b1111_0000),
}

# Output of a terminal in the record of its tool call.
SHOWN_BYTES: Final = 16384
# Time for a killed process to exit, and for the output of an exited one to end.
KILL_SECONDS: Final = 2.0

DRAIN_SECONDS: Final = 2.0

logger = logging.getLogger("supervisor")


@attrs.define(eq=False)
class Terminal:
    """A command, its process and its output."""

    id: str
    turn: TurnId | None
    output: TerminalOutput
    # Around run(); cancelled before the process starts, it never starts.
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    process: AgentProcess | None = None
    exit: ProcessExit | None = None
    problem: str | None = None
    # Set when the process runs or has failed to start.
    started: trio.Event = attrs.field(factory=trio.Event)
    # Set when the command has ended and its output is read, or when a kill had no effect in time.
    ended: trio.Event = attrs.field(factory=trio.Event)

    def kill(self) -> None:
        """Kill the command and all its descendants."""
        if self.process is None:
            self.scope.cancel(reason="killed before it ran")
        elif not self.ended.is_set():
            self.process.kill()

    async def run(self, processes: Processes, launch: Launch, before_exec: BeforeExec) -> None:
        """Run the command to its end; keep a launch error in `problem` instead of raising it."""
        try:
            with self.scope:
                async with processes.open(launch, before_exec=before_exec) as process:
                    self.process = process
                    process.close_input()  # the protocol has no input for terminals
                    self.started.set()
                    await self._watch(process)
                    # Before the block ends, which may take long to kill descendants.
                    self.ended.set()
        except LaunchFailed as error:
            self.problem = str(error)
        except Exception:
            logger.exception("terminal %s failed", self.id)
        finally:
            self.started.set()
            self.ended.set()

    async def _watch(self, process: AgentProcess) -> None:
        """Read output until the process has exited, then the remaining output within a bound."""
        done = trio.Event()

        async def read() -> None:
            while data := await process.receive():
                self.output.add(data)
            done.set()

        async with run_and_cancelling(read):
            self.exit = await process.wait()
            with trio.move_on_after(DRAIN_SECONDS):
                await done.wait()
        self.output.end()

    async def kill_and_wait(self) -> None:
        """Kill the command and wait, within a bound, until it has ended."""
        self.kill()
        with trio.move_on_after(KILL_SECONDS):
            await self.ended.wait()
        self.ended.set()

    def describe(self) -> dict[str, Any]:
        """Return output and exit status for a record."""
        shown: dict[str, Any] = {"output": self.output.text(SHOWN_BYTES)}
        return shown if self.status is None else {**shown, **self.status}

    @property
    def status(self) -> dict[str, object] | None:
        """The exit status in the form of the protocol; None while the command runs."""
        if not self.ended.is_set():
            return None
        if self.exit is None:  # it never started, or a kill had no effect
            return {"exitCode": None, "signal": None}
        return {"exitCode": self.exit.code, "signal": _signal_name(self.exit.signal)}


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
