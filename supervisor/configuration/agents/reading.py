"""What may stand in `[agents.NAME]`, and how each value is read."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from typing import Final, TypeAlias, get_args

from supervisor.configuration.fields import table_of
from supervisor.configuration.places import expanded
from supervisor.configuration.schema import Leaf, Names, Reader, Table
from supervisor.configuration.sources import Source, Wrong
from supervisor.core.errors import ConfigError, shown
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.redaction import COVER

from .presets import NAMES as PRESETS
from .table import Driver, FromEnvironment, OutputForm, Secret, Transport

# Agents that are always there (a test compares): their names are taken.
BUILT_IN: Final = ("echo", "scripted")

MOST_SECONDS: Final = 86400

_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

Words: TypeAlias = tuple[str, ...]


def text(value: object, _: Source) -> str:
    """Some text, with at least one letter in it that can be seen."""
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"is {shown(value)}", hint="write some text, in quotes")
    return _whole_text(value)


def _whole_text(value: str) -> str:
    if "\0" in value:
        raise Wrong("has a NUL in it", hint="leave it out")
    if COVER in value:
        hint = "something was covered when it was printed: write what it was"
        raise Wrong(f"has {COVER} in it", hint=hint)
    return value


def path(value: object, source: Source) -> str:
    """A path, made absolute."""
    return expanded(text(value, source), folder=source.folder, home=source.home)


def command(value: object, source: Source) -> Words:
    """The words of a command, as a list, or as one text with the quotes of a shell.

    A program that begins with ./ or ~/ is made absolute: where the agent runs is another folder.
    """
    words = _split(value) if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        hint = 'write a list: ["program", "--option"]'
        raise Wrong(f"is {shown(value)}, not a command", hint=hint)
    for word in words:
        if not isinstance(word, str):
            hint = "write every word of the command in quotes"
            raise Wrong(f"has {shown(word)} in it, which is no text", hint=hint)
        _whole_text(word)
    program = text(words[0], source)
    if program.startswith(("./", "../", "~/")):
        program = expanded(program, folder=source.folder, home=source.home)
    return (program, *words[1:])


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        hint = "close it, or write a list of words"
        raise Wrong(f"has an open end: {str(error).lower()}", hint=hint) from None


def function(value: object, _: Source) -> str:
    """Where an async function is, in the form `package.module:function`."""
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        raise Wrong(f"is {shown(value)}", hint='write "package.module:function"')
    return value


def place(value: object, source: Source) -> str:
    """Where in a line of JSON something stands."""
    from supervisor.drivers.command.places import parse_place  # noqa: PLC0415 - late

    try:
        return parse_place("it", text(value, source)).text
    except ConfigError as error:
        raise Wrong(str(error.args[0]).removeprefix("it "), hint=error.hint) from None


def secret(value: object, _: Source) -> Secret:
    """A text, or where in our own environment it is to be had. What it is, is never shown."""
    if isinstance(value, Mapping):
        if set(value) != {"from"}:
            raise Wrong(
                "is a table of something else", hint='write { from = "VARIABLE" }, or a text'
            )
        value = f"${value['from']}"
    if not isinstance(value, str):
        raise Wrong("is no text", hint="write it in quotes")
    _whole_text(value)
    if value.startswith("$$"):
        return value[1:]
    if not value.startswith("$"):
        return value
    if not _VARIABLE.fullmatch(value[1:]):
        hint = "write $$ for a text that begins with a dollar"
        raise Wrong("begins with $, but names no variable", hint=hint)
    return FromEnvironment(value[1:])


def option(value: object, source: Source) -> str | bool:
    """One of an agent's own options: a word, or a switch."""
    return value if isinstance(value, bool) else text(value, source)


def seconds(value: object, source: Source) -> float:
    """A time that is not endless."""
    if source.is_text and isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise Wrong(f"is {shown(value)}", hint="write a number") from None
    if type(value) not in (int, float) or not 0 <= value <= MOST_SECONDS:  # type: ignore[operator]
        raise Wrong(f"is {shown(value)}", hint=f"write a number from 0 to {MOST_SECONDS}")
    return float(value)  # type: ignore[arg-type]  # a number, as was seen


def one_of(*words: str) -> Reader:
    """One of these words."""

    def read(value: object, _: Source) -> object:
        if not isinstance(value, str) or value not in words:
            close = difflib.get_close_matches(value, words, n=1) if isinstance(value, str) else ()
            hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(words)}"
            raise Wrong(f"is {shown(value)}", hint=hint)
        return value

    return read


def _agent_name(name: str) -> None:
    if name in BUILT_IN:
        raise Wrong("is always there, and cannot be another", hint="choose another name")
    if not _AGENT.fullmatch(name):
        raise Wrong(
            "is no name for an agent", hint="use letters, digits, - and _, at most 64 of them"
        )


def _variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise Wrong("is no name of a variable", hint="use letters, digits and _")


def _header(name: str) -> None:
    if not _HEADER.fullmatch(name):
        raise Wrong("is no name of a header", hint="write it as HTTP does")


def _name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise Wrong("is no name", hint="write some text")


_ENV: Final = Names(Leaf(secret), _variable)

MCP_SERVER: Final = Table(
    {
        "command": Leaf(command),
        "env": _ENV,
        "url": Leaf(text),
        "transport": Leaf(one_of(*get_args(Transport))),
        "headers": Names(Leaf(secret), _header),
    }
)

AGENT: Final = Table(
    {
        "driver": Leaf(one_of(*get_args(Driver))),
        "preset": Leaf(one_of(*PRESETS)),
        "command": Leaf(command),
        "function": Leaf(function),
        "env": _ENV,
        "auth": Leaf(text),
        "mcp_servers": Names(MCP_SERVER, _name),
        "mode": Leaf(text),
        "options": Names(Leaf(option), _name),
        "handshake_seconds": Leaf(seconds),
        "resume_command": Leaf(command),
        "output": Leaf(one_of(*get_args(OutputForm))),
        "text": Leaf(place),
        "session_id_at": Leaf(place),
        "permissions": table_of(Permissions()),
        "limits": table_of(Limits()),
        "workspace": Leaf(path),
    }
)

AGENTS: Final = Names(AGENT, _agent_name)
