"""Resting: an idle session leaves memory after a while, and wakes by itself."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

import supervisor
from actors.testing import explore
from supervisor import Phase, Session, Settings, Supervisor
from supervisor.core import events as ev
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.session_states import REST_SECONDS, is_in_memory, phase_of


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


async def test_an_idle_session_is_suspended_and_leaves_memory(
    sup: Supervisor, session: Session
) -> None:
    await trio.sleep(REST_SECONDS - 0.1)
    before = await phase_of(session)

    await trio.sleep(0.2)
    info = await session.info()

    assert before is Phase.IDLE
    assert (info.phase, info.badge) == (Phase.SUSPENDED, "suspended")
    assert not is_in_memory(sup, session)


async def test_a_suspended_session_wakes_on_input_and_is_suspended_again(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)
    asleep = await session.info()

    result = await session.prompt("good morning")
    awake = await session.info()
    await trio.sleep(REST_SECONDS + 1.0)

    assert result.text == "good morning"
    assert awake.epoch > asleep.epoch
    assert await phase_of(session) is Phase.SUSPENDED


async def test_reading_a_suspended_session_does_not_wake_it(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await trio.sleep(2 * REST_SECONDS)

    await session.info()
    await session.history()
    await session.transcript()
    await session.inputs()
    await session.rules()
    await sup.list()

    assert not is_in_memory(sup, session)


async def test_the_end_of_a_turn_restarts_the_suspend_timer(
    session: Session, run: AgentRun
) -> None:
    await trio.sleep(10 * REST_SECONDS)
    while_running = await phase_of(session)

    run.finish()
    await trio.sleep(REST_SECONDS - 0.1)
    before = await phase_of(session)
    await trio.sleep(0.2)

    assert (while_running, before) == (Phase.RUNNING, Phase.IDLE)
    assert await phase_of(session) is Phase.SUSPENDED


async def test_a_session_with_a_permission_request_is_not_suspended(
    session: Session, run: AgentRun, sup: Supervisor
) -> None:
    asked = run.begin(run.turn.ask("may I?", tool="bash"))

    await trio.sleep(2 * REST_SECONDS)
    waiting = await session.info()
    [request] = await sup.permissions()
    await sup.answer(request.id, "allow_once")

    assert (waiting.phase, waiting.badge) == (Phase.RUNNING, "waiting-for-you")
    assert await asked.wait()


async def test_a_session_with_inputs_behind_a_zombie_is_not_suspended(
    sup: Supervisor, shielded_agent: FakeAgent
) -> None:
    session = await sup.create("shielded")
    await session.send("first")
    run = await shielded_agent.next_run()
    await session.interrupt()
    await session.send("second")

    await trio.sleep(10 * REST_SECONDS)
    while_it_lasts = await session.info()
    run.finish()
    second = await shielded_agent.next_run()

    assert (while_it_lasts.phase, while_it_lasts.queued) == (Phase.IDLE, 1)
    assert second.turn.text == "second"


async def test_suspension_can_be_disabled(sup: Supervisor) -> None:
    session = await sup.create("echo", suspend_after_seconds=math.inf)

    await trio.sleep(80_000.0)

    assert await phase_of(session) is Phase.IDLE


async def test_a_session_suspended_at_once_still_answers(sup: Supervisor) -> None:
    session = await sup.create("echo", suspend_after_seconds=0.0)

    answers = [(await session.prompt(str(number))).text for number in range(5)]
    await trio.testing.wait_all_tasks_blocked()

    assert answers == list("01234")
    assert await phase_of(session) is Phase.SUSPENDED


async def test_an_input_at_the_moment_of_suspension_is_not_lost(
    sup: Supervisor,
) -> None:
    sessions = [await sup.create("echo") for _ in range(20)]
    answers: list[str] = []

    async def prompt(session: Session, steps: int) -> None:
        await trio.sleep(REST_SECONDS)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        answers.append((await session.prompt("hello")).text)

    async with trio.open_nursery() as nursery:
        for steps, session in enumerate(sessions):
            nursery.start_soon(prompt, session, steps)

    assert answers == ["hello"] * 20


async def test_a_watcher_stays_over_sleep(sup: Supervisor) -> None:
    session = await sup.create("echo")
    async with session.watch(after=(await session.info()).last_seq) as feed:
        await trio.sleep(2 * REST_SECONDS)
        await session.prompt("hello")
        kinds: list[str] = []
        while "turn_ended" not in kinds:
            item = await anext(feed)
            kinds += [item.kind] if isinstance(item, supervisor.Record) else []

    assert kinds[0] == "session_suspended"
    assert "session_resumed" in kinds


async def test_a_resting_session_can_be_stopped_without_waking_its_agent(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)

    await session.stop()

    assert await phase_of(session) is Phase.STOPPED
    assert len(await records(session, "agent_attached")) == 1


async def _ask_one_who_rests() -> None:
    async with supervisor.open(settings=Settings(suspend_after_seconds=0.5)) as sup:
        session = await sup.create("echo")
        while is_in_memory(sup, session):  # noqa: ASYNC110 - as a user would look
            await trio.sleep(1.0)
        before = (await session.info()).epoch
        await session.set(title="good morning")
        assert (await session.info()).epoch == before + 1


def test_a_session_with_a_pending_request_is_not_suspended() -> None:
    # The clock of these schedules runs on while there is work to do, as if the loop were late.
    assert explore(_ask_one_who_rests, seeds=range(300), max_failures=1, early_timeouts=True) == []


async def test_a_session_woken_by_a_cancelled_caller_suspends_again(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)
    slot = sup._parts.registry.slot(session.id)

    with trio.CancelScope() as scope:
        scope.cancel()
        await sup._parts.registry.get_or_start(session.id)
    await trio.sleep(2.0)

    assert slot.callers == 0
    assert not is_in_memory(sup, session)


async def test_an_event_for_a_suspending_session_is_not_lost(
    sup: Supervisor,
) -> None:
    session = await sup.create("echo")
    await trio.sleep(2 * REST_SECONDS)
    for number in range(5):
        refused = ev.ChildRefused(
            agent="echo",
            limit="max_depth",
            used=3,
            allowed=3,
            detail=f"{number}",
            **sup._services.stamp(),
        )
        sup._parts.router.tell_eventually(session.id, refused)
    await trio.sleep(REST_SECONDS)

    heard = [record.body["detail"] for record in await records(session, "spawn_refused")]
    assert sorted(heard) == ["0", "1", "2", "3", "4"]
    assert not is_in_memory(sup, session)
