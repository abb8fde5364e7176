"""What callers give, checked at the door: a typed error that says what would have been right."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, get_args

import attrs

from supervisor.core.errors import ConfigError, InputRefused, SpawnRefused, shown
from supervisor.core.info import Badge
from supervisor.core.limits import Limits
from supervisor.core.permissions import RIGHTS, Permissions
from supervisor.core.session import Phase
from supervisor.drivers.plain import plain

from .shapes import Options, Role, Scope, ToolCall, TurnScope

T = TypeVar("T")

MAX_NAME_BYTES = 1024
MAX_CUSTOM_BYTES = 16384
MAX_PERMISSIONS_BYTES = 65536
MAX_SECONDS = 1e10  # some three hundred years
# What every store can count to.
_LARGEST: Final = 2**53
_TEXTS: Final = ("agent", "tag", "workspace", "channel", "peer", "parent", "root", "text")
_TIMES: Final = ("created_after", "created_before", "updated_after", "updated_before")


def exact(text: T) -> T:
    """A text that is nothing but a text: one of another class would not be stored as what it is."""
    return str.__str__(text) if isinstance(text, str) else text  # type: ignore[return-value]


def known_word(name: str, word: T, choices: object) -> T:
    """One of the words of a `Literal`."""
    words = get_args(choices)
    if not isinstance(word, str) or word not in words:
        raise ConfigError(f"{name} is {shown(word)}", hint=f"choose one of {', '.join(words)}")
    return exact(word)


def role_of(role: Role) -> Literal["user", "agent"]:
    """Who has said something, by our word for them."""
    return "user" if known_word("role", role, Role) == "user" else "agent"


def some_text(name: str, text: object) -> str:
    """Short text with something in it, and with whole characters."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{name} is {shown(text)}", hint="give some text")
    size = _size(name, text)
    if size > MAX_NAME_BYTES:
        raise ConfigError(
            f"{name} has {size} bytes of {MAX_NAME_BYTES} allowed", hint="make it shorter"
        )
    return exact(text)


def checked_prompt(text: str) -> str:
    """What an agent is to work on; how long it may be, its session knows."""
    # In the words of the session, which looks at every text again.
    if not isinstance(text, str):
        raise InputRefused(f"the text is {shown(text)}", hint="send some text")
    if not text.strip():
        raise InputRefused("the text is blank", hint="send some text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputRefused(
            "the text has half of a character in it",
            hint="a lone surrogate cannot be stored: decode the text properly first",
        ) from None
    return exact(text)


