"""All that leaves an agent, in the order in which it is to leave."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from .wants import Want
from .wire import Id, Json, line

# A script waits while so much of what it has put out was not taken.
FULL_BYTES: Final = 65_536
# How long an answer waits for another one to overtake it.
OVERTAKEN_SECONDS: Final = 0.2


class Outbox:
    """What was written and not taken yet; with `swaps`, every second answer overtakes one."""

    def __init__(self, *, swaps: bool) -> None:
        # The time, as of the last tick: all that an agent knows of it.
        self.now = 0.0
        self.waiting_bytes = 0
        self._swaps = swaps
        self._lines: list[bytes] = []
        self._wants: deque[Want] = deque()
        self._requests = 0
        # Invariant: there is at most one, and only with `swaps`.
        self._held: bytes | None = None
        self._held_until = 0.0

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be put out just now."""
        return self.waiting_bytes >= FULL_BYTES

    def write(self, data: bytes) -> None:
        """Put it out as it is."""
        self._lines.append(data)
        self.waiting_bytes += len(data)

    def notify(self, method: str, params: Json) -> None:
        """Tell the client something."""
        self.write(line({"method": method, "params": params}))

    def request(self, method: str, params: Json) -> int:
        """Ask the client something; gives the number of the question."""
        self._requests += 1
        self.write(line({"id": self._requests, "method": method, "params": params}))
        return self._requests

    def answer(self, request: Id, result: Any) -> None:  # noqa: ANN401 - rubbish too
        """Answer a request of the client."""
        self._reply(line({"id": request, "result": result}))

    def refuse(self, request: Id, code: int, text: str) -> None:
        """Answer it with an error."""
        self._reply(line({"id": request, "error": {"code": code, "message": text}}))

    def want(self, want: Want) -> None:
        """Give an order."""
        self._wants.append(want)

    @property
    def has_orders(self) -> bool:
        """Whether something is to be done that nobody has taken in hand."""
        return bool(self._wants)

    @property
    def is_leaving(self) -> bool:
        """Whether one of the orders is to leave."""
        return any(want.do == "exit" for want in self._wants)

    def take(self) -> list[bytes]:
        """What is to be written, in order."""
        taken, self._lines, self.waiting_bytes = self._lines, [], 0
        return taken

    def take_wants(self) -> list[Want]:
        """What is to be done, in order, once all that came before is written."""
        taken = list(self._wants)
        self._wants.clear()
        return taken

    def next_deadline(self) -> float | None:
        """When an answer has waited long enough, if one waits."""
        return None if self._held is None else self._held_until

    def tick(self, now: float) -> None:
        """It is so late now."""
        self.now = now
        if self._held is not None and now >= self._held_until:
            held, self._held = self._held, None
            self.write(held)

    def _reply(self, answer: bytes) -> None:
        if not self._swaps:
            self.write(answer)
        elif self._held is None:
            self._held, self._held_until = answer, self.now + OVERTAKEN_SECONDS
        else:
            held, self._held = self._held, None
            self.write(answer)
            self.write(held)
