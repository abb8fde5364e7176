"""Writes that a degraded store would not take: kept in order, and written when it is well."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import trio

from supervisor.core.errors import StoreDegraded, SupervisorError
from supervisor.store.port import Write

logger = logging.getLogger("supervisor")

# So many writers may crash over what is held before it is given up: twice is no accident.
_MOST_CRASHES: Final = 2


class Held:
    """A write that is not written yet, because the store is degraded; it will be."""

    __slots__ = ("_then", "answer", "is_in_doubt", "is_settled", "is_withdrawn")

    def __init__(self, *, is_in_doubt: bool = True) -> None:
        # Whether it may be in the file: it is being tried just now, or nobody knows how that ended.
        self.is_in_doubt = is_in_doubt
        self.is_withdrawn = False
        self.is_settled = False
        self.answer: SupervisorError | None = None
        self._then: list[Callable[[SupervisorError | None], None]] = []

    def then(self, callback: Callable[[SupervisorError | None], None]) -> None:
        """Have it called with the answer, in the step in which that is known."""
        if self.is_settled:
            callback(self.answer)
        else:
            self._then.append(callback)

    async def wait(self) -> SupervisorError | None:
        """Wait for the answer, as long as the store takes."""
        happened = trio.Event()
        self.then(lambda _: happened.set())
        await happened.wait()
        return self.answer

    def withdraw(self) -> bool:
        """Have it never written; gives whether that is certain."""
        if not self.is_settled and not self.is_in_doubt:
            self.is_withdrawn = True
            self.settle(StoreDegraded("it was taken back", hint="ask for it again"))
        return self.is_withdrawn

    def settle(self, answer: SupervisorError | None) -> None:
        """It is written, or refused."""
        self.is_settled, self.answer = True, answer
        then, self._then = self._then, []
        for callback in then:
            try:
                callback(answer)
            except Exception:
                # One session's, and it must not be the end of all the others.
                logger.exception("somebody who waited for a write failed")


class Backlog:
    """All that is held, the first first. It outlives the writer that crashes, not the process."""

    def __init__(self) -> None:
        # Invariant: empty exactly while the store is well.
        self.writes: list[tuple[Write, Held]] = []
        # How many writers have crashed since any of it could be written.
        self.crashes = 0

    def survives_another(self) -> bool:
        """A writer has crashed: whether the next one shall try again."""
        self.crashes += 1
        return self.crashes < _MOST_CRASHES

    def forget_withdrawn(self) -> bool:
        """Whether anything is left that is held."""
        self.writes[:] = [(write, held) for write, held in self.writes if not held.is_withdrawn]
        return bool(self.writes)

    def give_up(self) -> None:
        """None of it will ever be written: whoever waits is told."""
        self.forget_withdrawn()
        held = self.writes[:]
        self.writes.clear()
        self.crashes = 0
        if held:
            sessions = {write.session_id for write, _ in held}
            logger.error("%d writes of %d sessions were never written", len(held), len(sessions))
        for _, one in held:
            one.settle(StoreDegraded("it was never written", hint="look the session up again"))


@contextmanager
def in_doubt(held: Sequence[Held]) -> Iterator[None]:
    """They are being tried; if that fails, it may or may not be known that they are not written."""
    before = [one.is_in_doubt for one in held]
    for one in held:
        one.is_in_doubt = True
    try:
        yield
    except StoreDegraded as trouble:
        if trouble.is_certain:
            for one, was_in_doubt in zip(held, before, strict=True):
                one.is_in_doubt = was_in_doubt
        raise
