"""A session by what people call it: its id, the beginning or end of that, its name or its key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from supervisor.core.errors import SessionNotFound, shown

if TYPE_CHECKING:  # see target
    from supervisor.core.info import Info
    from supervisor.sessions.surface.handle import Session

    from .target import Target

_SHORTEST: Final = 2
_MOST_NAMED: Final = 5
_PAGE: Final = 500


async def find_session(sup: Target, text: str) -> Session:
    """The one session that is meant; raises `SessionNotFound` if it is none, or could be several.

    An exact id is taken at its word, and a name or a key is looked up. For a part of an id all
    sessions are looked at, so that takes a moment.
    """
    try:
        return await sup.get(text)
    except SessionNotFound as error:
        if len(text) < _SHORTEST:
            raise
        found = await _matching(sup, text)
        if len(found) == 1:
            return sup.session(found[0])
        if not found:
            raise SessionNotFound(
                f"no session is called {shown(text)}", hint="`understudy ps` lists them"
            ) from error
    named = ", ".join(found[:_MOST_NAMED])
    more = ", and others" if len(found) > _MOST_NAMED else ""
    raise SessionNotFound(
        f"{shown(text)} could be {len(found)} sessions: {named}{more}", hint="write an id of these"
    )


async def _matching(sup: Target, text: str) -> list[str]:
    """Those whose name or key it is; if there are none, those whose id begins or ends with it."""
    named = _listed(sup, with_text=text)
    exact: list[str] = [one.id async for one in named if text in (one.name, one.key)]
    if exact:
        return exact
    ids: list[str] = [one.id async for one in _listed(sup)]
    ids += (await sup.stats()).damaged  # of whom nothing but that can be read
    return [one for one in ids if one.startswith(text) or one.endswith(text)]


async def _listed(sup: Target, *, with_text: str | None = None) -> AsyncIterator[Info]:
    """All that there are, or that have it in their name, title or key; page by page."""
    cursor: str | None = None
    while True:
        page = await sup.list(text=with_text, limit=_PAGE, cursor=cursor)
        for info in page.items:
            yield info
        cursor = page.next
        if cursor is None:
            return
