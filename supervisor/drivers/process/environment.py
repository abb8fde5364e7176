"""The environment of an agent, and checks of the commands and variables that users configure.

Rule 1: an agent inherits only the variables on the list below. A secret reaches it only if the user
        names it for that agent, so the list has no key, no token and no path to one (such as the
        socket of an ssh agent or of the desktop).
Rule 2: no variable of our own (UNDERSTUDY_*) is inherited.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from supervisor.core.errors import ConfigError, short_repr

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


def agent_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the complete environment of an agent: inherited variables, overridden by `extra`."""
    ours = {name: value for name, value in os.environ.items() if is_inherited(name)}
    return {**ours, **extra}


def is_inherited(name: str) -> bool:
    """Return True if agents inherit this variable."""
    return name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES)


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


def check_env(name: str, env: object) -> dict[str, str]:
    """Return the variables for an agent; raise `ConfigError` if they are not valid."""
    if env is None:
        return {}
    if not isinstance(env, Mapping) or not all(map(_is_variable, env.items())):
        raise ConfigError(
            f"the env of agent {short_repr(name)} is not a mapping of names to texts",
            hint='give {"NAME": "value"}',
        )
    return dict(env)


def _is_variable(item: tuple[object, object]) -> bool:
    key, value = item
    if not isinstance(key, str) or not isinstance(value, str):
        return False
    return bool(key) and "=" not in key and "\0" not in key + value
