"""Hooks for tests of gates, and checks of the state after a refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
import trio

from supervisor import (
    HookEvent,
    Phase,
    Session,
    Supervisor,
    SupervisorError,
)
from supervisor.sessions.hooks import ObservedPoint

# Default deadline of a hook.
DEADLINE: Final = 5.0


class RecordingHook:
    """A hook that records its events and always returns the same answer."""

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


def slow_hook(seconds: float, answer: object = None) -> Callable[[HookEvent], Awaitable[object]]:
    async def slow(_: HookEvent) -> object:
        await trio.sleep(seconds)
        return answer

    return slow


async def refused(work: Awaitable[object], kind: type[SupervisorError], *words: str) -> None:
    """Check that the call raises this error with these words and with a hint."""
    with pytest.raises(kind) as caught:
        await work
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)


async def check_stopped_by_hook(session: Session, reason: str) -> None:
    with trio.fail_after(30.0):
        info = await session.wait_stopped()
    assert (info.stop_reason, info.stop_detail, info.badge) == ("hook_stopped", reason, "stopped")


async def fence_actor(sup: Supervisor, session: Session) -> None:
    """Claim the session from outside, so that the next commit of its actor is fenced."""
    await sup._services.store.claim([session.id])
    await session.set(title="another")


async def check_nothing_left(sup: Supervisor, session: Session) -> None:
    """Check that no turn, queued input, zombie or detached task is left."""
    info = await session.info()
    assert (info.turn_id, info.queued, info.phase) == (None, 0, Phase.IDLE)
    assert not sup._services.tasks.zombies
    assert not sup._services.detached_tasks.count.value


REST_SECONDS = 60.0


class RecordingObserver:
    """Records the events of one observed point, of one session or of all."""

    def __init__(self, sup: Supervisor, point: ObservedPoint) -> None:
        self.events: list[HookEvent] = []
        sup.hooks.add(point, self.events.append)

    def data(self, session: Session | None = None) -> list[Mapping[str, Any]]:
        return [
            dict(event.data)
            for event in self.events
            if session is None or event.session_id == session.id
        ]

    def words(self, field: str, session: Session | None = None) -> list[Any]:
        return [one[field] for one in self.data(session)]
