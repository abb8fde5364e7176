"""A recovery in trouble: killed half way, run again, unable to write, or without an agent."""

import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import AgentUnknown, Record, StoreDegraded, StoreLocked, Supervisor
from supervisor.core.ids import SessionId
from supervisor.core.state import Phase
from tests.support.fake_agents import FakeAgent, records, waiting_texts
from tests.support.killed_program import Program, check_rows
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import check_tree_counts


async def make_a_mess(
    program: Program, sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    """Sessions in many phases, below one another."""
    idle = await sup.create("fake")
    crashed = await sup.create("fake", restart=NEVER)
    again = await sup.create("fake")
    for one in (crashed, again):
        await one.send("first")
        await one.send("second")
        await fake_agent.next_run()
        for lifetime in ("with_parent", "detached"):
            await one.spawn("child-agent", "errand", lifetime=lifetime, on_end="wake")
    await idle.spawn("child-agent", "errand", ttl_seconds=30.0)
    stopping = await sup.create("shielded")
    await stopping.send("first")
    program.begin(stopping.stop)
    await settle()


def essence(found: list[Record]) -> list[tuple[Any, ...]]:
    """Return the records without times, claims and new ids."""
    return [
        (one.kind, {key: value for key, value in one.body.items() if key != "epoch"})
        for one in found
        if one.kind != "session_changed"
    ]


async def everything(sup: Supervisor) -> dict[SessionId, list[tuple[Any, ...]]]:
    store = sup._services.store
    return {one.row.id: essence(await store.records(one.row.id)) async for one in store.rows()}


async def phases(sup: Supervisor) -> dict[str, str]:
    return {info.id: str(info.phase) for info in (await sup.list(limit=100)).items}


async def test_a_second_recovery_changes_nothing(
    program: Program, fake_agent: FakeAgent, shielded_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        await make_a_mess(program, sup, fake_agent, child_agent)
    async with program.running(downtime_seconds=100.0) as sup:
        await fake_agent.finish_all()
        await child_agent.finish_all()
        await trio.sleep(5.0)
        before, stood = await everything(sup), await phases(sup)

    async with program.running() as sup:
        await settle()
        rested = {one: "suspended" if phase == "idle" else phase for one, phase in stood.items()}
        assert await phases(sup) == rested
        after = await everything(sup)
        for session_id, said in before.items():
            rest = [kind for kind, _ in after[session_id][len(said) :]]
            assert set(rest) <= {"session_suspended"}


async def what_comes_of_it(program: Program, *fake_agents: FakeAgent) -> dict[str, tuple[Any, ...]]:
    """Return all sessions once the work after the restart is done."""
    async with program.running() as sup:
        for fake_agent in fake_agents:
            await fake_agent.finish_all()
        await check_rows(sup)
        await check_tree_counts(sup)
        infos = (await sup.list(limit=100)).items
        return {
            info.id: (info.phase, info.stop_reason, info.turns, info.queued, info.restarts)
            for info in infos
        }


@pytest.mark.parametrize("kept", range(0, 36, 3))
async def test_a_recovery_killed_half_way_ends_the_same(
    program: Program,
    fake_agent: FakeAgent,
    shielded_agent: FakeAgent,
    child_agent: FakeAgent,
    kept: int,
) -> None:
    async with program.running() as sup:
        await make_a_mess(program, sup, fake_agent, child_agent)
    other = program.path.with_name("other.db")
    shutil.copy(program.path, other)
    twin = Program(other, *program.fake_agents)

    await program.kill_during_recovery(records=kept)

    assert await what_comes_of_it(program, fake_agent, child_agent) == await what_comes_of_it(
        twin, fake_agent, child_agent
    )


async def run_and_kill(program: Program, fake_agent: FakeAgent, **options: Any) -> SessionId:  # noqa: ANN401 - of `create`
    """Kill the program with a running turn and a queued input; return their session."""
    async with program.running() as sup:
        session = await sup.create("fake", **options)
        await session.append("user", "remember me")
        await session.send("first")
        await session.send("second")
        await fake_agent.next_run()
    return session.id


async def test_everything_but_reading_is_refused_until_recovery_is_written(
    program: Program, fake_agent: FakeAgent
) -> None:
    session_id = await run_and_kill(program, fake_agent)

    async with program.running(full=True) as sup:
        again = sup.session(session_id)
        assert "remember me" in [one.text for one in await again.transcript()]
        await sup.tree()
        state = (await sup.stats()).store
        assert (state.degraded, state.read_only) == (True, False)
        assert "not recovered yet" in (state.problem or "")
        for write in (
            again.send("x"),
            sup.create("fake"),
            again.set(title="x"),
            again.resume(),
            sup.delete(session_id),
            sup.cleanup(older_than_seconds=0.0),
        ):
            with pytest.raises(StoreDegraded, match="not recovered yet"):
                await write


@pytest.mark.parametrize(
    ("options", "shown"), [({}, "restarting"), ({"restart": NEVER}, "stopped")], ids=str
)
async def test_reads_show_the_outcome_of_an_unwritten_recovery(
    program: Program, fake_agent: FakeAgent, options: dict[str, Any], shown: Phase
) -> None:
    session_id = await run_and_kill(program, fake_agent, **options)

    async with program.running(full=True) as sup:
        info = await sup.session(session_id).info()
        assert (info.phase, info.turn_id) == (shown, None)
        assert [one.id for one in (await sup.list(phase=shown)).items] == [session_id]
        assert (await sup.list(phase="running")).items == ()
        assert (await sup.stats()).running_turns == 0


@pytest.mark.parametrize("written", [None, 0, 1, 3])
async def test_recovery_is_written_within_two_seconds_of_room(
    program: Program, fake_agent: FakeAgent, written: int | None
) -> None:
    session_id = await run_and_kill(program, fake_agent)

    async with program.running(full=True) as sup:
        await trio.sleep(60.0)
        assert await fake_agent.finish_all() == []
        program.store.is_full = False
        program.store.full_after = written
        await trio.sleep(2.0)
        if written is not None:  # there was too little room for all of it
            program.store.is_full, program.store.full_after = False, None
            await trio.sleep(2.0)

        assert not (await sup.stats()).store.degraded
        await trio.sleep(5.0)  # the session may have met the full disk too
        assert await fake_agent.finish_all() == ["second"]
        await sup.session(session_id).send("third")
        assert await fake_agent.finish_all() == ["third"]
        ended = await records(sup.session(session_id), "turn_ended")
        assert [one.body["outcome"] for one in ended] == ["lost", "completed", "completed"]
        await check_rows(sup)
        await check_tree_counts(sup)


async def test_a_stop_before_recovery_is_written_prevents_the_restart(
    program: Program, fake_agent: FakeAgent
) -> None:
    session_id = await run_and_kill(program, fake_agent)

    async with program.running(full=True) as sup:
        await sup.session(session_id).stop()
        program.store.is_full = False

        info = await sup.session(session_id).wait_stopped()
        assert info.stop_reason == "user_cancelled"
        assert await fake_agent.finish_all() == []


async def test_a_recovery_that_cannot_write_leaves_the_file_unchanged(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", restart=NEVER)
        await session.send("first")
        await fake_agent.next_run()
        before = await everything(sup)

    async with program.running(full=True, downtime_seconds=500.0) as sup:
        assert await everything(sup) == before
    async with program.running() as sup:
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["outcome"] == "lost"


async def test_leaving_a_supervisor_that_could_not_recover_takes_no_time(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        await fake_agent.next_run()
    async with program.running(full=True):
        began = trio.current_time()
    assert trio.current_time() - began < 30.0


async def test_a_session_with_a_removed_agent_is_kept_with_a_reason(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        await session.send("second")
        await fake_agent.next_run()

    async with program.running(agents=[]) as sup:
        info = await sup.session(session.id).wait_stopped()
        assert info.last_failure is not None
        assert "fake" in info.last_failure.detail
        assert await waiting_texts(sup.session(session.id)) == ["second"]
    async with program.running() as sup:
        await sup.session(session.id).resume()
        assert await fake_agent.finish_all() == ["second"]


async def test_a_suspended_session_with_a_removed_agent_is_kept(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
    async with program.running(agents=[]) as sup:
        again = sup.session(session.id)
        assert await phase_of(again) == "suspended"
        with pytest.raises(AgentUnknown):
            await again.prompt("hello")
        assert await phase_of(again) == "suspended"

    async with program.running() as sup:
        await sup.session(session.id).send("hello")
        assert await fake_agent.finish_all() == ["hello"]


async def test_a_second_supervisor_is_refused_while_the_first_runs(program: Program) -> None:
    async with program.running():
        with pytest.raises(StoreLocked):
            async with supervisor.open(program.path):
                pass

    async with program.running() as sup:
        assert (await sup.stats()).sessions == 0


async def test_a_damaged_row_does_not_block_other_sessions_at_start(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        damaged, other = await sup.create("fake"), await sup.create("fake")
    with closing(sqlite3.connect(program.path, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET row = '{}' WHERE id = ?", (damaged.id,))

    async with program.running() as sup:
        await sup.session(other.id).send("hello")
        assert await fake_agent.finish_all() == ["hello"]
