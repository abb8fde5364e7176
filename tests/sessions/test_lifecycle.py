"""The life of one session: how it begins, how its agent comes and goes, how it stops."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

import supervisor
from supervisor import (
    AgentStartFailed,
    Limits,
    Permissions,
    Phase,
    Session,
    Settings,
    Supervisor,
)
from supervisor.core.info import Info
from supervisor.core.state import Failure, Usage
from tests.support.fake_agents import AgentRun, records
from tests.support.session_states import NEVER, REST_SECONDS, SlowStartAgent, phase_of


@pytest.fixture
def settings() -> Settings:
    return Settings(suspend_after_seconds=REST_SECONDS)


# Beginning ------------------------------------------------------------------------------


async def test_create_answers_when_the_session_is_idle(sup: Supervisor) -> None:
    session = await sup.create("echo")

    info = await session.info()

    assert (info.phase, info.badge) == (Phase.IDLE, "idle")


async def test_info_of_a_new_session_has_every_field(sup: Supervisor) -> None:
    limits, rights = Limits(turns=7), Permissions(tools=["bash"], mode="deny_all")
    session = await sup.create(
        "echo",
        key="echo:irc:ann",
        name="one",
        title="First",
        tags=["a", "b"],
        custom={"colour": "red"},
        workspace="/srv/../srv/x/",
        limits=limits,
        permissions=rights,
    )
    now = sup._services.clock.now()

    assert await session.info() == Info(
        id=session.id,
        key="echo:irc:ann",
        kind="user",
        name="one",
        title="First",
        tags=("a", "b"),
        custom={"colour": "red"},
        agent="echo",
        workspace="/srv/x",
        phase=Phase.IDLE,
        archived=False,
        badge="idle",
        parent=None,
        root=session.id,
        depth=0,
        role=None,
        lifetime="with_parent",
        expires_at=None,
        limits=limits,
        permissions=rights,
        children=(),
        turn_id=None,
        turns=0,
        messages=0,
        tool_calls=0,
        queued=0,
        generation=0,
        epoch=1,
        last_seq=len(await records(session)),
        usage=Usage(),
        stop_reason=None,
        stop_detail=None,
        last_failure=None,
        waiting_for=None,
        restarts=0,
        agent_session_id=None,
        pid=None,
        created_at=now,
        updated_at=now,
        last_active_at=now,
    )


async def test_info_counts_turns_messages_and_tool_calls(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    began = (await session.info()).created_at

    await session.prompt("tool bash 2\nuse 40\nsay done")
    await session.prompt("say again")
    info = await session.info()

    assert (info.turns, info.messages, info.tool_calls) == (2, 4, 1)
    assert info.usage == Usage(output_tokens=40)
    assert info.last_seq == len(await records(session))
    assert info.created_at == began
    assert info.last_active_at == info.updated_at == began + 2.0


async def test_info_is_frozen(session: Session) -> None:
    info = await session.info()

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        info.phase = Phase.STOPPED  # type: ignore[misc]


async def test_info_of_a_running_turn_names_it(session: Session, run: AgentRun) -> None:
    await session.send("second")

    info = await session.info()

    assert (info.phase, info.badge, info.waiting_for) == (Phase.RUNNING, "running", "model")
    assert (info.turn_id, info.queued) == (run.turn.id, 1)


async def test_info_waiting_for_names_a_tool_or_a_person(session: Session, run: AgentRun) -> None:
    call = await run.open_call("bash")
    await trio.testing.wait_all_tasks_blocked()
    on_tool = await session.info()
    await call.close()
    run.begin(run.turn.ask("may I?", tool="bash"))
    await trio.testing.wait_all_tasks_blocked()

    on_person = await session.info()

    assert (on_tool.waiting_for, on_tool.badge) == ("tool", "running")
    assert (on_person.waiting_for, on_person.badge) == ("person", "waiting-for-you")


async def test_a_title_is_made_from_the_first_text(sup: Supervisor) -> None:
    session = await sup.create("echo")

    await session.prompt("  Mend the\n   roof, please  ")
    await session.prompt("and the door")

    assert (await session.info()).title == "Mend the roof, please"


async def test_a_title_made_from_a_long_text_is_short(sup: Supervisor) -> None:
    session = await sup.create("echo")

    await session.prompt("word " * 1000)
    title = (await session.info()).title

    assert title is not None
    assert 20 <= len(title) <= 80


async def test_a_title_set_by_the_caller_stays(sup: Supervisor) -> None:
    session = await sup.create("echo", title="Mine")

    await session.prompt("hello")

    assert (await session.info()).title == "Mine"


async def test_create_with_the_same_idempotency_key_returns_the_same_session(
    sup: Supervisor,
) -> None:
    made = await sup.create("echo", name="a", idempotency_key="k")

    again = await sup.create("echo", name="a", idempotency_key="k")

    assert again == made
    assert len((await sup.list()).items) == 1


async def test_concurrent_creates_with_one_idempotency_key_make_one_session(
    sup: Supervisor,
) -> None:
    made: list[Session] = []

    async def create() -> None:
        made.append(await sup.create("echo", idempotency_key="k"))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(create)

    assert len(set(made)) == 1
    assert len((await sup.list()).items) == 1


async def test_create_with_the_same_idempotency_key_and_another_body_conflicts(
    sup: Supervisor,
) -> None:
    await sup.create("echo", name="a", idempotency_key="k")

    with pytest.raises(supervisor.IdempotencyConflict):
        await sup.create("echo", name="b", idempotency_key="k")

    assert len((await sup.list()).items) == 1


# Agents that are slow to come up, do not come up, or leave ------------------------------


async def only_session(sup: Supervisor) -> Session:
    await trio.testing.wait_all_tasks_blocked()
    [info] = (await sup.list()).items
    return sup.session(info.id)


async def test_create_waits_until_the_agent_is_up(nursery: trio.Nursery) -> None:
    slow = SlowStartAgent()
    async with supervisor.open(agents=[slow]) as sup:
        nursery.start_soon(sup.create, "slow")
        session = await only_session(sup)
        before = await phase_of(session)

        slow.report_start()
        await trio.testing.wait_all_tasks_blocked()

        assert (before, await phase_of(session)) == (Phase.STARTING, Phase.IDLE)


async def test_create_raises_when_the_agent_does_not_come_up() -> None:
    slow = SlowStartAgent()
    slow.waits, slow.failure = False, Failure("startup", "no such program")
    async with supervisor.open(agents=[slow]) as sup:
        with pytest.raises(AgentStartFailed, match="no such program"):
            await sup.create("slow")

        info = (await sup.list()).items[0]

    assert (info.phase, info.stop_reason, info.badge) == ("stopped", "start_failed", "failed")
    assert info.last_failure == Failure("startup", "no such program")


async def test_a_session_with_a_failed_start_can_be_resumed_later() -> None:
    slow = SlowStartAgent()
    slow.waits, slow.failure = False, Failure("startup", "no such program")
    async with supervisor.open(agents=[slow]) as sup:
        with pytest.raises(AgentStartFailed):
            await sup.create("slow")
        session = await only_session(sup)
        slow.failure = None

        await session.resume()

        assert await phase_of(session) is Phase.IDLE


async def test_a_session_can_be_stopped_while_it_starts(nursery: trio.Nursery) -> None:
    slow = SlowStartAgent()
    async with supervisor.open(agents=[slow]) as sup:
        nursery.start_soon(sup.create, "slow")
        session = await only_session(sup)

        await session.stop()

        info = await session.info()
        assert (info.phase, info.stop_reason) == (Phase.STOPPED, "user_cancelled")


async def test_input_sent_while_the_agent_starts_waits_for_it(nursery: trio.Nursery) -> None:
    slow = SlowStartAgent()
    async with supervisor.open(agents=[slow], settings=Settings(exit_seconds=0.0)) as sup:
        nursery.start_soon(sup.create, "slow")
        session = await only_session(sup)

        receipt = await session.send("hello")
        slow.report_start()
        await trio.testing.wait_all_tasks_blocked()

        assert receipt.status == "queued"
        assert await phase_of(session) is Phase.RUNNING


async def test_a_clean_exit_of_an_idle_agent_completes_the_session() -> None:
    slow = SlowStartAgent()
    slow.waits = False
    async with supervisor.open(agents=[slow]) as sup:
        session = await sup.create("slow")

        slow.leave()
        info = await session.wait_stopped()

    assert (info.stop_reason, info.badge, info.last_failure) == ("completed", "stopped", None)


async def test_an_agent_that_exits_during_a_turn_has_crashed() -> None:
    slow = SlowStartAgent()
    slow.waits = False
    async with supervisor.open(agents=[slow]) as sup:
        session = await sup.create("slow", restart=NEVER)
        await session.send("hello")

        slow.leave()
        info = await session.wait_stopped()

    assert (info.stop_reason, info.badge) == ("agent_crashed", "failed")


async def test_an_agent_that_crashes_while_idle_is_restarted() -> None:
    slow = SlowStartAgent()
    slow.waits = False
    async with supervisor.open(agents=[slow]) as sup:
        session = await sup.create("slow")

        slow.leave(Failure("process_exit", "killed"))
        await trio.testing.wait_all_tasks_blocked()
        before = await session.info()
        await trio.sleep(1.0)

        assert (before.phase, before.badge) == (Phase.RESTARTING, "restarting")
        assert await phase_of(session) is Phase.IDLE
