"""Lists in pages: what is asked for, checked; and cursors, which nothing shifts."""

from __future__ import annotations

import base64
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from supervisor.core.info import Info
from supervisor.core.session import Phase
from supervisor.store.filters import Filter
from supervisor.store.retention import Rules

from .checks import checked_wanted, some_number, some_seconds, whole_workspace

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


def checked_filter(**given: Any) -> Filter:  # noqa: ANN401 - the fields of a Filter
    """What a list is to show, or `ConfigError` for what cannot be meant."""
    checked_wanted(given)
    if given["phase"] is not None:
        given["phase"] = Phase(given["phase"])
    given["workspace"] = whole_workspace(given["workspace"])
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
