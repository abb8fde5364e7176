"""What an agent wants to run in a terminal, read from the params of `terminal/create`.

Agents differ: some send a program and its arguments, some a whole line for a shell and no argument.
So a command without arguments is given to a shell; that runs a lone program just as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

import attrs

from supervisor.drivers.acp.news.tools import TERMINAL, ToolFacts, line_for_a_shell, short
from supervisor.drivers.acp.reading import as_mapping, as_whole
from supervisor.drivers.acp.rpc.messages import INVALID_PARAMS, RpcError
from supervisor.drivers.process.port import Launch

SHELL: Final = "/bin/sh"
# What a terminal shows is what is written to either of them, in the order in which it is.
_RUN_LINE: Final = "exec 2>&1\n"
_RUN_PROGRAM: Final = 'exec "$@" 2>&1'

DEFAULT_OUTPUT_BYTES: Final = 1024 * 1024
MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024
MAX_WORDS: Final = 1000
# The kernel takes 128 KiB a word, and needs room for the rest.
MAX_WORD_BYTES: Final = 100_000
MAX_BYTES: Final = 1_000_000


@attrs.frozen
class Command:
    """One command; `env` comes on top of what every terminal has."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    max_output_bytes: int

    @property
    def lines(self) -> frozenset[str]:
        """The texts by which a person may have allowed it."""
        if not self.args:
            return frozenset({self.command.strip()})
        words = (self.command, *self.args)
        lines = (shlex.join(words), line_for_a_shell(words) or "")
        return frozenset(line.strip() for line in lines) - {""}

    def facts(self, cwd: str) -> ToolFacts:
        """What is asked about it."""
        shown = shlex.join((self.command, *self.args)) if self.args else self.command
        given: dict[str, Any] = {"command": self.command, "args": list(self.args), "cwd": cwd}
        if self.env:
            given["env"] = dict(self.env)
            shown = " ".join((*(f"{name}={value}" for name, value in self.env.items()), shown))
        return ToolFacts(
            name=short(f"{TERMINAL} {shown} in {cwd}"),
            title=f"Run {shown}",
            kind="execute",
            input=given,
            paths=(),
            commands=self.lines,
        )

    def launch(self, cwd: str, environment: Mapping[str, str]) -> Launch:
        """How it is run."""
        if self.args:
            words = (SHELL, "-c", _RUN_PROGRAM, "sh", self.command, *self.args)
        else:
            words = (SHELL, "-c", _RUN_LINE + self.command)
        return Launch(words, {**environment, **self.env}, cwd)


def parse_command(params: object) -> Command:
    """The command in these params; raises `RpcError` if there is none."""
    given = as_mapping(params)
    command = given.get("command")
    if not isinstance(command, str) or not command.strip():
        raise RpcError(INVALID_PARAMS, "command is no text")
    args = _list_in(given, "args")
    if not all(isinstance(word, str) for word in args):
        raise RpcError(INVALID_PARAMS, "args has something in it that is no text")
    env = _env_in(given)
    cwd = given.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise RpcError(INVALID_PARAMS, "cwd is no text")
    _refuse_unless_runnable((command, *args, *env, *env.values()))
    return Command(command, tuple(args), env, cwd, _limit_in(given))


def _list_in(given: Mapping[str, Any], name: str) -> list[Any]:
    value = given.get(name)
    if value is not None and not isinstance(value, list):
        raise RpcError(INVALID_PARAMS, f"{name} is no list")
    return value or []


def _env_in(given: Mapping[str, Any]) -> dict[str, str]:
    env: dict[str, str] = {}
    for item in _list_in(given, "env"):
        name, value = as_mapping(item).get("name"), as_mapping(item).get("value")
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise RpcError(INVALID_PARAMS, "env has something in it that is no variable")
        env[name] = value
    return env


def _limit_in(given: Mapping[str, Any]) -> int:
    limit = as_whole(given.get("outputByteLimit"))
    return DEFAULT_OUTPUT_BYTES if limit is None else min(limit, MAX_OUTPUT_BYTES)


def _refuse_unless_runnable(words: tuple[str, ...]) -> None:
    """Raise for what no system would take as the words of a command."""
    sizes = [len(word.encode(errors="replace")) for word in words]
    if len(words) > MAX_WORDS or sum(sizes) > MAX_BYTES or max(sizes) > MAX_WORD_BYTES:
        raise RpcError(INVALID_PARAMS, "the command is too long")
    for word in words:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise RpcError(INVALID_PARAMS, "the command has a character in it that cannot be")
