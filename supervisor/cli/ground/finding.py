"""A session by what people call it: its id, the beginning or end of that, its name or its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from supervisor.core.errors import SessionNotFound, shown

if TYPE_CHECKING:  # see target
    from supervisor.sessions.surface.handle import Session

    from .target import Target

_SHORTEST: Final = 2
_MOST_NAMED: Final = 5


async def find_session(sup: Target, text: str) -> Session:
    """The one session that is meant; raises `SessionNotFound` if it is none, or could be several.

    An exact id is taken at its word. Else every session is looked at, so it takes a moment.
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
    exact: list[str] = []
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await sup.list(limit=500, cursor=cursor)
        exact += [info.id for info in page.items if text in (info.name, info.key)]
        ids += [info.id for info in page.items]
        cursor = page.next
        if cursor is None:
            break
    if exact:
        return exact
    ids += (await sup.stats()).damaged  # of whom nothing but that can be read
    return [one for one in ids if one.startswith(text) or one.endswith(text)]
