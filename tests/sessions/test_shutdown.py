"""Leaving: turns may end, then they are interrupted; sessions rest with their queues."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any

import pytest
import trio
import trio.testing

from supervisor import (
    Phase,
    Restart,
    Session,
    SessionNotActive,
    Settings,
    Supervisor,
    SupervisorError,
)
from supervisor.core.records import Record
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.slot import SessionSlot
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.shutdown_harness import EXIT_SECONDS, Harness, begin


@pytest.fixture
def settings() -> Settings:
    return Settings(exit_seconds=EXIT_SECONDS)


@pytest.fixture
def harness(fake_agent: FakeAgent, shielded_agent: FakeAgent) -> Harness:
    return Harness(fake_agent, shielded_agent)


# Turns ----------------------------------------------------------------------------------


async def test_leaving_with_nothing_to_do_takes_no_time(harness: Harness) -> None:
    async with harness.open() as sup:
        for _ in range(5):
            await sup.create("echo")
        began = trio.current_time()

    assert trio.current_time() == began


async def test_a_running_turn_may_end(harness: Harness) -> None:
    async with harness.open() as sup:
        session = await sup.create("scripted")
        await session.send("sleep 4\nsay done")
        began = trio.current_time()

    [ended] = await harness.records(sup, session, "turn_ended")
    assert (ended.body["outcome"], ended.body["text"]) == ("completed", "done")
    assert trio.current_time() == began + 4.0


async def test_a_turn_that_does_not_end_in_time_is_interrupted_for_shutdown(
    harness: Harness,
) -> None:
    async with harness.open() as sup:
        session = await sup.create("scripted")
        await session.send("sleep 1000")
        began = trio.current_time()

    [interrupted] = await harness.records(sup, session, "interrupted")
    [ended] = await harness.records(sup, session, "turn_ended")
    assert interrupted.body["reason"] == "shutdown"
    assert ended.body["outcome"] == "interrupted"
    assert trio.current_time() == began + EXIT_SECONDS


async def test_all_turns_share_exit_seconds(harness: Harness) -> None:
    async with harness.open() as sup:
        for _ in range(50):
            await (await sup.create("scripted")).send("sleep 1000")
        began = trio.current_time()

    assert trio.current_time() == began + EXIT_SECONDS


@pytest.mark.parametrize("text", ["sleep 4", "sleep 1000"])
async def test_sessions_are_suspended_with_their_queues(harness: Harness, text: str) -> None:
    async with harness.open() as sup:
        session = await sup.create("scripted")
        await session.send(text)
        await session.send("say second")
        await session.send("say third")

    stored = await harness.row(sup, session)
    assert stored.row.phase is Phase.SUSPENDED
    assert [waiting.text for waiting in stored.row.inputs] == ["say second", "say third"]
    assert stored.row.turn is None


async def test_idle_sessions_are_suspended_and_stopped_sessions_stay_stopped(
    harness: Harness,
) -> None:
    async with harness.open() as sup:
        idle, stopped = await sup.create("echo"), await sup.create("echo")
        await stopped.stop()

    phases = [(await harness.row(sup, session)).row.phase for session in (idle, stopped)]
    assert phases == [Phase.SUSPENDED, Phase.STOPPED]


async def test_a_session_in_restart_back_off_is_suspended_at_once(harness: Harness) -> None:
    async with harness.open() as sup:
        session = await sup.create("scripted", restart=Restart(backoff_seconds=1000.0))
        await session.prompt("crash")
        began = trio.current_time()

    assert (await harness.row(sup, session)).row.phase is Phase.SUSPENDED
    assert trio.current_time() == began


async def test_a_request_that_waits_is_cancelled_with_its_turn(
    harness: Harness, fake_agent: FakeAgent
) -> None:
    async with harness.open() as sup:
        session, run = await begin(sup, fake_agent)
        run.begin(run.turn.ask("may I?", tool="bash"))
        await trio.testing.wait_all_tasks_blocked()

    [answered] = await harness.records(sup, session, "permission_answered")
    assert answered.body["decision"] == "cancelled"


async def test_a_pending_prompt_gets_its_result_during_shutdown(harness: Harness) -> None:
    heard: list[str] = []

    async def prompt(session: Session) -> None:
        heard.append((await session.prompt("sleep 1000")).outcome)

    async with trio.open_nursery() as nursery, harness.open() as sup:
        nursery.start_soon(prompt, await sup.create("scripted"))
        await trio.testing.wait_all_tasks_blocked()

    assert heard == ["interrupted"]


async def test_a_wait_for_a_queued_input_fails_when_the_supervisor_leaves(harness: Harness) -> None:
    heard: list[SupervisorError] = []

    async def prompt(session: Session) -> None:
        with pytest.raises(SessionNotActive) as left:
            await session.prompt("say second")
        heard.append(left.value)

    async with trio.open_nursery() as nursery, harness.open() as sup:
        session = await sup.create("scripted")
        await session.send("sleep 1000")
        nursery.start_soon(prompt, session)
        await trio.testing.wait_all_tasks_blocked()

    assert heard[0].hint


async def test_wait_stopped_fails_when_the_supervisor_leaves(harness: Harness) -> None:
    heard: list[str] = []

    async def wait(session: Session) -> None:
        with pytest.raises(SessionNotActive):
            await session.wait_stopped()
        heard.append("left")

    async with trio.open_nursery() as nursery, harness.open() as sup:
        nursery.start_soon(wait, await sup.create("echo"))
        await trio.testing.wait_all_tasks_blocked()

    assert heard == ["left"]


async def test_watchers_see_the_end_and_are_done(harness: Harness) -> None:
    seen: dict[str, list[str]] = {"one": [], "all": []}

    async def watch(name: str, feed: Any) -> None:  # noqa: ANN401
        async with feed as items:
            async for item in items:
                if isinstance(item, Record):
                    seen[name].append(item.kind)

    async with trio.open_nursery() as nursery, harness.open() as sup:
        session = await sup.create("echo")
        nursery.start_soon(watch, "one", session.watch())
        nursery.start_soon(watch, "all", sup.watch())
        await trio.testing.wait_all_tasks_blocked()

    assert [kinds[-1] for kinds in seen.values()] == ["session_suspended"] * 2


# How much work that is ------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many seats leaving looked at, each time that it looked."""
    listed, counts = SessionRegistry.live_or_starting, list[int]()

    def counted(tree: SessionRegistry) -> list[SessionSlot]:
        counts.append(len(tree._slots))
        return listed(tree)

    monkeypatch.setattr(SessionRegistry, "live_or_starting", counted)
    return counts


