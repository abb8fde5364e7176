"""Values of an agent's environment: a text, or the name of a variable of the supervisor.

The same text means the same in `supervisor.acp(env=...)`, `supervisor.command(env=...)`, the `env`
and `headers` of MCP servers, and the configuration file.

Rule 1: `$NAME` is the value of that variable when the agent starts. `$$` at the beginning is a
        literal dollar sign. No other dollar sign has a meaning.
Rule 2: a value that is looked up is never stored, and redaction covers it from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from .errors import ConfigError

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen
class FromEnvironment:
    """A value that is read from our environment when the agent starts, and never stored."""

    variable: str


EnvValue: TypeAlias = str | FromEnvironment


def is_variable_name(text: str) -> bool:
    """Return True if `$` and this text refer to a variable."""
    return _VARIABLE.fullmatch(text) is not None


def parse_env_value(text: str) -> EnvValue:
    """Return the meaning of a text; raise `ConfigError`, which does not show it."""
    if text.startswith("$$"):
        return text[1:]
    if not text.startswith("$"):
        return text
    if not is_variable_name(text[1:]):
        raise ConfigError(
            "starts with $, but does not name a variable",
            hint="write $$ for a text that starts with a dollar sign",
        )
    return FromEnvironment(text[1:])


def format_env_value(value: EnvValue) -> str:
    """Return the text that `parse_env_value` parses to this value."""
    if isinstance(value, FromEnvironment):
        return f"${value.variable}"
    return f"${value}" if value.startswith("$") else value


def missing_variables(values: Iterable[EnvValue], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that the values name and the environment does not have, sorted."""
    wanted = {value.variable for value in values if isinstance(value, FromEnvironment)}
    return tuple(sorted(name for name in wanted if name not in environ))
