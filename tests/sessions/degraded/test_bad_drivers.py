"""A driver that fails when the store is back is its own session's trouble, not the writer's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio

import supervisor
from supervisor import Session, Supervisor, SupervisorError
from supervisor.drivers.port import DriverContext
from supervisor.drivers.python import PythonDriver
from supervisor.drivers.runtime import DriverRuntime
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.fake_store import FailingStore, check_stored


class Fragile:
    """A kind of agent that cannot be started any more, from some time on."""

    name = "fragile"
    runs_process = False

    def __init__(self) -> None:
        self._fake_agent = FakeAgent("fragile")
        self.is_broken = False

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> PythonDriver:
        if self.is_broken:
            raise RuntimeError("on purpose")
        return self._fake_agent.agent.make_driver(context, runtime)


@pytest.fixture
def fragile() -> Fragile:
    return Fragile()


@pytest.fixture
async def sup(fake_agent: FakeAgent, fragile: Fragile) -> AsyncIterator[Supervisor]:
    async with supervisor.open(agents=[fake_agent.agent, fragile]) as opened:
        try:
            yield opened
        finally:
            fake_agent.finish_open_runs()


@pytest.fixture
def _no_crashes() -> None:
    """Allow one failing component: the session of this driver."""


async def test_a_failing_driver_affects_only_its_own_session(
    store: FailingStore, sup: Supervisor, session: Session, run: AgentRun, fragile: Fragile
) -> None:
    bad = await sup.create("fragile")
    await bad.stop()
    store.commits_left = 1  # enough to wake it
    with trio.move_on_after(1), suppress(SupervisorError):
        await bad.resume()
    await session.interrupt()

    fragile.is_broken = True
    await store.recover()

    assert sup._services.writer.statistics().restarts == 0
    assert run.over.is_set()
    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "interrupted"
    await check_stored(store, session)
