"""Find what a person means by a text: an id, a part of one, a name, a key, or a path of names.

Rule 1: the ways are tried in order: whole id, name or key or path, beginning of the random part,
        end. The first that finds anything decides, and never guesses between two.
Rule 2: the work is bounded: ids are looked up in indexes, and open calls and requests in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from supervisor.core.errors import (
    AmbiguousId,
    InvalidKey,
    NotStorable,
    SessionNotFound,
    short_repr,
)
from supervisor.core.ids import SessionId, SessionKey, parse_session_id
from supervisor.core.match import PREFIXES, IdKind, Match, Place, is_part
from supervisor.core.names import ROOT_SCOPE, held_name, name_scope
from supervisor.core.state import SessionState
from supervisor.store.list_filter import Filter

from .parts import Parts

# A shorter text is a part of too many ids; it can be a name.
_MIN_PART: Final = 2
# Candidates that an ambiguous text is refused with.
MAX_CANDIDATES: Final = 20
_MAX_NAMED: Final = 5
_PATH_SEPARATOR: Final = "/"


async def resolve(
    parts: Parts, text: str, kind: IdKind | None, session_id: SessionId | None
) -> Match | None:
    """Return what the text stands for, or None; see `Supervisor.resolve`."""
    kinds = _kinds(kind, session_id)
    found: list[_Found] = []
    for one in kinds:
        found += await _with_part(parts, one, [text], "whole", session_id)
    if not found and "session" in kinds:
        found = [("session", named, named) for named in await _by_name(parts, text)]
    for place in ("beginning", "end"):
        if not found:
            found = await _by_part(parts, kinds, text, place, session_id)
    matches = [await _match(parts, *one) for one in dict.fromkeys(found)]
    if len(matches) > 1:
        raise _ambiguous(text, matches)
    return matches[0] if matches else None


# Kind, id and session.
_Found = tuple[IdKind, str, SessionId]


def _kinds(kind: IdKind | None, session_id: SessionId | None) -> Sequence[IdKind]:
    if kind is not None:
        return (kind,)
    return [one for one in PREFIXES if session_id is None or one != "session"]


async def _by_part(
    parts: Parts, kinds: Iterable[IdKind], text: str, place: Place, session_id: SessionId | None
) -> list[_Found]:
    """Return the ids of these kinds that begin or end with the text, with or without prefix."""
    found: list[_Found] = []
    for kind in kinds:
        prefix = PREFIXES[kind]
        random_part = text.removeprefix(prefix)
        if len(random_part) < _MIN_PART or (place == "end" and random_part != text):
            continue
        texts = [prefix + random_part if place == "beginning" else text]
        if kind == "call":
            texts.append(text)  # an agent in a process chooses the ids of its calls
        found += await _with_part(parts, kind, texts, place, session_id)
    return found


async def _with_part(
    parts: Parts, kind: IdKind, texts: Iterable[str], place: Place, session_id: SessionId | None
) -> list[_Found]:
    """Return the ids of the kind of which one of the texts is a part."""
    owner = None if kind == "session" else session_id
    found: list[_Found] = []
    for text in texts:
        ids = await parts.services.store.find_ids(
            kind, text, place, session_id=owner, limit=MAX_CANDIDATES + 1
        )
        ids += _open_ids(parts, kind, text, place, owner)
        found += [(kind, one, session) for one, session in ids]
    return found


def _open_ids(
    parts: Parts, kind: IdKind, text: str, place: Place, session_id: SessionId | None
) -> list[tuple[str, SessionId]]:
    """Return the pending requests, or the open calls, of which the text is a part."""
    ids: list[tuple[str, SessionId]] = []
    if kind == "request":
        ids = [(one.id, one.session_id) for one in parts.services.inbox.pending()]
    elif kind == "call":
        states = [slot.session for slot in parts.registry.live() if slot.session is not None]
        turns = [(state.turn, state.id) for state in states if state.turn is not None]
        ids = [(call.id, owner) for turn, owner in turns for call in turn.calls]
    return [
        (one, owner)
        for one, owner in ids
        if session_id in (None, owner) and is_part(text, one, place)
    ]


# Sessions by name --------------------------------------------------------------------------------


async def _by_name(parts: Parts, text: str) -> list[SessionId]:
    """Return the sessions with this name, key or path."""
    named = await parts.services.store.sessions_named(text, limit=MAX_CANDIDATES + 1)
    if named:
        return _preferred(one.row for one in named)
    return await _by_key(parts, text) or await _by_path(parts, text)


def _preferred(rows: Iterable[SessionState]) -> list[SessionId]:
    """Return the sessions that a name means first of all.

    A root that holds it, else a child that holds it, else one that holds no name and is not
    archived, else an archived one.
    """
    by_rank: dict[int, list[SessionId]] = {}
    for row in rows:
        if held_name(row) is not None:
            rank = 0 if name_scope(row) == ROOT_SCOPE else 1
        else:
            rank = 3 if row.archived else 2
        by_rank.setdefault(rank, []).append(row.id)
    return by_rank[min(by_rank)] if by_rank else []


async def _by_key(parts: Parts, text: str) -> list[SessionId]:
    try:
        key = SessionKey.parse(text)
    except InvalidKey:
        return []
    holder = parts.lifecycle.holder(key)
    if holder is not None:
        return [holder]
    wanted = Filter(channel=key.channel, peer=key.peer, text=text)
    rows = [one.row async for one in parts.services.store.rows(matching=wanted)]
    return [row.id for row in rows if row.key == key]  # archived ones


async def _by_path(parts: Parts, text: str) -> list[SessionId]:
    """Return the sessions of a path `root/child/grandchild` of names or ids.

    A step may leave out sessions between, because a name is unique in its tree.
    """
    first, *steps = text.split(_PATH_SEPARATOR)
    if not steps or not all((first, *steps)):
        return []
    found = await _children_named(parts, first, None)
    for step in steps:
        found = [one for above in found for one in await _children_named(parts, step, above)]
    return found


async def _children_named(parts: Parts, name: str, above: SessionId | None) -> list[SessionId]:
    """Return the descendants of a session with this name or id, or with None the roots."""
    root: SessionId | None = None
    if above is not None:
        root = (await parts.registry.row(above)).lineage.root or above
    store = parts.services.store
    stored = await store.sessions_named(name, root=root, limit=MAX_CANDIDATES + 1)
    rows = [one.row for one in stored]
    with suppress(SessionNotFound, NotStorable):
        rows.append(await parts.registry.row(parse_session_id(name)))
    if above is None:
        return _preferred(row for row in rows if row.lineage.parent is None)
    return _preferred(row for row in rows if above in (row.lineage.above or ()))


# Answers -----------------------------------------------------------------------------------------


async def _match(parts: Parts, kind: IdKind, found: str, session_id: SessionId) -> Match:
    name: str | None = None
    with suppress(SessionNotFound, NotStorable):  # deleted meanwhile, or damaged
        name = (await parts.registry.row(session_id)).name
    return Match(kind, found, session_id, name)


def _ambiguous(text: str, matches: Sequence[Match]) -> AmbiguousId:
    shown = ", ".join(
        one.id if one.name is None else f"{one.id} ({one.name})" for one in matches[:_MAX_NAMED]
    )
    more = ", and others" if len(matches) > _MAX_NAMED else ""
    kinds = {one.kind for one in matches}
    what = f"{kinds.pop()}s" if len(kinds) == 1 else "ids"
    count = len(matches) if len(matches) <= MAX_CANDIDATES else f"more than {MAX_CANDIDATES}"
    return AmbiguousId(
        f"{short_repr(text)} matches {count} {what}: {shown}{more}",
        hint="write more of the id of one of them",
        candidates=matches[:MAX_CANDIDATES],
    )