@pytest.mark.parametrize("text", ["", "sleep 4", "sleep 1000"])
async def test_shutdown_work_is_linear_in_the_number_of_sessions(
    harness: Harness, looks: list[int], text: str
) -> None:
    work = list[int]()
    for number in (10, 100):
        looks.clear()
        async with harness.open() as sup:
            for _ in range(number):
                session = await sup.create("scripted")
                if text:
                    await session.send(text)
        work.append(sum(looks))

    few, many = work
    assert few >= 10
    assert many <= 12 * few


async def test_starting_sessions_are_checked_a_bounded_number_of_times(
    harness: Harness, looks: list[int]
) -> None:
    async def create(sup: Supervisor) -> None:
        with contextlib.suppress(SupervisorError):
            await sup.create("echo")

    async with trio.open_nursery() as nursery, harness.open() as sup:
        for _ in range(100):
            nursery.start_soon(create, sup)
        while len(sup._parts.registry._slots) < 50:
            await trio.lowlevel.checkpoint()

    assert 50 <= sum(looks) <= 500


# Zombies --------------------------------------------------------------------------------


async def test_a_zombie_is_logged_and_awaited_at_shutdown(
    harness: Harness, shielded_agent: FakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    named_after: list[float] = []

    async def relent(run: AgentRun, began: float) -> None:
        while "shielded" not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await trio.sleep(0.5)
        named_after.append(trio.current_time() - began)
        await trio.sleep(100.0)
        run.finish()

    async with trio.open_nursery() as nursery:
        with caplog.at_level(logging.WARNING):
            async with harness.open() as sup:
                session, run = await begin(sup, shielded_agent, "shielded")
                began = trio.current_time()
                nursery.start_soon(relent, run, began)

    ladder = Settings().ladder.ask_seconds
    assert session.id in caplog.text
    assert named_after[0] <= EXIT_SECONDS + ladder + EXIT_SECONDS + 1.0
    assert trio.current_time() == began + named_after[0] + 100.0
    assert (await harness.row(sup, session)).row.phase is Phase.SUSPENDED


async def test_an_earlier_zombie_does_not_prevent_other_sessions_from_suspending(
    harness: Harness, fake_agent: FakeAgent, shielded_agent: FakeAgent
) -> None:
    async with harness.open() as sup:
        held, run = await begin(sup, shielded_agent, "shielded")
        await held.interrupt()
        other = await sup.create("scripted")
        await other.send("sleep 4\nsay done")

        async def relent() -> None:
            await trio.sleep(5.0)
            run.finish()

        sup._services.tasks.start_soon(relent)

    [ended] = await harness.records(sup, other, "turn_ended")
    assert ended.body["outcome"] == "completed"
    assert (await harness.row(sup, held)).row.phase is Phase.SUSPENDED


async def test_a_turn_abandoned_during_shutdown_is_not_awaited(
    harness: Harness, shielded_agent: FakeAgent
) -> None:
    async with harness.open() as sup:
        other = await sup.create("scripted")
        await other.send("sleep 8")
        held, run = await begin(sup, shielded_agent, "shielded")
        began = trio.current_time()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(held.interrupt)
            await sup.drain()

        assert trio.current_time() == began + 8.0
        run.finish()


async def test_a_scripted_hang_does_not_hold_the_supervisor(harness: Harness) -> None:
    async with harness.open() as sup:
        session = await sup.create("scripted")
        await session.send("hang")
        began = trio.current_time()

    [ended] = await harness.records(sup, session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert trio.current_time() <= began + 3 * EXIT_SECONDS


# Nothing is left ------------------------------------------------------------------------


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def test_tasks_and_threads_return_to_base(harness: Harness, fake_agent: FakeAgent) -> None:
    async with harness.open():  # threads of the pool come up once
        pass
    tasks, threads = living_tasks(), threading.active_count()

    async with harness.open() as sup:
        sessions = [await sup.create("scripted") for _ in range(20)]
        for session in sessions[:10]:
            await session.send("sleep 1000")
        for session in sessions[15:]:
            await session.stop()
    await trio.testing.wait_all_tasks_blocked()

    assert living_tasks() == tasks
    assert threading.active_count() <= threads


async def test_tasks_return_to_base_when_all_sessions_are_stopped(
    sup: Supervisor, autojump_clock: trio.testing.MockClock
) -> None:
    await trio.testing.wait_all_tasks_blocked()
    tasks = living_tasks()
    sessions = [await sup.create("scripted") for _ in range(50)]
    for session in sessions:
        await session.send("tool bash 1000")

    for session in sessions:
        await session.stop()
    await trio.sleep(11.0)  # unused nurseries of agents are kept for five to ten seconds

    assert living_tasks() == tasks
    assert sup._parts.registry._slots == {}


async def test_a_supervisor_can_be_opened_again_and_again(harness: Harness) -> None:
    for _ in range(5):
        async with harness.open() as sup:
            session = await sup.create("echo")
            assert (await session.prompt("hello")).text == "hello"


async def test_two_supervisors_run_side_by_side(harness: Harness) -> None:
    async with harness.open() as one, harness.open() as other:
        session = await one.create("echo")

        assert not await other.exists(session.id)
        assert (await (await other.create("echo")).prompt("hi")).text == "hi"
