"""A probe: an actor that keeps what it is told, for a test to wait for and look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

from actors import Actor, Group

Message = TypeVar("Message")


class Probe(Actor):
    """Start one beside the actors under test, hand out its `ref`, and await what arrives.

    `messages` has everything it was ever told, in order. `answer` makes the answer when it is
    asked; without it an `Ask` is answered None. If `answer` raises, the probe crashes as any
    actor does, and the same object comes back with all it kept.
    """

    def __init__(self, answer: Callable[[Any], Any] | None = None) -> None:
        self.messages: list[Any] = []
        self._answer = answer
        self._taken = 0
        self._arrived = trio.Event()

    @classmethod
    async def start(
        cls,
        group: Group,
        *,
        name: str | None = None,
        answer: Callable[[Any], Any] | None = None,
        capacity: int = 1024,
    ) -> Probe:
        """Make a probe and start it in `group`."""
        probe = cls(answer)
        await group.start(lambda: probe, name=name, capacity=capacity)
        return probe

    @property
    def unread(self) -> tuple[Any, ...]:
        """What arrived and was not yet given out by `next` or `until`."""
        return tuple(self.messages[self._taken :])

    async def receive(self, message: Any) -> Any:
        self.messages.append(message)
        arrived, self._arrived = self._arrived, trio.Event()
        arrived.set()
        return None if self._answer is None else self._answer(message)

    async def next(self, *, timeout_seconds: float = 5.0) -> Any:
        """The oldest unread message; raises `AssertionError` if none comes in time."""
        return await self._first(lambda _: True, "a message", timeout_seconds)

    async def until(self, kind: type[Message], *, timeout_seconds: float = 5.0) -> Message:
        """The oldest unread message of that kind; what stands before it counts as read.

        Raises `AssertionError`, listing what did arrive, if none comes in time.
        """
        found: Message = await self._first(
            lambda message: isinstance(message, kind), kind.__name__, timeout_seconds
        )
        return found

    async def _first(self, wanted: Callable[[Any], bool], what: str, seconds: float) -> Any:
        await trio.lowlevel.checkpoint()
        looked_at = self._taken
        with trio.move_on_after(seconds):
            while True:
                arrived = self._arrived
                for place in range(max(looked_at, self._taken), len(self.messages)):
                    if wanted(self.messages[place]):
                        self._taken = place + 1
                        return self.messages[place]
                looked_at = len(self.messages)
                await arrived.wait()
        raise AssertionError(
            f"{what} did not arrive within {seconds:g} s; unread: {list(self.unread)!r}"
        )
