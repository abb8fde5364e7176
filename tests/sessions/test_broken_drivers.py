"""Drivers of other authors that raise: only their own session is affected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import AgentStartFailed, Session, Settings, Supervisor
from supervisor.drivers.port import DriverContext
from supervisor.drivers.runtime import DriverRuntime
from tests.support.fake_agents import records
from tests.support.session_states import SlowStartAgent


class BrokenAgent(SlowStartAgent):
    """An agent kind, and its own driver, with one method that raises."""

    def __init__(
        self, broken: str, *, runs_process: bool = False, error: BaseException | None = None
    ) -> None:
        super().__init__()
        self.waits = False
        self.runs_process = runs_process
        self._broken = broken
        self._error = error or RuntimeError("no luck")

    def __getattribute__(self, name: str) -> object:
        if name == object.__getattribute__(self, "__dict__").get("_broken"):
            return self._raise
        return super().__getattribute__(name)

    def _raise(self, *_: object) -> None:
        raise self._error


class Unusual(BaseException):
    """An error that is not an Exception."""


class BrokenTaskAgent(SlowStartAgent):
    """An agent kind, and its own driver, with a task of its own that raises when it is told to."""

    def __init__(self, error: BaseException, *, when: str = "start") -> None:
        super().__init__()
        self.waits = False
        self._error = error
        self._when = when

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> SlowStartAgent:
        self._runtime = runtime
        return super().make_driver(context, runtime)

    def start(self) -> None:
        self._act("start", super().start)

    def start_turn(self, order: object) -> None:
        self._act("turn", lambda: None)

    def close(self) -> None:
        self._act("close", super().close)

    def _act(self, now: str, act: Callable[[], None]) -> None:
        if now == self._when:
            self._runtime.start_soon(self._work)
        else:
            act()

    async def _work(self) -> None:
        await trio.lowlevel.checkpoint()
        raise self._error


@attrs.define
class UnhashableDriver(SlowStartAgent):
    """An agent kind whose driver is equal to others, and so has no hash."""

    number: int = 0

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> SlowStartAgent:
        return self


@asynccontextmanager
async def open_with(agent: SlowStartAgent) -> AsyncIterator[Supervisor]:
    settings = Settings(start_concurrency=1, restart=supervisor.Restart(policy="never"))
    async with supervisor.open(agents=[agent], settings=settings) as sup:
        yield sup


async def check_can_be_removed(sup: Supervisor, session: Session) -> None:
    """Check that the session can be stopped and deleted, and that others work."""
    with trio.fail_after(100):
        await session.stop()
        await sup.delete(session.id)
        assert (await sup.list()).items == ()
        assert (await (await sup.create("echo")).prompt("hello")).text == "hello"


@pytest.mark.parametrize("runs_process", [False, True])
@pytest.mark.parametrize("method", ["make_driver", "start"])
async def test_a_driver_that_raises_at_its_start_is_a_start_failure(
    method: str, *, runs_process: bool
) -> None:
    async with open_with(BrokenAgent(method, runs_process=runs_process)) as sup:
        with pytest.raises(AgentStartFailed, match="its driver raised RuntimeError: no luck"):
            await sup.create("slow")

        [info] = (await sup.list()).items
        assert (info.stop_reason, info.badge) == ("start_failed", "failed")
        assert info.last_failure is not None
        assert info.last_failure.kind == "startup"
        await check_can_be_removed(sup, sup.session(info.id))


@pytest.mark.parametrize(
    "error", [SystemExit(3), Unusual("no luck")], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("method", ["make_driver", "start"])
async def test_a_driver_that_raises_no_exception_at_its_start_is_a_start_failure(
    method: str, error: BaseException
) -> None:
    async with open_with(BrokenAgent(method, error=error)) as sup:
        with pytest.raises(AgentStartFailed, match=f"its driver raised {type(error).__name__}"):
            await sup.create("slow")

        [info] = (await sup.list()).items
        await check_can_be_removed(sup, sup.session(info.id))


TASK_ERRORS = (
    RuntimeError("no luck"),
    SystemExit(3),
    Unusual("no luck"),
    ExceptionGroup("two", [RuntimeError("no"), ValueError("luck")]),
)


@pytest.mark.parametrize("error", TASK_ERRORS, ids=lambda error: type(error).__name__)
async def test_a_task_of_a_driver_that_raises_at_its_start_is_a_start_failure(
    error: BaseException,
) -> None:
    async with open_with(BrokenTaskAgent(error)) as sup:
        with pytest.raises(AgentStartFailed, match=f"its driver raised {type(error).__name__}"):
            await sup.create("slow")

        [info] = (await sup.list()).items
        await check_can_be_removed(sup, sup.session(info.id))


@pytest.mark.parametrize("error", TASK_ERRORS, ids=lambda error: type(error).__name__)
async def test_a_task_of_a_driver_that_raises_in_a_turn_ends_the_agent(
    error: BaseException,
) -> None:
    async with open_with(BrokenTaskAgent(error, when="turn")) as sup:
        session = await sup.create("slow")
        await session.send("hello")
        await session.wait_idle()

        [ended] = await records(session, "turn_ended")
        assert ended.body["outcome"] == "lost"
        await check_can_be_removed(sup, session)


async def test_a_session_stops_although_the_task_that_closes_its_driver_raises() -> None:
    async with open_with(BrokenTaskAgent(Unusual("no luck"), when="close")) as sup:
        session = await sup.create("slow")

        await check_can_be_removed(sup, session)


async def test_a_task_of_a_driver_is_cancelled_with_the_supervisor() -> None:
    ended = trio.Event()

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    agent = BrokenTaskAgent(RuntimeError("never"), when="never")
    async with open_with(agent) as sup:
        await sup.create("slow")
        agent._runtime.start_soon(wait)
        await settle()

    assert ended.is_set()


async def test_a_driver_without_a_hash_is_a_start_failure() -> None:
    async with open_with(UnhashableDriver()) as sup:
        with pytest.raises(AgentStartFailed, match="unhashable"):
            await sup.create("slow")


async def test_a_driver_that_raises_at_its_turn_ends_the_agent() -> None:
    async with open_with(BrokenAgent("start_turn")) as sup:
        session = await sup.create("slow")
        await session.send("hello")
        await session.wait_idle()

        [ended] = await records(session, "turn_ended")
        assert ended.body["outcome"] == "lost"
        assert ended.body["error"] == "its driver raised RuntimeError: no luck"
        await check_can_be_removed(sup, session)


@pytest.mark.parametrize("method", ["close", "discard", "cancel_turn", "blocked_on"])
async def test_a_session_stops_although_its_driver_raises(method: str) -> None:
    async with open_with(BrokenAgent(method)) as sup:
        session = await sup.create("slow")
        await session.send("hello")
        await session.why()

        await check_can_be_removed(sup, session)


async def test_a_start_that_raises_leaves_its_place_to_the_next() -> None:
    async with open_with(BrokenAgent("start")) as sup:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_create, sup)

        assert (await (await sup.create("echo")).prompt("hello")).text == "hello"


async def _create(sup: Supervisor) -> None:
    with pytest.raises(AgentStartFailed):
        await sup.create("slow")
