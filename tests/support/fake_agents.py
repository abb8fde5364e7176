"""Agents controlled step by step by the test, and queries for the resulting session.

    run = await fake_agent.next_run()        a turn has started
    await run.do(run.turn.say("hello"))      done inside the agent, awaited by the test
    action = run.begin(run.turn.ask(...))    the same, without waiting: `await action.wait()`
    call = await run.open_call("bash")       a tool call that stays open until `call.close()`
    run.finish("done")                       the agent returns; `run.fail(error)`: it raises

`FakeAgent(shielded=True)` ignores interrupts: its turn ends only by `finish` or `fail`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

import trio

from actors.testing import settle
from supervisor import (
    Call,
    Delta,
    Gap,
    PythonAgent,
    Record,
    Reset,
    Session,
    Turn,
)

T = TypeVar("T")
Item: TypeAlias = Record | Delta | Gap | Reset
Follow: TypeAlias = Callable[..., Awaitable[list[Item]]]


class Interrupted(Exception):
    """The result of an action that was cancelled, with its tool call or with its turn."""


class AgentAction(Generic[T]):
    """A coroutine that runs inside the agent; `wait()` returns its result or raises its error."""

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
        except Exception as error:  # noqa: BLE001 - raised again by wait()
            self._result = error
        finally:
            self.done.set()

    async def wait(self) -> T:
        await self.done.wait()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result  # type: ignore[return-value] # set by run()


class OpenCall:
    """An open tool call, closed when the test says so."""

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
        """Close the tool call and wait until its block has been left."""
        self._close.set()
        await self.left.wait()


class AgentRun:
    """A running turn of a fake agent, controlled by the test."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.over = trio.Event()  # set when the agent's function has returned or raised
        self._finished = trio.Event()
        self._ending: str | BaseException | None = None
        self._nursery: trio.Nursery | None = None

    async def wait_finished(self, *, shielded: bool) -> str | None:
        try:
            with trio.CancelScope(shield=shielded):
                async with trio.open_nursery() as self._nursery:
                    await self._finished.wait()
                    self._nursery.cancel_scope.cancel(reason="the run was finished by the test")
        finally:
            self.over.set()
        if isinstance(self._ending, BaseException):
            raise self._ending
        return self._ending

    def begin(self, work: Coroutine[Any, Any, T]) -> AgentAction[T]:
        """Run this inside the agent without waiting for it."""
        assert self._nursery is not None
        action = AgentAction(work)
        self._nursery.start_soon(action.run)
        return action

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this inside the agent; return its result or raise its error."""
        return await self.begin(work).wait()

    async def open_call(self, name: str, given: dict[str, Any] | None = None) -> OpenCall:
        """Open a tool call inside the agent; return when it is open."""
        held, opened = OpenCall(self.turn.tool(name, given)), trio.Event()
        self.begin(held.run(opened))
        await opened.wait()
        return held

    def finish(self, text: str | None = None) -> None:
        """Make the agent return this text. Only the first `finish` or `fail` counts."""
        self._end(text)

    def fail(self, error: BaseException) -> None:
        """Make the agent raise this error."""
        self._end(error)

    def _end(self, ending: str | BaseException | None) -> None:
        if not self._finished.is_set():
            self._ending = ending
            self._finished.set()


class FakeAgent:
    """An agent that does only what the test tells it."""

    def __init__(self, name: str = "fake", *, shielded: bool = False) -> None:
        self.agent = PythonAgent(name, self._run_turn)
        self.runs: list[AgentRun] = []
        self._shielded = shielded
        self._send, self._receive = trio.open_memory_channel[AgentRun](math.inf)

    async def _run_turn(self, turn: Turn) -> str | None:
        run = AgentRun(turn)
        self.runs.append(run)
        self._send.send_nowait(run)
        return await run.wait_finished(shielded=self._shielded)

    async def next_run(self) -> AgentRun:
        """Return the next turn that has started, each turn once; wait for it if needed."""
        run = await self._receive.receive()
        await settle()
        return run

    async def finish_all(self) -> list[str]:
        """Finish every turn as it starts; return their texts when no further turn starts."""
        texts: list[str] = []
        while True:
            await settle()
            try:
                run = self._receive.receive_nowait()
            except trio.WouldBlock:
                return texts
            texts.append(run.turn.text)
            run.finish()

    def finish_open_runs(self) -> None:
        """Finish every run, so that the supervisor can close."""
        for run in self.runs:
            run.finish()


# Queries --------------------------------------------------------------------------------------


async def records(session: Session, *kinds: str) -> list[Record]:
    """Return the records of a session, of these kinds or of all."""
    return [
        record
        for group in await session.history()
        for record in group.records
        if not kinds or record.kind in kinds
    ]


async def outcomes(session: Session) -> dict[str, list[str]]:
    """Return the recorded outcomes of every accepted input, in order of acceptance."""
    found: dict[str, list[str]] = {}
    for record in await records(session, "input_accepted", "input_settled"):
        settled = found.setdefault(record.body["input_id"], [])
        if record.kind == "input_settled":
            settled.append(record.body["outcome"])
    return found


async def waiting_texts(session: Session) -> list[str]:
    """Return the texts of the queued inputs, in queue order."""
    return [waiting.text for waiting in await session.inputs()]


async def watch_into(session: Session, seen: list[Item], after: int = 0) -> None:
    async with session.watch(after=after) as feed:
        async for item in feed:
            seen.append(item)  # noqa: PERF401 - the test reads the list meanwhile


def numbers(items: list[Item]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Record)]


def deltas(items: list[Item]) -> list[Delta]:
    return [item for item in items if isinstance(item, Delta)]


def texts(found: list[Record]) -> list[str]:
    return [record.body["text"] for record in found]


async def last_seq(session: Session) -> int:
    return (await session.info()).last_seq


async def write_records(run: AgentRun, count: int) -> None:
    """Make the agent produce this many records."""

    async def plan() -> None:
        for number in range(count):
            await run.turn.plan([number])

    await run.do(plan())
    await trio.sleep(1)
