"""What is too large for one commit: the writer does it piece by piece, and others write in between.

Rule 1: one piece at a time, and after each of them whoever waits by then has a turn.
Rule 2: whoever asked is answered when all of it is done.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import attrs

from actors import Later
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import SessionId
from supervisor.store.port import Store, Write

# So much is brought in one go: some 30 ms, most of it for the words.
PIECE_RECORDS: Final = 250
_PIECE_LETTERS: Final = 100_000


def is_large(write: Write) -> bool:
    """Whether this first write of a session would keep others waiting."""
    return _end_of_piece(write, 0) < len(write.records)


@attrs.define(eq=False)
class Arrival:
    """A session that is brought, and how many of its records are."""

    write: Write
    later: Later[Any]  # see `writer.Bring`
    brought: int = 0


class Pieces:
    """What is left to do. The writer asks for one piece whenever nobody waits for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._arrivals: deque[Arrival] = deque()
        # Whether something that was deleted may still be there, and who waits until it is not.
        self._is_clearing = False
        self._waiting: list[Later[None]] = []
        self._is_tidying = False
        # Sessions of which a part was brought, and which will not be whole.
        self._unwanted: deque[SessionId] = deque()

    @property
    def are_left(self) -> bool:
        """Whether there is anything to do."""
        waiting = self._arrivals or self._unwanted
        return bool(waiting) or self._is_clearing or self._is_tidying

    async def look_for_leftovers(self) -> None:
        """Go on with what another writer had begun."""
        try:
            self._is_clearing, self._is_tidying = await self._store.leftovers()
        except StoreDegraded:
            self._is_clearing = True  # whoever looks again finds out

    def bring(self, write: Write) -> Later[Any]:
        """Bring a session that is large; its last piece is for `Writer` to commit."""
        arrival = Arrival(write, Later())
        self._arrivals.append(arrival)
        return arrival.later

    def clear(self) -> None:
        """Something was deleted."""
        self._is_clearing = True

    def when_cleared(self) -> Later[None]:
        """Answered when nothing is left of what was deleted by now."""
        self.clear()
        later: Later[None] = Later()
        self._waiting.append(later)
        return later

    def tidy(self) -> None:
        """Leave nothing in the index either."""
        self._is_tidying = True

    async def do_one(self) -> Arrival | None:
        """Do a piece; gives one of which only the last piece is left. Raises `StoreDegraded`."""
        if self._unwanted:
            await self._store.delete(self._unwanted[0])
            self._unwanted.popleft()
            self.clear()
            return None
        if self._arrivals:
            return await self._bring_some(self._arrivals[0])
        if self._is_clearing:
            self._is_clearing = await self._store.clear_away()
            if not self._is_clearing:
                waiting, self._waiting = self._waiting, []
                for later in waiting:
                    later.answer(None)
        elif self._is_tidying:
            self._is_tidying = await self._store.tidy()
        return None

    async def _bring_some(self, arrival: Arrival) -> Arrival | None:
        write, first = arrival.write, arrival.brought
        last = _end_of_piece(write, first)
        if last < len(write.records):
            try:
                await self._store.bring(write.session_id, write.records[first:last])
            except StoreDegraded:
                raise
            except Exception as error:  # noqa: BLE001 - raised in whoever brings it
                self._arrivals.popleft()
                arrival.later.fail(error)
                self._unwanted.append(write.session_id)
                return None
            arrival.brought = last
            return None
        self._arrivals.popleft()
        arrival.write = attrs.evolve(write, records=write.records[first:])
        return arrival

    def refused(self, arrival: Arrival) -> None:
        """The store would not have its last piece: what was brought before goes again."""
        self._unwanted.append(arrival.write.session_id)


def _end_of_piece(write: Write, first: int) -> int:
    """Up to which of its records the next piece goes."""
    size = 0
    last = min(first + PIECE_RECORDS, len(write.records))
    for number in range(first, last):
        size += _letters(write.records[number].body)
        if size > _PIECE_LETTERS:
            return number + 1
    return last


def _letters(value: object) -> int:
    """About how long it is."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_letters(item) for item in value.values())
    return sum(_letters(item) for item in value) if isinstance(value, list) else 0
