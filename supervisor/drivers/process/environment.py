"""The environment of an agent, the marker in it, and checks of configured commands and variables.

`supervisor.core.env_values` defines the meaning of `$NAME`; the values are looked up here.

Rule 1: an agent inherits only the variables on the list below. A secret reaches it only if the user
        names it for that agent, so the list has no key, no token and no path to one (such as the
        socket of an ssh agent or of the desktop).
Rule 2: no variable of our own (UNDERSTUDY_*) is inherited.

The marker is in the environment of every process of one containment.

It identifies the processes of a containment when the guardian itself was killed. It names the
guardian, so that a scan can tell whether a marked process still has one, and the pid namespace of
the guardian's pid, because processes of a container are visible from outside as well.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs

from supervisor.core.env_values import (
    EnvValue,
    FromEnvironment,
    missing_variables,
    parse_env_value,
)
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.redaction import cover_secret
from supervisor.drivers.identity import ProcessIdentity

INHERITED_NAMES: Final = frozenset(
    {
        # User and directories.
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP"),
        # The user's files; not XDG_RUNTIME_DIR, which has the sockets of other programs.
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
        *("XDG_CONFIG_DIRS", "XDG_DATA_DIRS"),
        # Language and terminal.
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
        # Proxies and certificate authorities.
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    }
)

INHERITED_PREFIXES: Final = ("LC_", "SSL_CERT_")


def agent_environment(
    extra: Mapping[str, EnvValue], environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the complete environment of an agent: inherited variables, overridden by `extra`.

    The variables that `extra` names are looked up in `environ`.
    """
    ours = {name: value for name, value in os.environ.items() if is_inherited(name)}
    return {**ours, **{name: resolve(value, environ) for name, value in extra.items()}}


def is_inherited(name: str) -> bool:
    """Return True if agents inherit this variable."""
    return name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES)


def require_variables(agent: str, values: Iterable[EnvValue], environ: Mapping[str, str]) -> None:
    """Raise `ConfigError` if a variable that the values of an agent name is not set."""
    missing = missing_variables(values, environ)
    if missing:
        names = ", ".join(f"${name}" for name in missing)
        raise ConfigError(
            f"agent {agent} needs {names}, which is not set in the environment",
            hint=f"set ${missing[0]} for the supervisor, or write $$ for a literal dollar sign",
        )


def resolve(value: EnvValue, environ: Mapping[str, str]) -> str:
    """Return the text for the agent; the caller has called `require_variables`.

    Redaction covers a value that was looked up, unless agents inherit its variable anyway.
    """
    if not isinstance(value, FromEnvironment):
        return value
    found = environ[value.variable]
    if not is_inherited(value.variable):
        cover_secret(found)
    return found


def check_command(name: str, command: object) -> tuple[str, ...]:
    """Return the words of a command; raise `ConfigError` if it is not a list of words."""
    if isinstance(command, str) or not isinstance(command, Iterable):
        raise ConfigError(
            f"the command of agent {short_repr(name)} is {short_repr(command)}",
            hint='give a list of words: ["gemini", "--acp"]',
        )
    words = tuple(command)
    if not words or not all(isinstance(w, str) and "\0" not in w for w in words) or not words[0]:
        raise ConfigError(
            f"the command of agent {short_repr(name)} is {short_repr(list(words))}",
            hint="give the program and its arguments, each as text",
        )
    return words


def check_env(name: str, env: object) -> dict[str, EnvValue]:
    """Return the variables for an agent; raise `ConfigError` if they are not valid."""
    if env is None:
        return {}
    if not isinstance(env, Mapping) or not all(map(_is_variable, env.items())):
        raise ConfigError(
            f"the env of agent {short_repr(name)} is not a mapping of names to texts",
            hint='give {"NAME": "value"}',
        )
    return {key: check_env_value(name, key, text) for key, text in env.items()}


def check_env_value(agent: str, key: str, text: str) -> EnvValue:
    """Return the meaning of one value; raise `ConfigError`, which does not show it."""
    try:
        return parse_env_value(text)
    except ConfigError as error:
        what = f"{short_repr(key)} of agent {short_repr(agent)} {error.args[0]}"
        raise ConfigError(what, hint=error.hint) from None


def _is_variable(item: tuple[object, object]) -> bool:
    key, value = item
    if not isinstance(key, str) or not isinstance(value, str):
        return False
    return bool(key) and "=" not in key and "\0" not in key + value


MARKER_VARIABLE: Final = "UNDERSTUDY_CONTAINMENT"
_ENTRY: Final = f"{MARKER_VARIABLE}=".encode()
_FIELDS: Final = 4


@attrs.frozen
class Marker:
    """The permanent identity of one containment."""

    token: str
    guardian_pid: int
    guardian_start_time: int
    namespace: str

    def __str__(self) -> str:
        return f"{self.token}.{self.guardian_pid}.{self.guardian_start_time}.{self.namespace}"

    def is_guardian(self, identity: ProcessIdentity) -> bool:
        """Return True if this process is the guardian of the containment."""
        named = (self.guardian_pid, self.guardian_start_time)
        return (identity.pid, identity.start_time) == named


def new_marker(guardian: ProcessIdentity) -> Marker:
    """Return an unused marker for the containment of this guardian."""
    return Marker(
        secrets.token_hex(16), guardian.pid, guardian.start_time, pid_namespace() or "none"
    )


def marker_in_environ(environ: bytes) -> Marker | None:
    """Return the marker in the text of a /proc/PID/environ; None if it has no valid marker."""
    if _ENTRY not in environ:
        return None  # the fast path of nearly every process
    for entry in environ.split(b"\0"):
        if entry.startswith(_ENTRY):
            return parse_marker(entry[len(_ENTRY) :].decode("ascii", "replace"))
    return None


def parse_marker(text: str) -> Marker | None:
    """Return the marker with exactly this text; None if the text is not a marker."""
    fields = text.split(".")
    if len(fields) != _FIELDS or not all(field.isdigit() for field in fields[1:3]):
        return None
    marker = Marker(fields[0], int(fields[1]), int(fields[2]), fields[3])
    return marker if str(marker) == text else None


def pid_namespace() -> str | None:
    """Return the id of our pid namespace; None without /proc."""
    try:
        return Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        return None
