"""Faults planted into the recovery, one at a time; the attacks must find each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import pytest

from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.recovery import RecoveryPlan
from supervisor.sessions import recovery, tree_restore
from supervisor.sessions.child_notifications import Acknowledged
from supervisor.store.port import Write
from supervisor.store.writer import Writer
from tests.simulation.planted_faults import Mutant
from tests.simulation.sessions.attacks import send_concurrently
from tests.simulation.trees.attacks import crash_children, spawn_concurrently

from .crash_runs import Attack, run_with_crashes
from .crashing_store import CrashingStore

Found = Callable[[], Awaitable[None]]


def _with_crashes(attack: Attack) -> Found:
    return partial(run_with_crashes, attack, 60)


def _forget_acknowledged(patch: pytest.MonkeyPatch) -> None:
    def none_acknowledged(_: Iterable[Record]) -> Mapping[SessionId, Acknowledged]:
        return {}

    patch.setattr(tree_restore, "_acknowledged_by_parents", none_acknowledged)


def _wake_no_session(patch: pytest.MonkeyPatch) -> None:
    async def wake_none(services: Any, registry: Any, found: RecoveryPlan) -> None:  # noqa: ANN401 - as the original
        await wake(services, registry, attrs.evolve(found, to_wake=(), outcomes={}))

    wake = recovery.start_sessions
    patch.setattr(recovery, "start_sessions", wake_none)


def _write_nothing(patch: pytest.MonkeyPatch) -> None:
    async def apply_nothing(*_: object) -> list[Write]:
        return []

    patch.setattr(recovery, "_apply_plan", apply_nothing)


def _restore_no_counts(patch: pytest.MonkeyPatch) -> None:
    def forget(*_: object, **__: object) -> None:
        return None

    patch.setattr("supervisor.sessions.tree_restore.restore_tree", forget)


def _answer_too_early(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge inputs at once and write them with the next commit."""
    owed: list[Write] = []

    async def commit(self: Writer, batch: Sequence[Write]) -> Sequence[object]:
        kinds = {record.kind for write in batch for record in write.records}
        if "input_accepted" in kinds and "session_created" not in kinds:
            owed.extend(batch)
            return [None] * len(batch)
        before, owed[:] = [*owed], []
        return (await self._store.commit([*before, *batch]))[len(before) :]

    patch.setattr(Writer, "_commit", commit)


def _keep_half(patch: pytest.MonkeyPatch) -> None:
    """Drop the linked write of each commit."""
    commit = CrashingStore._commit

    def without_also(self: CrashingStore, connection: Any, writes: Any) -> Any:  # noqa: ANN401
        return commit(self, connection, [one.changed(linked_write=None) for one in writes])

    patch.setattr(CrashingStore, "_commit", without_also)


MUTANTS = (
    Mutant(
        "forget_acknowledged",
        "a notification is sent once",
        _with_crashes(crash_children),
        "notifications",
        _forget_acknowledged,
    ),
    Mutant(
        "wake_no_session",
        "waiting sessions are woken after the start",
        _with_crashes(crash_children),
        "for ever",
        _wake_no_session,
    ),
    Mutant(
        "write_nothing",
        "an open turn has one definite outcome",
        _with_crashes(spawn_concurrently),
        "for ever",
        _write_nothing,
    ),
    Mutant(
        "restore_no_counts",
        "slots and spending are restored",
        _with_crashes(spawn_concurrently),
        "the admission",
        _restore_no_counts,
    ),
    Mutant(
        "answer_too_early",
        "what is acknowledged is durable",
        _with_crashes(send_concurrently),
        "is not durable",
        _answer_too_early,
    ),
    Mutant(
        "keep_half",
        "a child and its parent's record of it are in one commit",
        _with_crashes(spawn_concurrently),
        "it was notified of",
        _keep_half,
    ),
)
