"""Drivers of other authors that raise: only their own session is affected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

import supervisor
from supervisor import AgentStartFailed, Session, Settings, Supervisor
from supervisor.drivers.port import DriverContext
from supervisor.drivers.runtime import DriverRuntime
from tests.support.fake_agents import records
from tests.support.session_states import SlowStartAgent


class BrokenAgent(SlowStartAgent):
    """An agent kind, and its own driver, with one method that raises."""

    def __init__(self, broken: str, *, runs_process: bool = False) -> None:
        super().__init__()
        self.waits = False
        self.runs_process = runs_process
        self._broken = broken

    def __getattribute__(self, name: str) -> object:
        if name == object.__getattribute__(self, "__dict__").get("_broken"):
            return _raise
        return super().__getattribute__(name)


def _raise(*_: object) -> None:
    raise RuntimeError("no luck")


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
