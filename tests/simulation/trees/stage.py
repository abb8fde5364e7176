"""Where an attack on trees plays: a stage as for sessions, and what may be done to trees."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from actors.testing import settle
from supervisor import (
    Info,
    Ladder,
    Limits,
    Record,
    Session,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.drivers.turn import INSIDE
from tests.simulation.sessions.stage import Stage, open_stage
from tests.simulation.stage import impatiently, wander

from .cast import TreeCast, check_refusal
from .pages import Page
from .referee import TreeReferee, widened
from .wishes import BUSY, ROOT_PERMISSIONS, some_deeds, some_restart, some_wish

# All that anybody waits for is over sooner.
LONG_SECONDS = 40.0
SMALL = Limits(max_depth=3, max_children=3, max_descendants=7, max_spawns=14)


@attrs.define(eq=False)
class Trees:
    """What an attack has in hand."""

    stage: Stage
    referee: TreeReferee
    cast: TreeCast
    sup: Supervisor
    # Who is being given more just now.
    raising: set[str] = attrs.Factory(set)

    def text(self) -> str:
        return self.stage.text(*some_deeds(self.cast.deeds))

    async def plant(self, **options: Any) -> Session:  # noqa: ANN401
        """A root."""
        given = {
            "limits": SMALL,
            "permissions": ROOT_PERMISSIONS,
            "workspace": "/w",
            "restart": random.choice((None, some_restart())),  # which those below it have, too
            **options,
        }
        return await self.sup.create("player", **given)

    async def grow(self, root: Session) -> None:
        """Two children, and some of theirs, all at once; some of them as anybody may want them."""
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(self._grow_branch, root)

    async def _grow_branch(self, root: Session) -> None:
        child = await self.spawn(root, **random.choice(({}, some_wish())))
        if child is not None and random.random() < 0.7:
            await self.spawn(child, **random.choice(({}, some_wish())))

    def some(self, *, live: bool = True) -> Session | None:
        """Any session that there is."""
        pages = [page for page in self.referee.pages.values() if not page.is_gone]
        wanted = [page for page in pages if page.is_live is live] or pages
        return self.sup.session(random.choice(wanted).id) if wanted else None

    def page(self, session: Session) -> Page | None:
        return self.referee.pages.get(session.id)

    # Verbs ----------------------------------------------------------------------------------

    async def spawn(self, parent: Session, **wish: Any) -> Session | None:  # noqa: ANN401
        text = self.stage.text(*some_deeds(self.cast.deeds))
        answer = await self.stage.try_to(parent.spawn("player", text, **wish))
        if isinstance(answer, SupervisorError):
            check_refusal(self.referee, answer)
            return None
        page = self.page(answer)
        there = page is not None and page.parent is not None and page.parent.id == parent.id
        self.referee.check(there, f"{answer.id} was spawned, and is not there")
        return answer

    async def meddle(self, *deeds: str) -> None:
        """Do one of these to somebody."""
        deed = random.choice(deeds)
        session = self.some(live=deed not in ("resume", "knock"))
        if session is not None:
            await getattr(self, f"_{deed}")(session)

    async def _spawn(self, session: Session) -> None:
        await self.spawn(session, **some_wish())

    async def _twins(self, session: Session) -> None:
        """The same spawn from two callers gives one child."""
        wish = {**some_wish(), "idempotency_key": "twins"}
        text = self.cast.text("say")
        made: list[str] = []

        async def ask() -> None:
            answer = await self.stage.try_to(session.spawn("player", text, **wish))
            if isinstance(answer, Session):
                made.append(answer.id)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask)
        alive = {one for one in made if one not in self.referee.gone}
        self.referee.check(len(alive) < 2, f"one key made {alive}")

    async def _stop(self, session: Session) -> None:
        when = random.choice(("now", "now", "after_turn"))
        # A hook of its turn would not be kept waiting for the end of that turn.
        await self.stage.stop(session, when="now" if INSIDE.get() == session.id else when)

    async def _delete(self, session: Session) -> None:
        await self.stage.try_to(self.sup.delete(session.id))

    async def _resume(self, session: Session) -> None:
        await self.stage.try_to(session.resume())

    async def _knock(self, session: Session) -> None:
        await self.stage.send(session, self.text(), when_busy=random.choice(("queue", "interrupt")))

    async def _say(self, session: Session) -> None:
        await self.stage.send(session, self.text(), when_busy=random.choice(("queue", "steer")))

    async def _interrupt(self, session: Session) -> None:
        await self.stage.interrupt(session)

    async def _interrupt_tree(self, session: Session) -> None:
        await self.stage.interrupt(session, "tree")

    async def _raise(self, session: Session) -> None:
        """More of everything, for one who may have spent all."""
        page = self.page(session)
        if page is None or page.row.limits is None:
            return
        limits = page.row.limits
        more = {
            name: value + 2
            for name in ("max_children", "max_descendants", "turns", "tokens", "cost")
            if (value := getattr(limits, name)) is not None
        }
        await self.stage.try_to(session.set(limits=attrs.evolve(limits, **more)))

    async def _raise_one(self, session: Session) -> None:
        """One more of several things, wished for at the same time: it gets all of them."""
        page = self.page(session)
        had = None if page is None else page.row.limits
        if page is None or had is None or page.id in self.raising:
            return
        wishes = [
            {name: value + 1}
            for name in ("max_children", "max_spawns", "turns", "tokens", "cost", "wall_seconds")
            if (value := getattr(had, name)) is not None
        ]
        self.raising.add(page.id)  # or somebody else's wish would be for less
        answers: list[object] = []

        async def wish(limits: dict[str, int]) -> None:
            answers.append(await self.stage.try_to(session.set(limits=limits)))

        try:
            async with trio.open_nursery() as nursery:
                for limits in wishes:
                    nursery.start_soon(wish, limits)
        finally:
            self.raising.discard(page.id)
        has = page.row.limits
        for limits in wishes if not any(answers) and not page.is_gone else ():
            for name, value in limits.items():
                got = getattr(has, name)
                self.referee.check(got >= value, f"{page.id}: {name} is {got}, {value} was set")

    async def _label(self, session: Session) -> None:
        title = self.stage.text()
        answer = await self.stage.try_to(session.set(title=title, tags=[title]))
        page = self.page(session)
        if not isinstance(answer, SupervisorError) and page is not None and not page.is_gone:
            titles = [one.body.get("title") for one in self.referee.book(page.id).records]
            self.referee.check(title in titles, f"{page.id} was called {title!r}, and is not")

    async def _fork(self, session: Session) -> None:
        """What comes of it is a root, may do no more than the other, and says the same."""
        page = self.page(session)
        forked = await self.stage.try_to(session.fork())
        if page is None or isinstance(forked, SupervisorError):
            return
        there = self.referee.pages[forked.id]
        self.referee.check(there.parent is None, f"{there.id} is a fork, and below somebody")
        wider = [*widened(page.row.permissions, there.row.permissions)]
        self.referee.check(not wider, f"{there.id} is a fork of {page.id}, and may more: {wider}")
        if not page.is_gone and not there.is_gone:
            kinds = [record.kind for record in self.referee.book(forked.id).records]
            claimed = kinds.index("session_changed")  # what comes later was said to it alone
            said = [one.body["text"] for one in self._said(forked.id) if one.seq <= claimed]
            known = {one.body["text"] for one in self._said(session.id)}
            strange = [text for text in said if text not in known]
            self.referee.check(not strange, f"{there.id} remembers {strange}, which nobody said")

    def _said(self, session_id: str) -> list[Record]:
        records = self.referee.book(session_id).records
        return [record for record in records if record.kind == "user_text"]

    async def _clear(self, session: Session) -> None:
        await self.stage.try_to(session.clear())

    async def _add(self, session: Session) -> None:
        await self.stage.try_to(session.append("user", self.stage.text("remember")))

    async def _look(self, session: Session) -> None:
        await self.stage.look(session)

    async def _archive(self, session: Session) -> None:
        await self.stage.try_to(session.archive())

    async def go_on(self, times: int, *deeds: str) -> None:
        """Meddle so many times; whoever does may give up at any moment."""
        for _ in range(times):
            await impatiently(self.meddle, *deeds)
            await wander()

    async def come_to_rest(self) -> None:
        """Wait until nothing happens any more, and have all counts compared."""
        before = -1
        for _ in range(30):
            await trio.sleep(LONG_SECONDS)
            await settle()
            now = self._written()
            # The clock may jump over several naps of an agent at once: it has to be at its end too.
            if now == before and not self.referee.at_work:
                break
            before = now
        else:
            self.referee.check(promise=False, words="it never comes to rest")
        self.referee.judge_at_rest()
        await self._compare_what_is_shown()

    async def _compare_what_is_shown(self) -> None:
        for _ in range(5):
            await settle()
            before = self._written()
            items = (await self.sup.list()).items
            if self._written() == before:  # or somebody went to rest meanwhile
                self._compare(items)
                break

    def _written(self) -> int:
        return sum(len(book.records) for book in self.referee.books.values())

    def _compare(self, items: Sequence[Info]) -> None:
        for listed in items:
            page = self.referee.pages[listed.id]
            children = {one.id for one in page.children.values() if one.is_up}
            self.referee.check(
                set(listed.children) == children,
                f"{listed.id} is shown with children {listed.children}, it has {children}",
            )


def tree_settings(**changes: Any) -> Settings:  # noqa: ANN401
    """Short times, so that everything may happen in a short run."""
    given: dict[str, Any] = {
        "ladder": Ladder(ask_seconds=2.0),
        "permission_timeout_seconds": 2.0,
        "suspend_after_seconds": random.choice((0.25, 900.0)),
        **changes,
    }
    return Settings(**given)


@asynccontextmanager
async def open_trees(
    deeds: tuple[str, ...] = BUSY,
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
) -> AsyncIterator[Trees]:
    """A supervisor whose trees are judged."""
    referee = TreeReferee()
    cast = TreeCast(referee, deeds)
    async with open_stage(settings=settings or tree_settings(), cast=cast, outside=outside) as one:
        referee.look_into(one.sup._house)
        yield Trees(one, referee, cast, one.sup)
