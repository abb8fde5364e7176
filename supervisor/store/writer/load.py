"""What is on its way to the store: how much of it there may be, and who waits until there is less.

Each session has one write on its way at most, and its output has a bound of its own. So what has to
be bounded is what others bring: whoever comes when there is much waits at the door, in order.
Brakes never do.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import trio

# At most so many, and so much of them, before others have to wait.
MOST_WRITES: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024


@attrs.frozen
class Carried:
    """Something on its way: how much, and since when."""

    bytes: int
    since: float = attrs.field(factory=trio.current_time)


class Load:
    """One for each store."""

    def __init__(self, *, most_writes: int = MOST_WRITES, most_bytes: int = MOST_BYTES) -> None:
        self._most_writes = most_writes
        self._most_bytes = most_bytes
        # By identity, in the order in which they came.
        self._carried: dict[int, Carried] = {}
        self.bytes = 0
        # Who waits, the first first; whoever is called has its place already.
        self._line: deque[tuple[Carried, trio.Event]] = deque()

    @property
    def writes(self) -> int:
        """How many are on their way, those at the door not counted."""
        return len(self._carried)

    @property
    def at_the_door(self) -> int:
        """How many wait until there is room."""
        return len(self._line)

    @property
    def wait_seconds(self) -> float:
        """For how long the first of them has waited, at the door or for its answer."""
        first = next(iter(self._carried.values()), None)
        return 0.0 if first is None else trio.current_time() - first.since

    async def enter(self, size: int) -> Carried:
        """Wait until there is room; `leave` with what this gives. Cancelled, nothing was taken."""
        carried = Carried(size)
        if not self._line and self._has_room(carried):
            self._put(carried)
            return carried
        called = trio.Event()
        self._line.append((carried, called))
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self.leave(carried)
            else:
                self._line.remove((carried, called))
            raise
        return carried

    def leave(self, carried: Carried) -> None:
        """It was answered, or given up."""
        del self._carried[id(carried)]
        self.bytes -= carried.bytes
        while self._line and self._has_room(self._line[0][0]):
            first, called = self._line.popleft()
            self._put(first)
            called.set()

    def _has_room(self, carried: Carried) -> bool:
        """One that is larger than all that is allowed goes alone."""
        fits = not self.bytes or self.bytes + carried.bytes <= self._most_bytes
        return fits and len(self._carried) < self._most_writes

    def _put(self, carried: Carried) -> None:
        self._carried[id(carried)] = carried
        self.bytes += carried.bytes
