"""Finding and reading sessions of one supervisor; nothing here changes a session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from supervisor.core.agent_list import ListedAgent
from supervisor.core.errors import SessionNotFound
from supervisor.core.ids import parse_session_id
from supervisor.core.info import Badge, Info, Node
from supervisor.core.match import IdKind, Match
from supervisor.core.state import Phase
from supervisor.core.validation import check_choice, check_integer, check_text
from supervisor.sessions.feed import GlobalFeed
from supervisor.sessions.maintenance import search
from supervisor.sessions.maintenance_reports import SearchHit
from supervisor.sessions.refusals import session_not_found

from .agent_report import list_agents
from .arguments import decode_cursor, encode_cursor
from .parts import Parts
from .resolve import resolve
from .session import Session
from .session_feed import SessionFeed
from .session_rows import check_named, check_position
from .shapes import Page
from .views import Stats, build_tree, collect_stats, list_page, make_filter


class SessionQueries:
    """The methods of `Supervisor` that find, list, search, count and watch, and change nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._services = parts.services

    def session(self, id: str) -> Session:  # noqa: A002 - a public name
        """Return a handle on a session without checking that the session exists.

        Raise `SessionNotFound` if the text is not an id.
        """
        return Session(self._parts, parse_session_id(id))

    async def get(self, id: str) -> Session:  # noqa: A002 - a public name
        """Return a handle on an existing session; raise `SessionNotFound` if it does not exist.

        A session with an unreadable row exists: it can be repaired or deleted.
        """
        session = self.session(id)
        if not await self._parts.registry.exists(session.id):
            raise session_not_found(session.id)
        return session

    async def exists(self, id: str) -> bool:  # noqa: A002 - a public name
        """Return True if the session exists."""
        try:
            await self.get(id)
        except SessionNotFound:
            return False
        return True

    async def resolve(
        self,
        text: str,
        kind: IdKind | None = None,
        *,
        session: str | None = None,
    ) -> Page[Match]:
        """Find the id that a short form stands for; return a page with one match, or an empty one.

        The text is a whole id; or the name, the key or a path `root/child` of a session; or the
        beginning of the random part of an id, with or without its prefix; or the end of an id. The
        first of these that finds something decides. `kind` is `session`, `request`, `input`, `turn`
        or `call`. With `session`, an id, only requests, inputs, turns and calls of that session are
        found; without it, only those calls that run.

        Raise `AmbiguousId` with the `candidates` if the text stands for several ids, `ConfigError`
        for an invalid argument, and `SessionNotFound` if `session` is not an id.
        """
        self._services.refuse_if_closed()
        if kind is not None:
            check_choice("kind", kind, IdKind)
        session_id = None if session is None else parse_session_id(session)
        match = await resolve(self._parts, check_text("text", text), kind, session_id)
        return Page(() if match is None else (match,), None)

    async def list(
        self,
        *,
        agent: str | None = None,
        phase: Phase | str | None = None,
        badge: Badge | None = None,
        tag: str | None = None,
        workspace: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        parent: str | None = None,
        root: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
        created_after: float | None = None,
        created_before: float | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Info]:
        """Return a page of the sessions that match all given filters, in order of creation.

        `text` matches a part of the name, the title or the key; times are seconds since 1970.
        `cursor` is the `next` of the previous page; sessions created or deleted in between do not
        shift the pages. Raise `ConfigError` for an invalid filter or cursor.
        """
        self._services.refuse_if_closed()
        wanted = make_filter(
            agent=agent,
            phase=phase,
            badge=badge,
            tag=tag,
            workspace=workspace,
            channel=channel,
            peer=peer,
            parent=parent,
            root=root,
            archived=archived,
            text=text,
            created_after=created_after,
            created_before=created_before,
            updated_after=updated_after,
            updated_before=updated_before,
        )
        items, more = await list_page(
            self._parts, wanted, decode_cursor(cursor), check_integer("limit", limit)
        )
        return Page(items, encode_cursor(more))

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[SearchHit]:
        """Return a page of messages of users and agents that contain all words, newest first.

        With `session`, only messages of that session. `cursor` is the `next` of the previous page.
        Raise `ConfigError` for an invalid argument, and `SessionNotFound` if `session` is not an
        id.
        """
        self._services.refuse_if_closed()
        hits, more = await search(
            self._services,
            check_text("text", text),
            session_id=None if session is None else parse_session_id(session),
            before=decode_cursor(cursor) if cursor is not None else None,
            limit=check_integer("limit", limit),
        )
        return Page(hits, encode_cursor(more))

    async def tree(self, root: str | None = None) -> tuple[Node, ...]:
        """Return the trees that have a session that is not stopped; children are nested nodes.

        A stopped session is included if it has a descendant that is not stopped. With `root`,
        return only the tree of that session, whatever its phase; raise `SessionNotFound` if it
        does not exist.
        """
        self._services.refuse_if_closed()
        if root is None:
            return await build_tree(self._parts, None)
        return await build_tree(self._parts, (await self.get(root)).id)

    async def stats(self) -> Stats:
        """Return counts and sums over all sessions, the stopped ones included."""
        self._services.refuse_if_closed()
        return await collect_stats(self._parts)

    async def agents(self) -> tuple[ListedAgent, ...]:
        """Return the agents by name, with what is missing; no agent is started.

        These are the built-in and the given agents, and with the daemon also the presets.
        """
        self._services.refuse_if_closed()
        return await list_agents(self._services)

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncIterator[GlobalFeed]:
        """Open a feed of the records of all sessions, in commit order, after a position.

        `async for` over the feed yields each record once and waits for new ones. If `after` is
        beyond the last position, it raises `RecordNotFound`; a second `async for` yields all
        records. Leaving the block closes the feed.

        Raise `ConfigError` if `after` is not a whole number from 0.
        """
        check_position(after)
        parts = self._parts
        parts.services.refuse_if_closed()
        store = parts.services.store
        reader = GlobalFeed(
            store,
            after=after,
            highest=await store.highest_position(),
            is_published=parts.registry.is_published,
        )
        self._services.feeds.add(reader)
        try:
            yield reader
        finally:
            self._services.feeds.remove(reader)

    @asynccontextmanager
    async def watch_sessions(
        self, sessions: Sequence[str] = (), after: int = 0
    ) -> AsyncIterator[SessionFeed]:
        """Open a feed of the rows of all sessions, and of the records of the named ones.

        `async for` over the feed yields a `Snapshot` first, then each `SessionRow` that changed (at
        most four times a second), `SessionGone`, `RequestOpened`, `RequestClosed`, `StoreChanged`,
        and the records after position `after` and the deltas of the sessions that `sessions` names,
        at most 16. `feed.position` is where a new feed over the same sessions continues. Leaving
        the block closes the feed. Raise `SessionNotFound` for an unknown session, and `ConfigError`
        for another invalid argument.
        """
        named = check_named(sessions)
        check_position(after)
        self._services.refuse_if_closed()
        feed = SessionFeed(self._parts, named)
        try:
            await feed.open(after)
            yield feed
        finally:
            feed.close()
