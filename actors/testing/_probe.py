"""A probe: an actor that keeps the messages it receives, for a test to await and inspect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio
from trio_util import RepeatedEvent

from actors import Actor, Group

Message = TypeVar("Message")


class Probe(Actor):
    """An actor for tests: start one, pass its `ref` on, and await the messages that arrive.

    `messages` has every message ever received, in order. `answer` computes the answer to an
    ask; without it an `Ask` is answered None. If `answer` raises, the probe crashes as any
    actor does, and the same object is restarted with all its messages.
    """

    def __init__(self, answer: Callable[[Any], Any] | None = None) -> None:
        self.messages: list[Any] = []
        self._answer = answer
        self._taken = 0
        self._arrived = RepeatedEvent()

    @classmethod
    async def start(
        cls,
        group: Group,
        *,
        name: str | None = None,
        answer: Callable[[Any], Any] | None = None,
        capacity: int = 1024,
    ) -> Probe:
        """Create a probe and start it in `group`."""
        probe = cls(answer)
        await group.start(lambda: probe, name=name, capacity=capacity)
        return probe

    @property
    def unread(self) -> tuple[Any, ...]:
        """The messages that `next` and `until` have not returned yet."""
        return tuple(self.messages[self._taken :])

    async def receive(self, message: Any) -> Any:
        self.messages.append(message)
        self._arrived.set()
        return None if self._answer is None else self._answer(message)

    async def next(self, *, timeout_seconds: float = 5.0) -> Any:
        """Return the oldest unread message; raise `AssertionError` if none arrives in time."""
        return await self._first(lambda _: True, "a message", timeout_seconds)

    async def until(self, kind: type[Message], *, timeout_seconds: float = 5.0) -> Message:
        """Return the oldest unread message of that kind; the messages before it count as read.

        Raise `AssertionError`, listing the messages that did arrive, if none arrives in time.
        """
        found: Message = await self._first(
            lambda message: isinstance(message, kind), kind.__name__, timeout_seconds
        )
        return found

    async def _first(self, wanted: Callable[[Any], bool], what: str, seconds: float) -> Any:
        await trio.lowlevel.checkpoint()
        checked = self._taken
        with trio.move_on_after(seconds):
            while True:
                for place in range(max(checked, self._taken), len(self.messages)):
                    if wanted(self.messages[place]):
                        self._taken = place + 1
                        return self.messages[place]
                checked = len(self.messages)
                await self._arrived.wait()
        raise AssertionError(
            f"{what} did not arrive within {seconds:g} s; unread: {list(self.unread)!r}"
        )
