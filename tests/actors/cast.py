"""The players of these tests: they do as they are told and write down what happens to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import trio

from actors import Actor, Ask, ChildSpec, Exit, Group, StopActor, open_actors

Deed: TypeAlias = Callable[[], Awaitable[object]]
Diary: TypeAlias = list[str]
Make: TypeAlias = Callable[[], Actor]


class Boom(Exception):
    """The crash that a test asked for."""


# Deeds: told to a player, or done by it when it starts or stops --------------------------


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


async def crash() -> None:
    raise Boom


async def finish() -> None:
    raise StopActor


async def hang() -> None:
    await trio.sleep_forever()


def work(seconds: float) -> Deed:
    async def do() -> str:
        await trio.sleep(seconds)
        return "done"

    return do


async def ignore_cancelling() -> None:
    """Take a cancellation for a mere remark, and go on as if it had not come."""
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
    """Answered with what the deed gives, if it gives anything."""

    deed: Deed


# Actors ----------------------------------------------------------------------------------


class Player(Actor):
    """Does every deed it is told, answers every question, and writes down the rest."""

    def __init__(
        self, diary: Diary | None = None, on_start: Deed = nothing, on_stop: Deed = nothing
    ) -> None:
        self.diary = [] if diary is None else diary
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
            case Do(deed):
                return await deed()
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
        self.diary.append(f"{self.ref.name} {what}")


def player(
    diary: Diary | None = None, *, on_start: Deed = nothing, on_stop: Deed = nothing
) -> Make:
    """What makes such a player, every incarnation with the same diary and habits."""
    return lambda: Player(diary, on_start, on_stop)


def in_turn(*makers: Make) -> Make:
    """Make the first incarnation by the first, and so on; the last makes all the rest."""
    waiting = list(makers)

    def make() -> Actor:
        return (waiting.pop(0) if len(waiting) > 1 else waiting[0])()

    return make


def troupe(diary: Diary, *names: str) -> list[ChildSpec]:
    """One ordinary player under each name."""
    return [ChildSpec(name, player(diary)) for name in names]


async def perform(play: Callable[[Group], Awaitable[object]]) -> None:
    """Open a house, perform the play in it, and leave."""
    async with open_actors() as system:
        await play(system)


def only(diary: Diary, *notes: str) -> Diary:
    """The lines of the diary in which someone noted one of these."""
    return [line for line in diary if line.partition(" ")[2] in notes]
