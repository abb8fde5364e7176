"""Hooks that tests put at gates, and what is true when they have said no."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio

from supervisor import (
    HookEvent,
    Phase,
    Session,
    Supervisor,
    SupervisorError,
)

# How long a hook may take that was not given another time.
DEADLINE: Final = 5.0


class Watchman:
    """A hook that writes down what it is asked, and always answers the same."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.events: list[HookEvent] = []

    def __call__(self, event: HookEvent) -> object:
        self.events.append(event)
        return self.answer

    @property
    def only(self) -> HookEvent:
        (event,) = self.events
        return event

    @property
    def texts(self) -> list[str]:
        return [event.data["text"] for event in self.events]


async def hang(_: HookEvent) -> None:
    await trio.sleep_forever()


def taking(seconds: float, answer: object = None) -> Callable[[HookEvent], Awaitable[object]]:
    async def slow(_: HookEvent) -> object:
        await trio.sleep(seconds)
        return answer

    return slow


async def refused(work: Awaitable[object], kind: type[SupervisorError], *words: str) -> None:
    """It comes to this error, which says these words, and what to do."""
    with pytest.raises(kind) as caught:
        await work
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)


async def refuse_unless_stopped_by_hook(session: Session, reason: str) -> None:
    with trio.fail_after(30.0):
        info = await session.wait_stopped()
    assert (info.stop_reason, info.stop_detail, info.badge) == ("hook_stopped", reason, "stopped")


async def lose_the_actor(sup: Supervisor, session: Session) -> None:
    """Somebody else takes the session, and the actor finds out with its next commit."""
    await sup._house.store.claim([session.id])
    await session.set(title="another")


async def nothing_is_left(sup: Supervisor, session: Session) -> None:
    """Nobody runs, nobody waits, and the next turn is like any other."""
    info = await session.info()
    assert (info.turn_id, info.queued, info.phase) == (None, 0, Phase.IDLE)
    assert not sup._house.workshop.zombies
    assert not sup._house.works.count
