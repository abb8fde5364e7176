"""Faults in the commits of a session actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest
import trio
import trio.testing

from supervisor import (
    Fenced,
    NotStorable,
    Session,
    Supervisor,
    SupervisorError,
)
from supervisor.store.port import Write
from tests.support.fake_agents import records

CommitFault: TypeAlias = Literal["raises", "raises late", "not storable", "fenced"]


# After these the next incarnation comes by itself; after a fence it comes when it is wanted,
# because another supervisor may own the session by then.
CRASHES: tuple[CommitFault, ...] = ("raises", "raises late", "not storable")
COMMIT_FAULTS: tuple[CommitFault, ...] = (*CRASHES, "fenced")
Answers: TypeAlias = list[SupervisorError | None]


class DiskFault(Exception):
    """The store broke, and this is all that it said."""


class FaultInjector:
    """Spoils one commit: the next one that has a record of this kind in it."""

    def __init__(self, sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sup._services.store.commit
        self._kind: str | None = None
        self._fault: CommitFault = "raises"
        self.done = 0
        monkeypatch.setattr(sup._services.store, "commit", self.commit)

    def fail_next(self, kind: str, fault: CommitFault) -> None:
        self._kind, self._fault = kind, fault

    async def commit(self, writes: Sequence[Write]) -> Answers:
        if not any(map(self._is_meant, writes)):
            return await self._commit(writes)
        meant = next(filter(self._is_meant, writes))
        self._kind, self.done = None, self.done + 1
        match self._fault:
            case "raises":
                raise DiskFault
            case "raises late":
                await self._commit(writes)
                raise DiskFault
            case "not storable":
                return await self._all_but(meant, writes, NotStorable("spoilt", hint="none"))
            case "fenced":
                return await self._all_but(meant, writes, Fenced("spoilt", hint="none"))

    async def _all_but(
        self, meant: Write, writes: Sequence[Write], refusal: SupervisorError
    ) -> Answers:
        """As a store does it: of a session that was refused one, the later ones fail too."""
        good = [write for write in writes if write.session_id != meant.session_id]
        answers = iter(await self._commit(good))
        return [next(answers) if write in good else refusal for write in writes]

    def _is_meant(self, write: Write) -> bool:
        return any(record.kind == self._kind for record in write.records)


async def records_are_consecutive(session: Session) -> bool:
    numbers = [record.seq for record in await records(session)]
    return numbers == list(range(1, len(numbers) + 1))


async def wait_for_restarts(session: Session) -> None:
    """However long the pauses of restarts are, and not so long that it rests."""
    await trio.sleep(5.0)
    await trio.testing.wait_all_tasks_blocked()
