"""The supervisor leaves in the middle of everything: in peace, with an error, or cancelled."""

import contextlib
import random

import attrs
import trio

from supervisor import Ladder, Session, Settings, SupervisorError
from tests.simulation.sessions.cast import ROUGH
from tests.simulation.sessions.stage import Stage, open_stage, watch
from tests.simulation.stage import wander


class Enough(Exception):
    """Raised out of the block."""


@attrs.define
class Visit:
    """One supervisor, from when it opens until it has left."""

    how: str
    exit_seconds: float
    sessions: list[Session] = attrs.Factory(list)
    began: float = 0.0

    async def run(self, outside: trio.Nursery) -> Stage:
        settings = Settings(
            exit_seconds=self.exit_seconds,
            ladder=Ladder(ask_seconds=1.0),
            permission_timeout_seconds=2.0,
        )
        stages: list[Stage] = []
        with trio.CancelScope() as scope, contextlib.suppress(Enough):
            async with open_stage(settings=settings, outside=outside) as stage:
                stages.append(stage)
                self.sessions = [await stage.sup.create("player") for _ in range(2)]
                for session in self.sessions:
                    outside.start_soon(knock, stage, session)
                    outside.start_soon(knock, stage, session)
                    outside.start_soon(look_in, stage, session)
                await wander()
                await wander()
                self.began = trio.current_time()
                await self.leave(stage, scope)
        return stages[0]

    async def leave(self, stage: Stage, scope: trio.CancelScope) -> None:
        match self.how:
            case "drained":
                await stage.sup.drain()
            case "with an error":
                raise Enough
            case "cancelled":
                scope.cancel()
                await trio.lowlevel.checkpoint()


async def leave_in_the_middle() -> None:
    how = random.choice(("in peace", "with an error", "cancelled", "drained"))
    visit = Visit(how, exit_seconds=random.choice((0.5, 5.0)))
    async with trio.open_nursery() as outside:
        stage = await visit.run(outside)
        await check_that_it_left(stage, visit.sessions)
        if how == "in peace" and trio.current_time() - visit.began < visit.exit_seconds:
            check_that_all_rest(stage)
    stage.referee.close()


async def knock(stage: Stage, session: Session) -> None:
    """Goes on from outside, whether anybody is in or not."""
    for _ in range(4):
        text = stage.text(*random.choices((*ROUGH, "hang"), k=2))
        if random.random() < 0.5:
            await stage.prompt(session, text)
        else:
            await stage.send(session, text, when_busy=random.choice(("queue", "interrupt")))
        await wander()


async def look_in(stage: Stage, session: Session) -> None:
    await watch(stage, session, items=1_000)
    await wander()
    await stage.stop(session)


async def check_that_it_left(stage: Stage, sessions: list[Session]) -> None:
    for session in sessions:
        answer = await stage.try_to(session.send(stage.text()))
        refused = isinstance(answer, SupervisorError)
        stage.referee.check(refused, "something was accepted after leaving")


def check_that_all_rest(stage: Stage) -> None:
    """There was time enough, so nobody was cut short."""
    for book in stage.referee.books.values():
        stage.referee.check(book.turn is None, f"{book.turn} is open after leaving in peace")
        assert book.row is not None
        stage.referee.check(
            book.row.phase in ("suspended", "stopped"), f"{book.id} is {book.row.phase} at the end"
        )
