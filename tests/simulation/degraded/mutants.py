"""Faults planted into the degraded mode, one at a time; the attacks must find each.

Rule 1: each is a small mistake that a change of this mode could introduce.
Rule 2: `plant` changes classes and tables through `monkeypatch`, which undoes it.
"""
# ruff: noqa: ANN401 - replacements accept the arguments of the originals, some of type Any

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors import Ref
from supervisor.core import degraded as core_degraded
from supervisor.core.effects import Effect, StartTurn
from supervisor.core.step import Reply
from supervisor.sessions import degraded, store_health
from supervisor.sessions.actor import SessionActor
from supervisor.sessions.degraded import DegradedSteps
from supervisor.sessions.log import Log
from supervisor.store.pending import Backlog, PendingWrite, StoreHealth
from supervisor.store.writer import Writer
from tests.simulation.planted_faults import Mutant

from .attacks import send_and_interrupt

Patch = pytest.MonkeyPatch


def begun_early(patch: Patch) -> None:
    def adds_something(effect: Effect) -> bool:
        return core_degraded.grants_work(effect) and not isinstance(effect, StartTurn)  # the fault

    patch.setattr(degraded, "grants_work", adds_something)


def answered_early(patch: Patch) -> None:
    def when_written(held: PendingWrite, reply: Reply) -> Reply:
        return reply  # the fault: not durable yet

    patch.setattr(degraded, "_reply_when_written", when_written)


def key_forgotten(patch: Patch) -> None:
    patch.setattr(DegradedSteps, "find_unwritten_reply", lambda self, key, fingerprint: None)
    # As if output followed it: a write that can be withdrawn would hide the fault.
    patch.setattr(PendingWrite, "withdraw", lambda self: False)


def refused_and_written(patch: Patch) -> None:
    patch.setattr(Backlog, "drop_withdrawn", lambda self: bool(self.writes))  # the fault


def numbers_not_given_back(patch: Patch) -> None:
    real = Log.withdraw

    def take_back(self: Log, records: Any, count: int) -> None:
        real(self, records, count)
        # The fault: the next numbers leave a gap.
        self.last_seq += count
        self.sent_seq += count
        self.published_seq += count

    patch.setattr(Log, "withdraw", take_back)


def never_taken_back(patch: Patch) -> None:
    patch.setattr(degraded, "cancels_pending", lambda effect: False)


def published_early(patch: Patch) -> None:
    real = SessionActor._adopt_degraded

    def go_ahead(self: SessionActor, *args: Any, **more: Any) -> Any:
        self.log.mark_committed(self.log.last_seq)  # the fault: not durable yet
        return real(self, *args, **more)

    patch.setattr(SessionActor, "_adopt_degraded", go_ahead)


def last_one_dropped(patch: Patch) -> None:
    real = Writer._retry_pending

    async def try_again(self: Writer) -> None:
        if len(self._pending) > 2:
            self._pending.pop()[1].settle(None)  # the fault: not durable yet
        await real(self)

    patch.setattr(Writer, "_retry_pending", try_again)


def written_out_of_order(patch: Patch) -> None:
    real = Writer._retry_pending

    async def try_again(self: Writer) -> None:
        self._pending.reverse()  # the fault
        await real(self)

    patch.setattr(Writer, "_retry_pending", try_again)


def never_tried_again(patch: Patch) -> None:
    async def keep_trying(writer: Ref, health: StoreHealth) -> None:
        await trio.lowlevel.checkpoint()  # the fault: no retry

    patch.setattr(store_health, "retry_until_healthy", keep_trying)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a turn begins before it is durable",
        "nothing is visible before its commit",
        send_and_interrupt,
        "never began",
        begun_early,
    ),
    Mutant(
        "a receipt before it is durable",
        "nothing is visible before its commit",
        send_and_interrupt,
        "has a receipt and is not durable",
        answered_early,
    ),
    Mutant(
        "a key is forgotten while its write is pending",
        "one key, one effect",
        send_and_interrupt,
        "had two effects",
        key_forgotten,
    ),
    Mutant(
        "a refused write is still written",
        "a refused input was never queued",
        send_and_interrupt,
        "crashed with",
        refused_and_written,
    ),
    Mutant(
        "numbers of withdrawn records are not reused",
        "numbers have no gap",
        send_and_interrupt,
        "crashed with",
        numbers_not_given_back,
    ),
    Mutant(
        "a withdrawn effect is still performed",
        "an ended turn does not begin",
        send_and_interrupt,
        "Deadlock",
        never_taken_back,
    ),
    Mutant(
        "a record is published before it is durable",
        "nothing is visible before its commit",
        send_and_interrupt,
        "before its commit",
        published_early,
    ),
    Mutant(
        "a pending write is dropped",
        "nothing is lost",
        send_and_interrupt,
        "the info shows what is not committed",
        last_one_dropped,
    ),
    Mutant(
        "pending writes are written out of order",
        "writes keep the order of requests",
        send_and_interrupt,
        "crashed with",
        written_out_of_order,
    ),
    Mutant(
        "a degraded store is not retried",
        "the store recovers by itself",
        send_and_interrupt,
        "Livelock",
        never_tried_again,
    ),
)
