"""Agents that spawn agents that spawn, and do to them what a parent may."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias

import trio

from supervisor import PermissionDenied, SpawnRefused, SupervisorError, Turn, TurnOver
from tests.simulation.sessions.cast import Cast

from .referee import MOST_COST, MOST_TOKENS, TreeReferee
from .wishes import BUSY, TOOLS, some_deeds, some_wish

Deed: TypeAlias = Callable[[Turn], Awaitable[None]]

# Deeds that put something out at once; what tools and questions do is told by their records.
PROMPT = ("say", "think", "flood", "use", "spend")
# So many children are asked for by agents in one run, that it may come to an end.
MOST_SPAWNS = 10


class TreeCast(Cast):
    """The agents of one run. `deeds` are what they have their children do."""

    referee: TreeReferee

    def __init__(self, referee: TreeReferee, deeds: tuple[str, ...] = BUSY) -> None:
        super().__init__(referee)
        self.deeds = deeds
        self.left = MOST_SPAWNS
        self._numbers = count()
        self._children: dict[str, list[Any]] = {}
        self._deeds |= {
            "spawn": self._spawn,
            "brood": self._brood,
            "await": self._await_child,
            "poke": self._poke,
            "descend": self._descend,
            "news": self._news,
            "spend": self._spend,
            "nap": self._nap,
            "allowed": self._allowed,
            "beat": self._beat,
        }
        for deed in PROMPT:
            self._deeds[deed] = self._noted(self._deeds[deed])

    def text(self, *deeds: str) -> str:
        """A text that nobody else has given a child."""
        return f"c{next(self._numbers)} {' '.join(deeds)}".strip()

    def _noted(self, do: Deed) -> Deed:
        async def noted(turn: Turn) -> None:
            self.referee.moves(turn.session_id)
            await do(turn)

        return noted

    async def play(self, turn: Turn) -> str | None:
        if self.referee.doors is not None:
            self.referee.doors.enters(turn)
        if " ended: " in turn.text:  # news of children, which began this turn
            self.referee.goes_to_work(turn.session_id, turn.id)
            try:
                await self._news(turn)
            finally:
                self.referee.leaves_work(turn.session_id, turn.id)
            return None
        return await super().play(turn)

    async def _spawn(self, turn: Turn) -> None:
        if self.left <= 0:
            return
        self.left -= 1
        text = self.text(*some_deeds(self.deeds))
        try:
            with trio.move_on_after(random.choice((0.0, 0.5, 60.0, 60.0))):
                child = await turn.spawn("player", text, **some_wish())
                self._children.setdefault(turn.session_id, []).append(child)
        except SupervisorError as refusal:
            check_refusal(self.referee, refusal)

    async def _brood(self, turn: Turn) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(self._spawn, turn)

    def _one_of_them(self, turn: Turn) -> Any:  # noqa: ANN401 - a handle, or None
        children = self._children.get(turn.session_id)
        return random.choice(children) if children else None

    async def _await_child(self, turn: Turn) -> None:
        child = self._one_of_them(turn)
        await trio.lowlevel.checkpoint()
        if child is not None:
            try:
                child._session  # noqa: B018 - one of an earlier turn cannot be waited for
            except TurnOver:
                return
            with self.referee.waits(turn.session_id, child.id), suppress(SupervisorError):
                with trio.move_on_after(random.choice((0.5, 4.0, 20.0))):
                    await child.wait()

    async def _poke(self, turn: Turn) -> None:
        child = self._one_of_them(turn)
        await trio.lowlevel.checkpoint()
        if child is None:
            return
        try:
            with trio.move_on_after(random.choice((0.0, 2.0, 20.0))):
                match random.randrange(5):
                    case 0:
                        await child.stop()
                    case 1:
                        await child.steer(self.text("say"))
                    case 2:
                        await child.send(self.text("say", "wander"))
                    case 3:
                        await child.interrupt()
                    case _:
                        await child.resume()
        except SupervisorError:
            pass

    async def _descend(self, turn: Turn) -> None:
        """An agent reaches those below it, and nobody else."""
        await trio.lowlevel.checkpoint()
        known = [page for page in self.referee.pages.values() if not page.is_gone]
        page = random.choice(known)
        parent = page.parent
        below = parent is not None and any(one.id == turn.session_id for one in parent.path())
        try:
            await turn.descendant(page.id)
        except PermissionDenied:
            self.referee.check(not below or page.is_gone, f"{page.id} is below, and out of reach")
        except SupervisorError:
            pass
        else:
            self.referee.check(below, f"{page.id} is not below {turn.session_id}, and in reach")

    async def _news(self, turn: Turn) -> None:
        for news in turn.news():
            self.referee.heard(turn.session_id, news.kind, news.child)
        await trio.lowlevel.checkpoint()

    async def _spend(self, turn: Turn) -> None:
        turn.usage(
            output_tokens=random.randrange(1, MOST_TOKENS + 1),
            cost=random.choice((0.0, MOST_COST)),
        )
        await trio.lowlevel.checkpoint()

    async def _nap(self, turn: Turn) -> None:
        await trio.sleep(random.choice((0.5, 2.0, 5.0)))
        self.referee.moves(turn.session_id)
        await turn.say("awake")

    async def _allowed(self, turn: Turn) -> None:
        """Permissions are asked again at use."""
        await trio.lowlevel.checkpoint()
        page = self.referee.pages.get(turn.session_id)
        tool = random.choice((*TOOLS, "rockets"))
        try:
            turn.tool(tool)
        except PermissionDenied:
            got = False
        else:
            got = True
        if page is not None and not page.is_gone:
            may = all(one.row.permissions.allows("tools", tool) for one in page.path())
            self.referee.check(got <= may, f"{turn.session_id} may use {tool}")

    async def _beat(self, turn: Turn) -> None:
        """A little progress, now and then."""
        await trio.sleep(random.choice((0.5, 1.5)))
        self.referee.moves(turn.session_id)
        await turn.say(".")

    async def _use(self, turn: Turn) -> None:
        await self._spend(turn)

    async def _tool(self, turn: Turn) -> None:
        if turn._office.permissions.allows("tools", "bash"):
            await super()._tool(turn)


def check_refusal(referee: TreeReferee, refusal: SupervisorError) -> None:
    """A refusal says what is exhausted, and that it is."""
    referee.check(bool(refusal.code and refusal.hint), f"{refusal!r} has no code or hint")
    if isinstance(refusal, SpawnRefused) and refusal.used is not None:
        allowed = refusal.allowed
        right = allowed is not None and refusal.used >= allowed
        referee.check(right, f"{refusal!r}: {refusal.used} of {allowed} is no reason")
