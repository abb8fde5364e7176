"""Faults planted into the recovery, each of which some attack must find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import pytest

from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.recovery import Plan
from supervisor.sessions.desk.bell import Heard
from supervisor.sessions.desk.desk import Desk
from supervisor.sessions.house import recovery
from supervisor.store.port import Write
from supervisor.store.writer import Writer
from tests.simulation.finding import Mutant
from tests.simulation.sessions.attacks import talk_over_each_other
from tests.simulation.trees.attacks import lose_children, spawn_in_loops

from .lives import Attack, live_again_and_again
from .store import MortalStore

Found = Callable[[], Awaitable[None]]


def _over_deaths(attack: Attack) -> Found:
    return partial(live_again_and_again, attack, 60)


def _forget_who_heard(patch: pytest.MonkeyPatch) -> None:
    def nobody(_: Iterable[Record]) -> Mapping[SessionId, Heard]:
        return {}

    patch.setattr(recovery, "_what_parents_heard", nobody)


def _wake_nobody(patch: pytest.MonkeyPatch) -> None:
    async def sleep_on(house: Any, found: Plan) -> None:  # noqa: ANN401 - a House
        await wake(house, attrs.evolve(found, wakes=(), fates={}))

    wake = recovery.wake
    patch.setattr("supervisor.runtime.wake", sleep_on)


def _write_nothing(patch: pytest.MonkeyPatch) -> None:
    async def tell_nobody(*_: object) -> None:
        return None

    patch.setattr(recovery, "_tell", tell_nobody)


def _count_nobody(patch: pytest.MonkeyPatch) -> None:
    def forget(*_: object, **__: object) -> None:
        return None

    patch.setattr(Desk, "restore", forget)


def _answer_too_early(patch: pytest.MonkeyPatch) -> None:
    """The writer says of inputs that they are written, and writes them with what comes next."""
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
    """Of what is in one commit, the other session's part is not kept."""
    commit = MortalStore._commit

    def without_also(self: MortalStore, connection: Any, writes: Any) -> Any:  # noqa: ANN401
        return commit(self, connection, [attrs.evolve(one, also=None) for one in writes])

    patch.setattr(MortalStore, "_commit", without_also)


MUTANTS = (
    Mutant(
        "forget_who_heard",
        "news of a child is told once",
        _over_deaths(lose_children),
        "was told",
        _forget_who_heard,
    ),
    Mutant(
        "wake_nobody",
        "what waits is woken after the start",
        _over_deaths(lose_children),
        "for ever",
        _wake_nobody,
    ),
    Mutant(
        "write_nothing",
        "an open turn has one definite fate",
        _over_deaths(spawn_in_loops),
        "for ever",
        _write_nothing,
    ),
    Mutant(
        "count_nobody",
        "places and spending are counted as before",
        _over_deaths(spawn_in_loops),
        "desk",
        _count_nobody,
    ),
    Mutant(
        "answer_too_early",
        "what is acknowledged is durable",
        _over_deaths(talk_over_each_other),
        "is not durable",
        _answer_too_early,
    ),
    Mutant(
        "keep_half",
        "a child and its parent's record of it are in one commit",
        _over_deaths(spawn_in_loops),
        "it was told of",
        _keep_half,
    ),
)
