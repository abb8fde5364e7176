"""Actors for tests: they run what they are told and log what happens to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import trio

from actors import (
    Actor,
    Ask,
    ChildSpec,
    Exit,
    Group,
    GroupSpec,
    Ref,
    StopActor,
    open_actors,
)
from actors.testing import settle

Action: TypeAlias = Callable[[], Awaitable[object]]
ActorLog: TypeAlias = list[str]
ActorFactory: TypeAlias = Callable[[], Actor]


class IntendedCrash(Exception):
    """The crash that a test asked for."""


# Actions: told to a fake actor, or run when it starts or stops -------------------------


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


async def crash() -> None:
    raise IntendedCrash


async def finish() -> None:
    raise StopActor


async def hang() -> None:
    await trio.sleep_forever()


def work(seconds: float) -> Action:
    async def do() -> str:
        await trio.sleep(seconds)
        return "done"

    return do


async def ignore_cancelling() -> None:
    """Ignore a cancellation for one second."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)


# Questions -------------------------------------------------------------------------------


@attrs.frozen
class Say(Ask[str]):
    """Answered with its text."""

    text: str


@attrs.frozen(eq=False)
class Do(Ask[object]):
    """Answered with the result of the action."""

    action: Action


# Actors ----------------------------------------------------------------------------------


class FakeActor(Actor):
    """Actor that runs every action it is told, answers every question, and logs the rest."""

    def __init__(
        self,
        actor_log: ActorLog | None = None,
        on_start: Action = nothing,
        on_stop: Action = nothing,
    ) -> None:
        self.actor_log = [] if actor_log is None else actor_log
        self._on_start = on_start
        self._on_stop = on_stop

    async def on_start(self) -> None:
        self.note("starts")
        await self._on_start()
        self.note("is up")

    async def receive(self, message: object) -> object:
        match message:
            case Say(text):
                return text
            case Do(action):
                return await action()
            case str():
                self.note(message)
            case _ if callable(message):
                await message()
        return None

    async def on_stop(self, reason: Exit) -> None:
        self.note(f"stops, {type(reason).__name__}")
        await self._on_stop()
        self.note("is gone")

    def note(self, what: str) -> None:
        self.actor_log.append(f"{self.ref.name} {what}")


def fake_actor(
    actor_log: ActorLog | None = None, *, on_start: Action = nothing, on_stop: Action = nothing
) -> ActorFactory:
    """Return a factory of fake actors, all incarnations with the same log and actions."""
    return lambda: FakeActor(actor_log, on_start, on_stop)


def factory_sequence(*makers: ActorFactory) -> ActorFactory:
    """Return a factory that uses the first one first, and so on; the last one for all the rest."""
    waiting = list(makers)

    def make() -> Actor:
        return (waiting.pop(0) if len(waiting) > 1 else waiting[0])()

    return make


def fake_actor_specs(actor_log: ActorLog, *names: str) -> list[ChildSpec]:
    """Return one spec of a fake actor for each name."""
    return [ChildSpec(name, fake_actor(actor_log)) for name in names]


async def run_in_system(play: Callable[[Group], Awaitable[object]]) -> None:
    """Open an actor system, run `play` in it, and close it."""
    async with open_actors() as system:
        await play(system)


def lines_with(actor_log: ActorLog, *notes: str) -> ActorLog:
    """Return the log lines with one of these notes."""
    return [line for line in actor_log if line.partition(" ")[2] in notes]


async def crash_and_settle(ref: Ref) -> None:
    ref.tell(crash)
    await settle()


def assert_nothing_is_left(system: Group) -> None:
    assert list(system) == []
    assert system.statistics().children == 0


def nested(
    actor_log: ActorLog, *names: str, max_restarts: int = 0, restart: str = "transient"
) -> ChildSpec:
    """Return a group `inner` that fails at the first crash unless `max_restarts` is given."""
    spec = GroupSpec(
        fake_actor_specs(actor_log, *names), max_restarts=max_restarts, strategy="one_for_all"
    )
    return ChildSpec("inner", spec, restart=restart)  # type: ignore[arg-type]
