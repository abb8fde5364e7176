"""Agents that wait for orders from the test, and what tests read of a session afterwards.

    scene = await player.next_scene()          a turn has begun
    await scene.do(scene.turn.say("hello"))    done inside the agent, awaited by the test
    deed = scene.begin(scene.turn.ask(...))    the same, without waiting: `await deed.wait()`
    call = await scene.open_call("bash")       a tool call that lasts until `call.close()`
    scene.finish("done")                       the agent returns; `scene.fail(error)`: it raises

A `Player(deaf=True)` does not hear interrupts: it ends by `finish` and by nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

import trio

from actors.testing import settle
from supervisor import Call, Delta, Gap, PythonAgent, Record, Session, Turn

T = TypeVar("T")
Item: TypeAlias = Record | Delta | Gap
Follow: TypeAlias = Callable[..., Awaitable[list[Item]]]


class Interrupted(Exception):
    """What a deed of an agent came to: it was cancelled, with its call or with its turn."""


class Deed(Generic[T]):
    """Something an agent does; `wait()` gives or raises what came of it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._result: T | BaseException | None = None
        self.done = trio.Event()

    async def run(self) -> None:
        try:
            self._result = await self._work
        except trio.Cancelled:
            self._result = Interrupted()
            raise
        except Exception as error:  # noqa: BLE001 - the test asked for it, and gets it
            self._result = error
        finally:
            self.done.set()

    async def wait(self) -> T:
        await self.done.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result  # type: ignore[return-value] # set by run()


class OpenCall:
    """A tool call under way, held open for the test."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.id = call.id
        self.left = trio.Event()
        self._close = trio.Event()

    async def run(self, opened: trio.Event) -> None:
        async with self.call:
            opened.set()
            await self._close.wait()
        self.left.set()

    async def close(self) -> None:
        """Let the block end, and wait until it has."""
        self._close.set()
        await self.left.wait()


class Scene:
    """A turn that has begun, and does what the test says."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.over = trio.Event()  # the agent's function was left, however that came
        self._finished = trio.Event()
        self._ending: str | BaseException | None = None
        self._nursery: trio.Nursery | None = None

    async def play(self, *, deaf: bool) -> str | None:
        try:
            with trio.CancelScope(shield=deaf):
                async with trio.open_nursery() as self._nursery:
                    await self._finished.wait()
                    self._nursery.cancel_scope.cancel(reason="the scene is over")
        finally:
            self.over.set()
        if isinstance(self._ending, BaseException):
            raise self._ending
        return self._ending

    def begin(self, work: Coroutine[Any, Any, T]) -> Deed[T]:
        """Have the agent do this."""
        assert self._nursery is not None
        deed = Deed(work)
        self._nursery.start_soon(deed.run)
        return deed

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the agent do this, and wait until it has."""
        return await self.begin(work).wait()

    async def open_call(self, name: str, given: dict[str, Any] | None = None) -> OpenCall:
        """Have the agent begin a tool call, and wait until it has."""
        held, opened = OpenCall(self.turn.tool(name, given)), trio.Event()
        self.begin(held.run(opened))
        await opened.wait()
        return held

    def finish(self, text: str | None = None) -> None:
        """Have the agent return this; the first ending counts."""
        self._end(text)

    def fail(self, error: BaseException) -> None:
        """Have the agent raise this."""
        self._end(error)

    def _end(self, ending: str | BaseException | None) -> None:
        if not self._finished.is_set():
            self._ending = ending
            self._finished.set()


class Player:
    """An agent that does nothing of its own accord."""

    def __init__(self, name: str = "player", *, deaf: bool = False) -> None:
        self.agent = PythonAgent(name, self._play)
        self.scenes: list[Scene] = []
        self._deaf = deaf
        self._send, self._receive = trio.open_memory_channel[Scene](math.inf)

    async def _play(self, turn: Turn) -> str | None:
        scene = Scene(turn)
        self.scenes.append(scene)
        self._send.send_nowait(scene)
        return await scene.play(deaf=self._deaf)

    async def next_scene(self) -> Scene:
        """Wait until a turn has begun that was not looked at yet."""
        scene = await self._receive.receive()
        await settle()
        return scene

    async def play_all(self) -> list[str]:
        """Let every turn end at once, and give their texts when no more come."""
        texts: list[str] = []
        while True:
            await settle()
            try:
                scene = self._receive.receive_nowait()
            except trio.WouldBlock:
                return texts
            texts.append(scene.turn.text)
            scene.finish()

    def dismiss(self) -> None:
        """End every scene there is: nothing holds the supervisor any longer."""
        for scene in self.scenes:
            scene.finish()


# What tests read ------------------------------------------------------------------------------


async def records(session: Session, *kinds: str) -> list[Record]:
    """The records of a session, of these kinds or of all."""
    return [
        record
        for group in await session.history()
        for record in group.records
        if not kinds or record.kind in kinds
    ]


async def outcomes(session: Session) -> dict[str, list[str]]:
    """For every input that was accepted, in order: what was said to have become of it."""
    found: dict[str, list[str]] = {}
    for record in await records(session, "input_accepted", "input_settled"):
        settled = found.setdefault(record.body["input_id"], [])
        if record.kind == "input_settled":
            settled.append(record.body["outcome"])
    return found


async def waiting_texts(session: Session) -> list[str]:
    """The texts that wait, in the order in which they will run."""
    return [waiting.text for waiting in await session.inputs()]


async def watch_into(session: Session, seen: list[Item], after: int = 0) -> None:
    async with session.watch(after=after) as feed:
        async for item in feed:
            seen.append(item)  # noqa: PERF401 - others look at it meanwhile


def numbers(items: list[Item]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Record)]


def deltas(items: list[Item]) -> list[Delta]:
    return [item for item in items if isinstance(item, Delta)]


def texts(found: list[Record]) -> list[str]:
    return [record.body["text"] for record in found]


async def last_seq(session: Session) -> int:
    return (await session.info()).last_seq
