"""Schema of `[agents.NAME]`: the annotation and the check of each value.

`supervisor.decode` decodes a value by its annotation; the functions below check the decoded value
and convert it into the setting.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from supervisor.core.env_values import EnvValue, is_variable_name, parse_env_value
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.redaction import REDACTED
from supervisor.core.validation import AGENT_NAME_HINT, is_agent_name

from .agent_presets import PRESET_NAMES
from .agent_table import Driver, OutputForm, ToolsChoice, Transport
from .paths import expand_path
from .schema import DecodedValue, Leaf, OpenTable, Table, table_for_class
from .sources import InvalidValue, Source

# Names of the built-in agents (a test compares); they cannot be configured.
BUILT_IN: Final = ("echo", "scripted")

MAX_SECONDS: Final = 86400

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

CommandWords: TypeAlias = tuple[str, ...]

_QUOTED: Final = "write a text in quotes"
_LIST_OF_WORDS: Final = 'write a list, each word in quotes: ["program", "--option"]'


def _text(value: str, _: Source) -> str:
    """Return the text; raise InvalidValue if it is blank."""
    if not value.strip():
        raise InvalidValue(f"is {short_repr(value)}", hint=_QUOTED)
    return _check_text(value)


def _check_text(value: str) -> str:
    if "\0" in value:
        raise InvalidValue("contains a NUL character", hint="remove it")
    if REDACTED in value:
        hint = "this was redacted when it was printed: write the real value"
        raise InvalidValue(f"contains {REDACTED}", hint=hint)
    return value


def _path(value: str, source: Source) -> str:
    """Return the path, made absolute."""
    return expand_path(_text(value, source), folder=source.folder, home=source.home)


def _command(value: str | CommandWords, source: Source) -> CommandWords:
    """Return the words of a command, given as a list or as one text with shell quotes.

    A program that starts with ./ or ~/ is made absolute: the agent runs in another directory.
    """
    words = _split(value) if isinstance(value, str) else value
    if not words:
        raise InvalidValue("is not a command: it has no words", hint=_LIST_OF_WORDS)
    for word in words:
        _check_text(word)
    program = _text(words[0], source)
    if program.startswith(("./", "../", "~/")):
        program = expand_path(program, folder=source.folder, home=source.home)
    return (program, *words[1:])


def _split(line: str) -> CommandWords:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        hint = "close the quote, or write a list of words"
        raise InvalidValue(f"is not a shell command: {str(error).lower()}", hint=hint) from None


_FUNCTION_NAME: Final = 'write "package.module:function"'


def _function(value: str, _: Source) -> str:
    """Return the name of an async function.

    Raise InvalidValue unless it is `package.module:function`.
    """
    if not _FUNCTION.fullmatch(value):
        raise InvalidValue(f"is {short_repr(value)}", hint=_FUNCTION_NAME)
    return value


def _output_path(value: str, source: Source) -> str:
    """Return the path of a value in a line of JSON; raise InvalidValue if it is malformed."""
    from supervisor.drivers.command.output import parse_json_path  # noqa: PLC0415 - drivers are slow to import

    try:
        return parse_json_path("it", _text(value, source)).text
    except ConfigError as error:
        raise InvalidValue(str(error.args[0]).removeprefix("it "), hint=error.hint) from None


def _secret(value: str | Mapping[str, object], _: Source) -> EnvValue:
    """Return a secret: its text, or the name of the environment variable that holds it.

    Errors never show the value.
    """
    if not isinstance(value, str):
        if set(value) != {"from"}:
            raise InvalidValue(
                "is not a table with only `from`", hint='write { from = "VARIABLE" }, or a text'
            )
        value = f"${value['from']}"
    _check_text(value)
    try:
        return parse_env_value(value)
    except ConfigError as error:
        raise InvalidValue(str(error.args[0]), hint=error.hint) from None


def _option(value: str | bool, source: Source) -> str | bool:  # noqa: FBT001 - a value, not a switch
    """Return an option of an agent: a text or a flag."""
    return value if isinstance(value, bool) else _text(value, source)


_SECONDS: Final = f"write a number from 0 to {MAX_SECONDS}"


def _seconds(value: float, _: Source) -> float:
    """Return the number of seconds; raise InvalidValue if it is not finite."""
    if not 0 <= value <= MAX_SECONDS:
        raise InvalidValue(f"is {short_repr(value)}", hint=_SECONDS)
    return value


def _check_agent_name(name: str) -> None:
    if name in BUILT_IN:
        raise InvalidValue("is a built-in agent", hint="choose another name")
    if not is_agent_name(name):
        raise InvalidValue("is not a name for an agent", hint=AGENT_NAME_HINT)


def _check_variable(name: str) -> None:
    if not is_variable_name(name):
        raise InvalidValue("is not a name of a variable", hint="use letters, digits and _")


def _check_header(name: str) -> None:
    if not _HEADER.fullmatch(name):
        raise InvalidValue("is not a name of a header", hint="use the characters that HTTP allows")


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise InvalidValue("is not a name", hint="use printable characters")


_TEXT: Final = Leaf(DecodedValue(str, _text, _QUOTED))
_COMMAND: Final = Leaf(DecodedValue(str | CommandWords, _command, _LIST_OF_WORDS))
_OUTPUT_PATH: Final = Leaf(DecodedValue(str, _output_path, _QUOTED))
_SECRET: Final = Leaf(
    DecodedValue(str | Mapping[str, object], _secret, "write it in quotes", is_secret=True)
)
_ENV: Final = OpenTable(_SECRET, _check_variable)

MCP_SERVER: Final = Table(
    {
        "command": _COMMAND,
        "env": _ENV,
        "url": _TEXT,
        "transport": Leaf(DecodedValue(Transport)),
        "headers": OpenTable(_SECRET, _check_header),
    }
)

AGENT: Final = Table(
    {
        "driver": Leaf(DecodedValue(Driver)),
        "preset": Leaf(DecodedValue(Literal[PRESET_NAMES])),
        "command": _COMMAND,
        "function": Leaf(DecodedValue(str, _function, _FUNCTION_NAME)),
        "env": _ENV,
        "auth": _TEXT,
        "mcp_servers": OpenTable(MCP_SERVER, _check_name),
        "mode": _TEXT,
        "options": OpenTable(Leaf(DecodedValue(bool | str, _option, _QUOTED)), _check_name),
        "handshake_seconds": Leaf(DecodedValue(float, _seconds, _SECONDS)),
        "tools": Leaf(DecodedValue(ToolsChoice)),
        "subagents": Leaf(DecodedValue(bool)),
        "resume_command": _COMMAND,
        "output": Leaf(DecodedValue(OutputForm)),
        "text": _OUTPUT_PATH,
        "session_id_at": _OUTPUT_PATH,
        "permissions": table_for_class(Permissions()),
        "limits": table_for_class(Limits()),
        "workspace": Leaf(DecodedValue(str, _path, _QUOTED)),
    }
)

AGENTS: Final = OpenTable(AGENT, _check_agent_name)
