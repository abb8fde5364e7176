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

Trouble: TypeAlias = Literal["raises", "raises late", "not storable", "fenced"]


# After these the next incarnation comes by itself; after a fence it comes when it is wanted,
# because another supervisor may own the session by then.
CRASHES: tuple[Trouble, ...] = ("raises", "raises late", "not storable")


TROUBLES: tuple[Trouble, ...] = (*CRASHES, "fenced")


Answers: TypeAlias = list[SupervisorError | None]


class DiskTrouble(Exception):
    """The store broke, and this is all that it said."""


class Saboteur:
    """Spoils one commit: the next one that has a record of this kind in it."""

    def __init__(self, sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sup._services.store.commit
        self._kind: str | None = None
        self._trouble: Trouble = "raises"
        self.done = 0
        monkeypatch.setattr(sup._services.store, "commit", self.commit)

    def spoil(self, kind: str, trouble: Trouble) -> None:
        self._kind, self._trouble = kind, trouble

    async def commit(self, writes: Sequence[Write]) -> Answers:
        if not any(map(self._is_meant, writes)):
            return await self._commit(writes)
        meant = next(filter(self._is_meant, writes))
        self._kind, self.done = None, self.done + 1
        match self._trouble:
            case "raises":
                raise DiskTrouble
            case "raises late":
                await self._commit(writes)
                raise DiskTrouble
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


async def numbers_are_whole(session: Session) -> bool:
    numbers = [record.seq for record in await records(session)]
    return numbers == list(range(1, len(numbers) + 1))


async def wait_for_the_end(session: Session) -> None:
    """However long the pauses of restarts are, and not so long that it rests."""
    await trio.sleep(5.0)
    await trio.testing.wait_all_tasks_blocked()
