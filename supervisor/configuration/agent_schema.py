"""Schema of `[agents.NAME]`, and the readers of its values."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from typing import Final, TypeAlias, get_args

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.text import REDACTED

from .agent_presets import PRESET_NAMES as PRESETS
from .agent_table import Driver, FromEnvironment, OutputForm, Secret, Transport
from .paths import expand_path
from .schema import Leaf, OpenTable, Reader, Table, table_for_class
from .sources import InvalidValue, Source

# Names of the built-in agents (a test compares); they cannot be configured.
BUILT_IN: Final = ("echo", "scripted")

MAX_SECONDS: Final = 86400

_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

CommandWords: TypeAlias = tuple[str, ...]


def read_text(value: object, _: Source) -> str:
    """Return a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue(f"is {short_repr(value)}", hint="write a text in quotes")
    return _check_text(value)


def _check_text(value: str) -> str:
    if "\0" in value:
        raise InvalidValue("contains a NUL character", hint="remove it")
    if REDACTED in value:
        hint = "this was redacted when it was printed: write the real value"
        raise InvalidValue(f"contains {REDACTED}", hint=hint)
    return value


def read_path(value: object, source: Source) -> str:
    """Return a path, made absolute."""
    return expand_path(read_text(value, source), folder=source.folder, home=source.home)


def read_command(value: object, source: Source) -> CommandWords:
    """Return the words of a command, given as a list or as one text with shell quotes.

    A program that starts with ./ or ~/ is made absolute: the agent runs in another directory.
    """
    words = _split(value) if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        hint = 'write a list: ["program", "--option"]'
        raise InvalidValue(f"is {short_repr(value)}, not a command", hint=hint)
    for word in words:
        if not isinstance(word, str):
            hint = "write each word of the command in quotes"
            raise InvalidValue(f"contains {short_repr(word)}, which is not a text", hint=hint)
        _check_text(word)
    program = read_text(words[0], source)
    if program.startswith(("./", "../", "~/")):
        program = expand_path(program, folder=source.folder, home=source.home)
    return (program, *words[1:])


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        hint = "close the quote, or write a list of words"
        raise InvalidValue(f"is not a shell command: {str(error).lower()}", hint=hint) from None


def read_function(value: object, _: Source) -> str:
    """Return the name of an async function, as `package.module:function`."""
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        raise InvalidValue(f"is {short_repr(value)}", hint='write "package.module:function"')
    return value


def read_output_path(value: object, source: Source) -> str:
    """Return the path of a value in a line of JSON."""
    from supervisor.drivers.command.output import parse_json_path  # noqa: PLC0415 - drivers are slow to import

    try:
        return parse_json_path("it", read_text(value, source)).text
    except ConfigError as error:
        raise InvalidValue(str(error.args[0]).removeprefix("it "), hint=error.hint) from None


def read_secret(value: object, _: Source) -> Secret:
    """Return a text, or the variable of our environment that holds it.

    Errors never show the value.
    """
    if isinstance(value, Mapping):
        if set(value) != {"from"}:
            raise InvalidValue(
                "is not a table with only `from`", hint='write { from = "VARIABLE" }, or a text'
            )
        value = f"${value['from']}"
    if not isinstance(value, str):
        raise InvalidValue("is not a text", hint="write it in quotes")
    _check_text(value)
    if value.startswith("$$"):
        return value[1:]
    if not value.startswith("$"):
        return value
    if not _VARIABLE.fullmatch(value[1:]):
        hint = "write $$ for a text that starts with a dollar sign"
        raise InvalidValue("starts with $, but does not name a variable", hint=hint)
    return FromEnvironment(value[1:])


def read_option(value: object, source: Source) -> str | bool:
    """Return an option of an agent: a text or a flag."""
    return value if isinstance(value, bool) else read_text(value, source)


def read_seconds(value: object, source: Source) -> float:
    """Return a finite number of seconds."""
    if source.is_text and isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise InvalidValue(f"is {short_repr(value)}", hint="write a number") from None
    if type(value) not in (int, float) or not 0 <= value <= MAX_SECONDS:  # type: ignore[operator]
        raise InvalidValue(
            f"is {short_repr(value)}", hint=f"write a number from 0 to {MAX_SECONDS}"
        )
    return float(value)  # type: ignore[arg-type]  # a number, checked above


def read_one_of(*words: str) -> Reader:
    """Return a reader of one of these words."""

    def read(value: object, _: Source) -> object:
        if not isinstance(value, str) or value not in words:
            close = difflib.get_close_matches(value, words, n=1) if isinstance(value, str) else ()
            hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(words)}"
            raise InvalidValue(f"is {short_repr(value)}", hint=hint)
        return value

    return read


def _check_agent_name(name: str) -> None:
    if name in BUILT_IN:
        raise InvalidValue("is a built-in agent", hint="choose another name")
    if not _AGENT.fullmatch(name):
        raise InvalidValue(
            "is not a name for an agent", hint="use at most 64 letters, digits, - and _"
        )


def _check_variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise InvalidValue("is not a name of a variable", hint="use letters, digits and _")


def _check_header(name: str) -> None:
    if not _HEADER.fullmatch(name):
        raise InvalidValue("is not a name of a header", hint="use the characters that HTTP allows")


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise InvalidValue("is not a name", hint="use printable characters")


_ENV: Final = OpenTable(Leaf(read_secret), _check_variable)

MCP_SERVER: Final = Table(
    {
        "command": Leaf(read_command),
        "env": _ENV,
        "url": Leaf(read_text),
        "transport": Leaf(read_one_of(*get_args(Transport))),
        "headers": OpenTable(Leaf(read_secret), _check_header),
    }
)

AGENT: Final = Table(
    {
        "driver": Leaf(read_one_of(*get_args(Driver))),
        "preset": Leaf(read_one_of(*PRESETS)),
        "command": Leaf(read_command),
        "function": Leaf(read_function),
        "env": _ENV,
        "auth": Leaf(read_text),
        "mcp_servers": OpenTable(MCP_SERVER, _check_name),
        "mode": Leaf(read_text),
        "options": OpenTable(Leaf(read_option), _check_name),
        "handshake_seconds": Leaf(read_seconds),
        "resume_command": Leaf(read_command),
        "output": Leaf(read_one_of(*get_args(OutputForm))),
        "text": Leaf(read_output_path),
        "session_id_at": Leaf(read_output_path),
        "permissions": table_for_class(Permissions()),
        "limits": table_for_class(Limits()),
        "workspace": Leaf(read_path),
    }
)

AGENTS: Final = OpenTable(AGENT, _check_agent_name)
