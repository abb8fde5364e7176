"""Drivers of other authors that report nothing, or nonsense: only their own session is affected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import AgentStartFailed, Supervisor
from supervisor.core import agent_events
from supervisor.core.events import StopRequested
from supervisor.drivers.acp.agent_spec import HANDSHAKE_SECONDS
from supervisor.drivers.port import BlockedOn, DriverContext
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.driver_timers import START_SECONDS
from tests.sessions.test_broken_drivers import check_can_be_removed, open_with
from tests.support.session_states import SlowStartAgent


class WrongAgent(SlowStartAgent):
    """An agent kind, and its own driver, with one method replaced."""

    def __init__(self, method: str, does: Callable[..., Any]) -> None:
        super().__init__()
        self.waits = False
        self.discarded = 0
        setattr(self, method, does)

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> SlowStartAgent:
        self.runtime = runtime
        return super().make_driver(context, runtime)

    def discard(self) -> None:
        self.discarded += 1


def silent(*_: object) -> None:
    """Do and report nothing."""


async def asynchronous(*_: object) -> None:
    """Do nothing, in a coroutine that the session does not await."""


async def test_a_start_that_is_not_reported_fails_and_leaves_its_slot() -> None:
    agent = WrongAgent("start", silent)
    async with open_with(agent) as sup:
        begun = trio.current_time()
        with (
            trio.fail_after(2 * START_SECONDS),
            pytest.raises(AgentStartFailed, match="reported no start within 60 s"),
        ):
            await sup.create("slow")

        assert trio.current_time() - begun == pytest.approx(START_SECONDS)
        assert agent.discarded == 1
        [info] = (await sup.list()).items
        await check_can_be_removed(sup, sup.session(info.id))


async def test_the_next_start_waits_no_longer_than_the_bound_of_a_silent_one() -> None:
    async with open_with(WrongAgent("start", silent)) as sup, trio.open_nursery() as nursery:
        nursery.start_soon(_create_in_vain, sup)
        await settle()

        with trio.fail_after(START_SECONDS + 1):
            echo = await sup.create("echo")
            assert (await echo.prompt("hello")).text == "hello"


async def _create_in_vain(sup: Supervisor) -> None:
    with pytest.raises(AgentStartFailed):
        await sup.create("slow")


async def test_a_start_has_as_long_as_the_handshake_of_a_process() -> None:
    assert START_SECONDS == HANDSHAKE_SECONDS


async def test_a_driver_that_started_in_time_is_not_failed_later() -> None:
    async with open_with(WrongAgent("answer", silent)) as sup:
        session = await sup.create("slow")
        await trio.sleep(2 * START_SECONDS)

        assert (await session.info()).phase == "idle"


async def test_an_async_start_is_a_start_failure() -> None:
    async with open_with(WrongAgent("start", asynchronous)) as sup:
        with pytest.raises(AgentStartFailed, match="methods of a driver are not async"):
            await sup.create("slow")

        [info] = (await sup.list()).items
        await check_can_be_removed(sup, sup.session(info.id))


@pytest.mark.parametrize("method", ["start_turn", "close", "discard", "blocked_on"])
async def test_a_session_with_an_async_method_in_its_driver_can_be_removed(method: str) -> None:
    async with open_with(WrongAgent(method, asynchronous)) as sup:
        session = await sup.create("slow")
        await session.send("hello")
        await session.why()

        await check_can_be_removed(sup, session)


@pytest.mark.parametrize("said", ["busy", 42, BlockedOn(1, None)], ids=repr)  # type: ignore[arg-type]
async def test_a_wrong_reason_to_wait_counts_as_none(said: object) -> None:
    async with open_with(WrongAgent("blocked_on", lambda: said)) as sup:
        session = await sup.create("slow")
        await session.send("hello")

        assert (await session.info()).waiting_for == "model"
        assert [one.waiting_for for one in (await sup.list()).items] == ["model"]
        await session.why()
        await sup.tree()


async def test_a_session_stops_although_its_driver_never_reports_its_close() -> None:
    agent = WrongAgent("close", silent)
    async with open_with(agent) as sup:
        session = await sup.create("slow")
        ladder = supervisor.Settings().ladder.total_seconds
        with trio.fail_after(ladder + 6):
            await session.stop()

        assert (await session.info()).phase == "stopped"
        assert agent.discarded == 1
        await check_can_be_removed(sup, session)


async def test_leaving_open_is_bounded_although_a_driver_never_reports_its_close() -> None:
    with trio.fail_after(60):
        async with open_with(WrongAgent("close", silent)) as sup:
            await sup.create("slow")


def junk(context: DriverContext) -> list[object]:
    return [
        42,
        None,
        StopRequested(**context.stamp()),
        agent_events.Claimed(epoch=9, **context.stamp()),
    ]


@pytest.mark.parametrize("index", range(4))
async def test_a_report_at_the_start_that_is_no_agent_event_is_a_start_failure(index: int) -> None:
    def report() -> None:
        context: Any = agent.context
        context.report_eventually(junk(context)[index])

    agent = WrongAgent("start", report)
    async with open_with(agent) as sup:
        with pytest.raises(AgentStartFailed, match="which is not an agent event"):
            await sup.create("slow")

        [info] = (await sup.list()).items
        await check_can_be_removed(sup, sup.session(info.id))


@pytest.mark.parametrize("how", ["report", "report_eventually", "report_when_possible"])
async def test_a_task_that_reports_no_agent_event_ends_only_its_agent(how: str) -> None:
    async def work() -> None:
        reported = getattr(agent.context, how)(42)
        if reported is not None:
            await reported

    agent = WrongAgent("start_turn", lambda _: agent.runtime.start_soon(work))
    async with open_with(agent) as sup:
        session = await sup.create("slow")
        await session.send("hello")
        await session.wait_idle()

        assert "not an agent event" in ((await session.info()).last_failure or agent).detail  # type: ignore[union-attr]
        await check_can_be_removed(sup, session)
