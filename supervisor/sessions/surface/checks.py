"""What callers give, checked at the door: a typed error that says what would have been right."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from supervisor.core.errors import ConfigError, InputRefused
from supervisor.drivers.plain import plain

MAX_NAME_BYTES = 1024
MAX_SECONDS = 1e10  # some three hundred years


_words = functools.cache(get_args)


def known_word(name: str, word: object, choices: object) -> None:
    """One of the words of a `Literal`."""
    words = _words(choices)
    if not isinstance(word, str) or word not in words:
        raise ConfigError(f"{name} is {word!r}", hint=f"choose one of {', '.join(words)}")


def some_text(name: str, text: object) -> str:
    """Short text with something in it, and with whole characters."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{name} is {text!r}", hint="give some text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(
            f"{name} has half of a character in it",
            hint="a lone surrogate cannot be stored: decode the text properly first",
        ) from None
    if size > MAX_NAME_BYTES:
        raise ConfigError(
            f"{name} has {size} bytes of {MAX_NAME_BYTES} allowed", hint="make it shorter"
        )
    return text


def text_or_none(name: str, text: object) -> None:
    """Text, or nothing."""
    if text is not None and not isinstance(text, str):
        raise ConfigError(f"{name} is {text!r}", hint="give some text, or None")


def positive_seconds(seconds: object) -> float:
    """A number of seconds above 0."""
    good = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not good or not 0 < seconds <= MAX_SECONDS:  # type: ignore[operator]
        raise InputRefused(
            f"ttl_seconds is {seconds!r}",
            hint=f"give a number above 0 and up to {MAX_SECONDS:g}, or None for no limit",
        )
    return float(seconds)  # type: ignore[arg-type]


def checked_attachments(given: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Attachments as plain data, or `InputRefused`."""
    if not given:
        return ()
    if not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise InputRefused(f"attachments is {given!r}", hint="give a list of mappings")
    return tuple(plain(attachment) for attachment in given)  # type: ignore[misc]


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags, or `ConfigError`."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise ConfigError(f"tags is {tags!r}", hint="give a list of names")
    return tuple(some_text("a tag", tag) for tag in tags)


def checked_custom(custom: Mapping[str, str]) -> dict[str, str]:
    """Custom data, or `ConfigError`."""
    if not isinstance(custom, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in custom.items()
    ):
        raise ConfigError(f"custom is {custom!r}", hint="give a mapping of text to text")
    made = plain(custom)
    assert isinstance(made, dict)
    return made
