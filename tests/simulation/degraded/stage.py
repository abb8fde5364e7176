"""The stage of sessions over a store that comes and goes, with verbs that wait for its word.

Rule 1: what brakes is done before it is recorded; so what is recorded is looked at when all that
        was held is written.
Rule 2: a store that is degraded is nobody's crash: no actor ends because of it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import attrs
import pytest
import trio

from supervisor import (
    InterruptReport,
    Session,
    Settings,
    StoreDegraded,
    SupervisorError,
    Turn,
)
from supervisor.core.ids import SessionId
from supervisor.store.port import Stored, Write
from tests.simulation.sessions import stage as usual
from tests.simulation.sessions.cast import Cast
from tests.simulation.sessions.referee import Referee
from tests.simulation.sessions.stage import JudgedStore, Stage, open_stage

_LOOK_AGAIN_SECONDS = 0.05


class FlappingStore(JudgedStore):
    """Falls ill now and then, and is well again after some looks."""

    def __init__(self, referee: Referee) -> None:
        super().__init__(referee)
        # How probable it is that the next who would write finds it ill.
        self.unrest = 0.0
        # How many will find it so; none when it is well.
        self.illness = 0

    def calm(self) -> None:
        """It is well from now on."""
        self.unrest = 0.0
        self.illness = 0

    def fall_ill(self, *, looks: int = 1_000_000) -> None:
        self.illness = looks

    def _refuse_if_ill(self) -> None:
        if not self.illness and random.random() < self.unrest:
            self.illness = random.choice((1, 1, 2, 4))
        if self.illness:
            self.illness -= 1
            is_certain = random.random() < 0.5
            raise StoreDegraded("the disk is full", hint="free some space", is_certain=is_certain)

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self._refuse_if_ill()
        return await super().commit(writes)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        self._refuse_if_ill()
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        self._refuse_if_ill()
        await super().delete(session_id)

    async def probe(self) -> None:
        self._refuse_if_ill()
        await super().probe()


class PatientCast(Cast):
    """Notes whose calls were cut short; that somebody had named them is looked up at the end."""

    def __init__(self, referee: Referee) -> None:
        super().__init__(referee)
        self.cut_short: list[tuple[str, str]] = []

    async def _tool(self, turn: Turn) -> None:
        async with turn.tool("bash") as call:
            await trio.sleep(random.choice((0.0, 0.5, 2.0)))
            call.result("ok")
        if call.interrupted:
            self.cut_short.append((turn.session_id, call.id))


@attrs.define(eq=False)
class FlappingStage(Stage):
    """The same verbs, over a store whose word comes late.

    A store that breaks as well may lose what was not acknowledged: also that somebody braked.
    """

    may_crash: bool = False

    @property
    def flapping(self) -> FlappingStore:
        assert isinstance(self.store, FlappingStore)
        return self.store

    async def all_is_written(self) -> None:
        """Wait until nothing is held, and nobody is still to stop who was at rest."""
        house = self.sup._house
        while house.health.is_degraded or house.lines.has_postponed:  # noqa: ASYNC110 - asked rarely
            await trio.sleep(_LOOK_AGAIN_SECONDS)

    async def calm_down(self) -> None:
        """Have the store well for good, and wait until that is known."""
        self.flapping.calm()
        await self.all_is_written()
        for session_id, call in [] if self.may_crash else self.cast.cut_short:  # type: ignore[attr-defined] # a PatientCast
            named = call in self.referee.book(session_id).interrupted
            self.referee.check(named, f"{call} was cut short and nobody named it")

    async def interrupt(
        self,
        session: Session,
        scope: Any = "turn",  # noqa: ANN401 - as there
        **how: Any,  # noqa: ANN401
    ) -> None:
        reason = f"reason {next(self.numbers)}"
        if not isinstance(scope, str):
            self.referee.meant[reason] = scope.id
        answer = await self.try_to(session.interrupt(scope, reason=reason, **how))
        if not isinstance(answer, InterruptReport):
            return
        await self.all_is_written()
        book = self.referee.book(session.id)
        hit = [target for target, reasons in book.interrupted.items() if reason in reasons]
        if answer.matched == 0:
            self.referee.check(not hit, f"an interrupt says that it hit nothing, and hit {hit}")

    async def stop(self, session: Session, **how: Any) -> None:  # noqa: ANN401
        book = self.referee.book(session.id)
        before, was_stopped = len(book.records), book.is_stopped
        answer = await self.try_to(session.stop(**how))
        if isinstance(answer, SupervisorError) or self.may_crash:
            return
        await self.all_is_written()

        def has_stopped() -> bool:
            return was_stopped or any(
                one.kind == "session_stopped" for one in book.records[before:]
            )

        # One at rest was told only now, has children to wait for, and that has to be written too.
        while not has_stopped() and (await session.info()).phase in ("stopping", "stopped"):
            await trio.sleep(_LOOK_AGAIN_SECONDS)
            await self.all_is_written()
        self.referee.check(has_stopped(), f"{session.id} did not stop and says so")

    async def look(self, session: Session) -> None:
        """Nobody is shown a record that is not there."""
        info = await self.try_to(session.info())
        if not isinstance(info, SupervisorError):
            there = len(self.referee.book(session.id).records)
            self.referee.check(info.last_seq <= there, "what is shown has not happened yet")


@asynccontextmanager
async def open_flapping_stage(
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
    may_crash: bool = False,
) -> AsyncIterator[FlappingStage]:
    """See `open_stage`; the store is calm until somebody sets its unrest."""
    cast = PatientCast(Referee())
    with pytest.MonkeyPatch.context() as patch, nullcontext() if may_crash else _no_crash():
        patch.setattr(usual, "JudgedStore", FlappingStore)
        async with open_stage(settings=settings, outside=outside, cast=cast) as stage:
            yield FlappingStage(
                stage.referee, stage.store, stage.cast, stage.sup, may_crash=may_crash
            )


class _Ear(logging.Handler):
    """Hears of crashes."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@contextmanager
def _no_crash() -> Iterator[None]:
    """No actor may crash, nor fail while it stops, because of a store that is degraded."""
    logger, ear = logging.getLogger("actors"), _Ear()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(ear)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
        assert not ear.heard, ear.heard
    finally:
        logger.removeHandler(ear)
        logger.setLevel(level)
        logger.propagate = propagate
