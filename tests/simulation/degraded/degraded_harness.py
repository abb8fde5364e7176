"""Harness for attacks with a degraded store; its checks wait until writes are durable.

Rule 1: stops and interrupts are performed before they are recorded; records are checked when all
        pending writes are durable.
Rule 2: a degraded store crashes no actor.
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
from tests.simulation import harness as usual
from tests.simulation.harness import Harness, ObservedStore, open_harness
from tests.simulation.oracle import Oracle
from tests.simulation.scripted_agents import ScriptedAgents

_LOOK_AGAIN_SECONDS = 0.05


class FlappingStore(ObservedStore):
    """Store that fails at random and recovers after some attempts."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle)
        # Probability that the next write starts a failure.
        self.failure_rate = 0.0
        # Number of attempts that fail; 0 when healthy.
        self.failures_left = 0

    def recover(self) -> None:
        """Stop failing."""
        self.failure_rate = 0.0
        self.failures_left = 0

    def start_failing(self, *, looks: int = 1_000_000) -> None:
        self.failures_left = looks

    def _fail_if_due(self) -> None:
        if not self.failures_left and random.random() < self.failure_rate:
            self.failures_left = random.choice((1, 1, 2, 4))
        if self.failures_left:
            self.failures_left -= 1
            is_surely_unwritten = random.random() < 0.5
            raise StoreDegraded(
                "the disk is full", hint="free some space", is_surely_unwritten=is_surely_unwritten
            )

    async def commit(self, writes: Sequence[Write]) -> list[SupervisorError | None]:
        self._fail_if_due()
        return await super().commit(writes)

    async def claim(self, session_ids: Sequence[SessionId]) -> list[Stored | None]:
        self._fail_if_due()
        return await super().claim(session_ids)

    async def delete(self, session_id: SessionId) -> None:
        self._fail_if_due()
        await super().delete(session_id)

    async def probe(self) -> None:
        self._fail_if_due()
        await super().probe()


class DeferredCheckAgents(ScriptedAgents):
    """Agents that record interrupted calls; the harness checks their interrupts at the end."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle)
        self.cut_short: list[tuple[str, str]] = []

    async def _tool(self, turn: Turn) -> None:
        async with turn.tool("bash") as call:
            await trio.sleep(random.choice((0.0, 0.5, 2.0)))
            call.result("ok")
        if call.interrupted:
            self.cut_short.append((turn.session_id, call.id))


@attrs.define(eq=False)
class FlappingHarness(Harness):
    """The checked calls over a store whose commits come late.

    A store that also crashes may lose unacknowledged writes, including stops and interrupts.
    """

    may_crash: bool = False

    @property
    def flapping(self) -> FlappingStore:
        assert isinstance(self.store, FlappingStore)
        return self.store

    async def wait_all_written(self) -> None:
        """Wait until no write is pending and no stop is postponed."""
        parts = self.sup._parts
        while parts.services.health.is_degraded or parts.router.has_postponed_stops:  # noqa: ASYNC110 - a rare poll in a test
            await trio.sleep(_LOOK_AGAIN_SECONDS)

    async def recover_store(self) -> None:
        """Stop all failures, wait until all is written, and check interrupted calls."""
        self.flapping.recover()
        await self.wait_all_written()
        for session_id, call in [] if self.may_crash else self.scripted.cut_short:  # type: ignore[attr-defined] # DeferredCheckAgents
            named = call in self.oracle.history(session_id).interrupted
            self.oracle.check(named, f"{call} was interrupted and never named")

    async def interrupt(
        self,
        session: Session,
        scope: Any = "turn",  # noqa: ANN401 - as in the base class
        **how: Any,  # noqa: ANN401
    ) -> None:
        reason = f"reason {next(self.numbers)}"
        if not isinstance(scope, str):
            self.oracle.interrupt_targets[reason] = scope.id
        answer = await self.attempt(session.interrupt(scope, reason=reason, **how))
        if not isinstance(answer, InterruptReport):
            return
        await self.wait_all_written()
        history = self.oracle.history(session.id)
        hit = [target for target, reasons in history.interrupted.items() if reason in reasons]
        if answer.matched == 0:
            self.oracle.check(not hit, f"an interrupt reported no target and hit {hit}")

    async def stop(self, session: Session, **how: Any) -> None:  # noqa: ANN401
        history = self.oracle.history(session.id)
        before, was_stopped = len(history.records), history.is_stopped
        answer = await self.attempt(session.stop(**how))
        if isinstance(answer, SupervisorError) or self.may_crash:
            return
        await self.wait_all_written()

        def has_stopped() -> bool:
            return was_stopped or any(
                one.kind == "session_stopped" for one in history.records[before:]
            )

        # A suspended session stops only now, after its children, and that must be written too.
        while not has_stopped() and (await session.info()).phase in ("stopping", "stopped"):
            await trio.sleep(_LOOK_AGAIN_SECONDS)
            await self.wait_all_written()
        self.oracle.check(has_stopped(), f"{session.id} reported a stop and did not stop")

    async def check_info(self, session: Session) -> None:
        """Check that the info shows committed records only."""
        info = await self.attempt(session.info())
        if not isinstance(info, SupervisorError):
            there = len(self.oracle.history(session.id).records)
            self.oracle.check(info.last_seq <= there, "the info shows what is not committed")


@asynccontextmanager
async def open_flapping_harness(
    *,
    settings: Settings | None = None,
    outside: trio.Nursery | None = None,
    may_crash: bool = False,
) -> AsyncIterator[FlappingHarness]:
    """Open a harness; the store is healthy until its failure rate is set."""
    scripted = DeferredCheckAgents(Oracle())
    with pytest.MonkeyPatch.context() as patch, nullcontext() if may_crash else _no_crash():
        patch.setattr(usual, "ObservedStore", FlappingStore)
        async with open_harness(settings=settings, outside=outside, scripted=scripted) as harness:
            yield FlappingHarness(
                harness.oracle, harness.store, harness.scripted, harness.sup, may_crash=may_crash
            )


class _LogCapture(logging.Handler):
    """Captures logged crashes."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _no_crash() -> Iterator[None]:
    """Check that no actor crashes or fails to stop because of a degraded store."""
    logger, capture = logging.getLogger("actors"), _LogCapture()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(capture)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
        assert not capture.messages, capture.messages
    finally:
        logger.removeHandler(capture)
        logger.setLevel(level)
        logger.propagate = propagate
