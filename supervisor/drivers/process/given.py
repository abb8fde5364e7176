"""What a user has given to be run, looked at before anything is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisor.core.errors import ConfigError, shown


def words_of(name: str, command: object) -> tuple[str, ...]:
    """The words of a command; raises `ConfigError` if they are none."""
    if isinstance(command, str) or not isinstance(command, Iterable):
        raise ConfigError(
            f"the command of agent {shown(name)} is {shown(command)}",
            hint='give a list of words: ["gemini", "--acp"]',
        )
    words = tuple(command)
    if not words or not all(isinstance(w, str) and "\0" not in w for w in words) or not words[0]:
        raise ConfigError(
            f"the command of agent {shown(name)} is {shown(list(words))}",
            hint="give the program and its arguments, each as text",
        )
    return words


def checked_env(name: str, env: object) -> dict[str, str]:
    """Variables for an agent; raises `ConfigError` if they are none."""
    if env is None:
        return {}
    if not isinstance(env, Mapping) or not all(map(_is_variable, env.items())):
        raise ConfigError(
            f"the env of agent {shown(name)} is no mapping of names to texts",
            hint='give {"NAME": "value"}',
        )
    return dict(env)


def _is_variable(item: tuple[object, object]) -> bool:
    key, value = item
    if not isinstance(key, str) or not isinstance(value, str):
        return False
    return bool(key) and "=" not in key and "\0" not in key + value