def _size(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(
            f"{name} has half of a character in it",
            hint="a lone surrogate cannot be stored: decode the text properly first",
        ) from None


def text_or_none(name: str, text: object) -> None:
    """Text with whole characters, or nothing."""
    if text is None:
        return
    if not isinstance(text, str):
        raise ConfigError(f"{name} is {shown(text)}", hint="give some text, or None")
    _size(name, text)


def positive_seconds(seconds: object) -> float:
    """A number of seconds above 0."""
    good = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not good or not 0 < seconds <= MAX_SECONDS:  # type: ignore[operator]
        raise InputRefused(
            f"ttl_seconds is {shown(seconds)}",
            hint=f"give a number above 0 and up to {MAX_SECONDS:g}, or None for no limit",
        )
    return float(seconds)  # type: ignore[arg-type]


def checked_attachments(given: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Attachments that are plain data, or `InputRefused`."""
    if given == ():
        return ()
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not all(type(one) is dict for one in given):
        raise InputRefused(f"attachments is {shown(given)}", hint="give a list of dicts")
    made = tuple(plain(one) for one in given)
    if any(copy != one for copy, one in zip(made, given, strict=True)):
        raise InputRefused(
            "an attachment is not plain data",
            hint="text, finite numbers, lists and dicts; encode bytes, or attach a path",
        )
    return made  # type: ignore[return-value] # the plain copy of a dict is one


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags, or `ConfigError`."""
    if isinstance(tags, str | Mapping) or not isinstance(tags, Iterable):
        raise ConfigError(f"tags is {shown(tags)}", hint="give a list of names")
    checked = tuple(some_text("a tag", tag) for tag in tags)
    size = sum(_size("tags", tag) for tag in checked)
    if size > MAX_CUSTOM_BYTES:
        raise ConfigError(
            f"tags have {size} bytes of {MAX_CUSTOM_BYTES} allowed",
            hint="they are written with every step of the session; use fewer",
        )
    return checked


def checked_permissions(permissions: Permissions) -> Permissions:
    """Permissions, or `ConfigError` if there are more names in them than a row should have."""
    if not isinstance(permissions, Permissions):
        raise ConfigError(
            f"permissions is {shown(permissions)}", hint="give supervisor.Permissions(...)"
        )
    names = [name for right in RIGHTS for name in getattr(permissions, right) or ()]
    size = sum(_size("permissions", name) for name in names)
    if size > MAX_PERMISSIONS_BYTES:
        raise ConfigError(
            f"the names in permissions have {size} bytes of {MAX_PERMISSIONS_BYTES} allowed",
            hint="they are written with every step of the session; name less, or None for all",
        )
    return permissions


def checked_custom(custom: Mapping[str, str]) -> dict[str, str]:
    """Custom data, or `ConfigError`."""
    if not isinstance(custom, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in custom.items()
    ):
        raise ConfigError(f"custom is {shown(custom)}", hint="give a mapping of text to text")
    size = sum(_size("custom", key) + _size("custom", value) for key, value in custom.items())
    if size > MAX_CUSTOM_BYTES:
        raise ConfigError(
            f"custom has {size} bytes of {MAX_CUSTOM_BYTES} allowed",
            hint="it is written with every step of the session; keep large things elsewhere",
        )
    return {exact(key): exact(value) for key, value in custom.items()}


def checked_path(name: str, value: object) -> str:
    """The name of a file, or `ConfigError`."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{name} is {shown(value)}", hint="give the name of a file, as text")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ConfigError(f"{name} is no name for a file", hint="give one that is text") from None
    return text


def a_flag(name: str, value: object) -> bool:
    """True or False, or `ConfigError`."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {shown(value)}", hint="give True or False")
    return value


def some_seconds(name: str, value: object) -> None:
    """Nothing if it is a time or a duration, or `ConfigError`."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= MAX_SECONDS:  # type: ignore[operator]
        raise ConfigError(f"{name} is {shown(value)}", hint="give seconds, as a number")


def some_number(name: str, value: int, *, least: int = 1, most: int = _LARGEST) -> int:
    """The number, or `ConfigError`."""
    good = isinstance(value, int) and not isinstance(value, bool)
    if not good or not least <= value <= most:
        raise ConfigError(
            f"{name} is {shown(value)}", hint=f"give a whole number from {least} to {most}"
        )
    return value


def checked_wanted(given: Mapping[str, Any]) -> None:
    """Nothing if it can be what a list is to show, or `ConfigError`."""
    for name in _TEXTS:
        text_or_none(name, given[name])
    for name in _TIMES:
        if given[name] is not None:
            some_seconds(name, given[name])
    archived = given["archived"]
    if archived is not None and not isinstance(archived, bool):
        raise ConfigError(f"archived is {shown(archived)}", hint="give True, False or None")
    if given["phase"] is not None:
        known_word("phase", given["phase"], Literal[tuple(Phase)])
    if given["badge"] is not None:
        known_word("badge", given["badge"], Badge)


def whole_workspace(workspace: str | None) -> str | None:
    """A folder by which sessions are looked for, written as they have it."""
    return os.path.abspath(workspace) if workspace else workspace  # noqa: PTH100 - not resolved


def decoded(cursor: str | None) -> int:
    """The number in a cursor, 0 without one; or `ConfigError`."""
    text_or_none("cursor", cursor)
    if cursor is None:
        return 0
    try:
        number = int(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError):
        number = -1
    if not 0 <= number <= _LARGEST:
        raise ConfigError(
            f"{shown(cursor)} is no cursor", hint="give the `next` of a page, or None for the first"
        )
    return number


def checked_workspace(workspace: object) -> str:
    """A normalised absolute path."""
    given = os.fspath(workspace) if isinstance(workspace, os.PathLike) else workspace
    path = some_text("workspace", given)
    if "\0" in path:
        raise ConfigError("workspace has a NUL in it", hint="give the path of a folder")
    return os.path.abspath(path)  # noqa: PTH100 - normalised, not resolved: it may not exist yet


def time_to_live(seconds: float) -> float:
    """How long a child may live, in seconds; or `SpawnRefused`, or `InputRefused`."""
    if type(seconds) in (int, float) and seconds <= 0:
        raise SpawnRefused(
            f"its time would be over before it begins: ttl_seconds is {shown(seconds)}",
            hint="give ttl_seconds above 0, or none",
            limit="expiry",
        )
    return positive_seconds(seconds)


def known_options(whose: str, options: Mapping[str, Any]) -> None:
    """Nothing if a session can be made with them, or `ConfigError`."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise ConfigError(
            f"{whose} has no {', '.join(sorted(unknown))}",
            hint=f"it has: {', '.join(sorted(Options.__annotations__))}",
        )


def checked_limits(limits: Limits) -> Limits:
    """Limits, or `ConfigError`."""
    if not isinstance(limits, Limits):
        raise ConfigError(f"limits is {shown(limits)}", hint="give supervisor.Limits(...)")
    return limits


def changed_limits(limits: Limits, changes: Mapping[str, Any]) -> Limits:
    """The limits with some of them changed; raises `ConfigError`."""
    unknown = changes.keys() - {field.name for field in attrs.fields(Limits)}
    if unknown:
        names = ", ".join(field.name for field in attrs.fields(Limits))
        raise ConfigError(f"limits has no {shown(min(map(str, unknown)))}", hint=f"it has: {names}")
    return attrs.evolve(limits, **changes)


def scope_name(scope: Scope) -> str:
    """What an interrupt is to hit, in a word; or `ConfigError`."""
    match scope:
        case TurnScope(str()):
            return "turn"
        case ToolCall(str()):
            return "tool_call"
        case "turn" | "session" | "tree":
            return scope
    raise ConfigError(
        f"scope is {shown(scope)}",
        hint='give "turn", "session", "tree", TurnScope(id) or ToolCall(id)',
    )
