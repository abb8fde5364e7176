"""Lists in pages: what is asked for, checked; and cursors, which nothing shifts."""

from __future__ import annotations

import base64
import os.path
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Literal

from supervisor.core.errors import ConfigError, shown
from supervisor.core.info import Badge, Info
from supervisor.core.session import Phase
from supervisor.store.filters import Filter
from supervisor.store.retention import Rules

from .checks import MAX_SECONDS, known_word, text_or_none

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

_TEXTS: Final = ("agent", "tag", "workspace", "channel", "peer", "parent", "root", "text")
# What every store can count to.
_LARGEST: Final = 2**53
_TIMES: Final = ("created_after", "created_before", "updated_after", "updated_before")


def checked_filter(**given: Any) -> Filter:  # noqa: ANN401 - the fields of a Filter
    """What a list is to show, or `ConfigError` for what cannot be meant."""
    for name in _TEXTS:
        text_or_none(name, given[name])
    for name in _TIMES:
        if given[name] is not None:
            some_seconds(name, given[name])
    archived = given["archived"]
    if archived is not None and not isinstance(archived, bool):
        raise ConfigError(f"archived is {shown(archived)}", hint="give True, False or None")
    if given["phase"] is not None:
        given["phase"] = Phase(known_word("phase", given["phase"], Literal[tuple(Phase)]))
    if given["badge"] is not None:
        known_word("badge", given["badge"], Badge)
    if given["workspace"]:
        # As those are that sessions have; one that none can have is nobody's.
        given["workspace"] = os.path.abspath(given["workspace"])  # noqa: PTH100 - not resolved
    return Filter(**given)


def checked_rules(
    older_than_seconds: float | None, keep_last: int | None, max_bytes: int | None
) -> Rules:
    """What a cleanup keeps, or `ConfigError`."""
    if older_than_seconds is not None:
        some_seconds("older_than_seconds", older_than_seconds)
    for name, number in (("keep_last", keep_last), ("max_bytes", max_bytes)):
        if number is not None:
            some_number(name, number, least=0)
    return Rules(older_than_seconds=older_than_seconds, keep_last=keep_last, max_bytes=max_bytes)


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


async def listed(
    house: House, wanted: Filter, after: int, limit: int
) -> tuple[tuple[Info, ...], int | None]:
    """Those that fit, from a number on, and after which number there are more."""
    items: list[Info] = []
    last = after
    found = house.store.rows(after=after, fitting=wanted, at_once=limit + 1)
    async with aclosing(found) as rows:
        async for stored in rows:
            if len(items) == limit:
                return tuple(items), last
            last = stored.number
            items.append(house.desk.info(stored.row, last_seq=stored.last_seq))
    return tuple(items), None


def encoded(number: int | None) -> str | None:
    """A cursor; None stays None, for there is no next page."""
    return None if number is None else base64.urlsafe_b64encode(str(number).encode()).decode()


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
