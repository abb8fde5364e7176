"""The agent: lines and the time go in, lines, orders and the next time to be woken come out.

Rule 1: it does no input or output, has no clock and no chance: the same calls give the same lines.
Rule 2: its time is that of the last tick; whoever drives it ticks before it hears.
Rule 3: no script goes on while an order waits to be taken, so that nothing it would say can come
        before that is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import assert_never

from .flags import NO_FLAGS, Flags
from .service import Service
from .sessions import MemoryShelf, Shelf
from .turn import Surroundings
from .wants import Want
from .wire import (
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    Malformed,
    Notification,
    Refusal,
    Reply,
    Request,
    read,
)


class ScriptedAgent:
    """One process' worth of agent, without the process.

    Drive it like this: `tick`, then `hear` what has come; write all of `take_output`; then perform
    `take_wants`, saying `done` after each; wait for `next_deadline` or for more to hear.
    """

    def __init__(
        self,
        flags: Flags = NO_FLAGS,
        *,
        shelf: Shelf | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._flags = flags
        self._around = Surroundings(flags, environment or {})
        self._outbox = self._around.outbox
        self._service = Service(self._around, shelf or MemoryShelf())
        # Requests that it has not looked at yet, each with the time when it will.
        self._unseen: deque[tuple[float, Request]] = deque()
        if flags.banner is not None:
            self._outbox.write(f"{flags.banner}\n".encode())

    @property
    def overlaps(self) -> int:
        """How many prompts have come for a session that was busy with another."""
        return self._around.overlaps

    def tick(self, now: float) -> None:
        """It is so late now; do what is due."""
        self._outbox.tick(now)
        while self._unseen and self._unseen[0][0] <= now:
            self._serve(self._unseen.popleft()[1])
        self._run()

    def hear(self, line: bytes) -> None:
        """Take a line of the input, with or without its end."""
        if not line.strip():
            return
        match read(line):
            case Malformed(request, code, text):
                self._outbox.refuse(request, code, text)
            case Request(_, method, _) as request:
                if self._flags.delay and method != "session/prompt":
                    self._unseen.append((self._outbox.now + self._flags.delay, request))
                else:
                    self._serve(request)
            case Notification() as notification:
                self._hear_of(notification)
            case Reply() as reply:
                self._service.hear_answer(reply)
            case never:
                assert_never(never)
        self._run()

    def hear_end(self) -> None:
        """The input is at its end."""
        if self._around.leaves_at_end:
            self._outbox.want(Want("exit", 0))

    def done(self, want: Want, said: str = "") -> None:
        """An order was carried out, and there may be something to say of it."""
        self._service.hear_done(want, said)
        self._run()

    def take_output(self) -> list[bytes]:
        """What is to be written, in order: lines with their ends, or what it spews."""
        return self._outbox.take()

    def take_wants(self) -> list[Want]:
        """What is to be done, in order, after all the output has been taken and written."""
        return self._outbox.take_wants()

    @property
    def is_leaving(self) -> bool:
        """Whether it wants to leave, and should not be kept from it for long."""
        return self._outbox.is_leaving

    def next_deadline(self) -> float | None:
        """When to tick at the latest; None if it has nothing to do until it hears something."""
        if self._outbox.has_orders:
            return None
        times = [self._outbox.next_deadline(), self._service.next_deadline()]
        times += [due for due, _ in list(self._unseen)[:1]]
        return min((time for time in times if time is not None), default=None)

    def _run(self) -> None:
        if not self._outbox.has_orders:
            self._service.run()

    def _hear_of(self, notification: Notification) -> None:
        method, params = notification
        if method in self._flags.die_at:
            self._die(method)
        elif method in self._flags.hang_at:
            pass
        elif method == "session/cancel":
            self._service.cancel(params)
        elif method == "$/cancel_request":
            self._cancel_request(params.get("requestId"))

    def _cancel_request(self, name: object) -> None:
        if not isinstance(name, int | str | None):
            return
        unseen = [request for _, request in self._unseen if request.id == name]
        self._unseen = deque(item for item in self._unseen if item[1].id != name)
        for request in unseen:
            self._outbox.refuse(request.id, REQUEST_CANCELLED, "request cancelled")
        self._service.cancel_request(name)

    def _serve(self, request: Request) -> None:
        flags, method = self._flags, request.method
        if method in flags.die_at:
            self._die(method)
        elif method in flags.hang_at:
            pass
        elif method in flags.fail_at:
            self._outbox.refuse(request.id, INTERNAL_ERROR, f"told to fail at {method}")
        elif method in flags.rubbish_at:
            self._outbox.answer(request.id, "rubbish")
        else:
            try:
                result = self._service.serve(request)
            except Refusal as refusal:
                self._outbox.refuse(request.id, refusal.code, refusal.text)
            else:
                if result is not None:
                    self._outbox.answer(request.id, result)

    def _die(self, method: str) -> None:
        self._outbox.want(Want("log", text=f"scripted: told to die at {method}\n"))
        self._outbox.want(Want("exit", 1))
