"""An unreadable row is reported, rebuilt from its records or deleted; nothing is guessed."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Info,
    Limits,
    NotStorable,
    RepairRefused,
    Restart,
    Session,
    SessionNotFound,
    Settings,
    SpawnRefused,
    Supervisor,
)
from supervisor.offline import open_for_maintenance, open_for_reading
from tests.support.fake_agents import FakeAgent
from tests.support.killed_program import Program, check_rows, make_busy
from tests.support.session_states import NEVER

from .test_damage import damage

# How a row can be damaged, and what is said of it.
ROWS = {"{": "bad_json", "null": "type_mismatch", '{"id": "s_1"}': "type_mismatch"}
BREAK_ROW = "UPDATE sessions SET row = '{' WHERE id = ?"
BREAK_RECORD = "UPDATE records SET body = '{' WHERE session_id = ? AND seq = ?"


def traces(program: Program, session_id: str) -> list[str]:
    """What of the file still names the session, in any table."""
    with closing(sqlite3.connect(program.path)) as connection:
        return [line for line in connection.iterdump() if session_id in line]


async def told_and_stopped(sup: Supervisor, name: str | None = None) -> Session:
    session = await sup.create("echo", name=name)
    await session.prompt("hello")
    await session.stop()
    return session


# Seen ------------------------------------------------------------------------------------


async def test_a_damaged_row_is_listed_by_id(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    async with program.running() as sup:
        busy, whole = await sup.create("echo"), await sup.create("echo")
    damage(program, BREAK_ROW, busy.id)
    caplog.clear()

    async with program.running() as sup:
        assert busy.id in caplog.text
        stats = await sup.stats()
        assert (stats.damaged, stats.sessions) == ((busy.id,), 1)
        assert await sup.exists(busy.id)
        assert (await sup.get(whole.id)).id == whole.id
        with pytest.raises(NotStorable, match=busy.id) as unread:
            await (await sup.get(busy.id)).info()
        assert "repair" in unread.value.hint


@pytest.mark.parametrize("row", ROWS)
async def test_a_dry_run_reports_a_damaged_row_and_changes_nothing(
    program: Program, row: str
) -> None:
    async with program.running() as sup:
        session = await told_and_stopped(sup)
    damage(program, "UPDATE sessions SET row = ? WHERE id = ?", row, session.id)

    async with program.running() as sup:
        report = await sup.session(session.id).repair()

        (problem,) = report.problems
        assert (problem.code, problem.severity, problem.seq) == (ROWS[row], "warning", None)
        assert (report.dry_run, report.row_made, report.appended) == (True, True, ())
        assert (await sup.stats()).damaged == (session.id,)


async def test_a_row_with_the_state_of_another_session_is_damaged(program: Program) -> None:
    async with program.running() as sup:
        session, other = await told_and_stopped(sup), await told_and_stopped(sup)
    damage(
        program,
        "UPDATE sessions SET row = (SELECT row FROM sessions WHERE id = ?) WHERE id = ?",
        *(other.id, session.id),
    )

    async with program.running() as sup:
        assert [info.id for info in (await sup.list()).items] == [other.id]
        assert "another session" in (await sup.session(session.id).repair()).problems[0].detail
        await sup.session(session.id).repair(dry_run=False)
        assert (await sup.session(session.id).info()).id == session.id


async def test_the_key_of_a_damaged_row_stays_taken(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("echo", key="echo:here:me")
    damage(program, BREAK_ROW, session.id)

    async with program.running() as sup:
        assert (await sup.get_or_create("echo:here:me")).id == session.id
        with pytest.raises(NotStorable):
            await sup.new("echo:here:me")


async def test_an_archived_damaged_row_holds_no_key(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("echo", key="echo:here:me")
        await session.stop()
        await session.archive()
        another = await sup.create("echo", key="echo:here:me")
    damage(program, BREAK_ROW, session.id)

    async with program.running() as sup:
        await sup.session(session.id).repair(dry_run=False)

        assert (await sup.session(session.id).info()).archived
        assert (await sup.get_or_create("echo:here:me")).id == another.id


# Rebuilt ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
async def test_repair_rebuilds_a_row_from_its_records(program: Program, row: str) -> None:
    async with program.running() as sup:
        session = await told_and_stopped(sup, name="builder")
        before, records = await session.info(), await session.history()
    damage(program, "UPDATE sessions SET row = ? WHERE id = ?", row, session.id)

    async with program.running() as sup:
        again = sup.session(session.id)
        report = await again.repair(dry_run=False)

        assert (report.row_made, report.appended) == (True, ())
        assert await again.info() == before
        assert await again.history() == records
        assert (await again.repair()).problems == ()
        assert (await sup.stats()).damaged == ()
        assert (await again.prompt("and now?")).text == "and now?"


async def test_repair_rebuilds_a_row_offline(program: Program) -> None:
    async with program.running() as sup:
        session = await told_and_stopped(sup)
    damage(program, BREAK_ROW, session.id)

    async with open_for_reading(str(program.path)) as sup:
        assert (await sup.session(session.id).repair()).row_made
    async with open_for_maintenance(str(program.path), Settings()) as sup:
        assert (await sup.session(session.id).repair(dry_run=False)).row_made

        assert (await sup.session(session.id).info()).turns == 1


async def test_a_rebuilt_session_closes_its_turn_as_lost_and_runs_its_queue(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, Restart(policy="on_crash"))
        await session.send("second")
    damage(program, BREAK_ROW, session.id)

    async with program.running() as sup:
        report = await sup.session(session.id).repair(dry_run=False)

        assert "turn_ended" in [record.kind for record in report.appended]
        assert await fake_agent.finish_all() == ["second"]
        await trio.sleep(1.0)
        await check_rows(sup)


async def test_a_rebuilt_session_that_may_not_restart_is_stopped(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent, NEVER)
    damage(program, BREAK_ROW, session.id)

    async with program.running() as sup:
        await sup.session(session.id).repair(dry_run=False)

        info = await sup.session(session.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "agent_crashed")


async def test_a_rebuilt_idle_session_is_suspended_and_woken_by_its_queue(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("echo")
    damage(program, BREAK_ROW, session.id)

    async with program.running() as sup:
        again = sup.session(session.id)
        await again.repair(dry_run=False)
        assert (await again.info()).phase == "suspended"
        assert (await again.prompt("hello")).text == "hello"
        await trio.sleep(1.0)
        await check_rows(sup)


async def test_a_session_at_work_is_not_touched(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent)
        damage(program, BREAK_ROW, session.id)

        with pytest.raises(RepairRefused, match="is live"):
            await session.repair(dry_run=False, force=True)

        await session.send("second")  # which writes its row again
        assert (await sup.stats()).damaged == ()


async def test_a_rebuilt_session_takes_its_slot_again(program: Program) -> None:
    few = Settings(limits=Limits(max_children=1))
    async with program.running(settings=few) as sup:
        parent = await sup.create("echo")
        child = await parent.spawn("echo", "errand", lifetime="detached")
        await child.prompt("and more")
    damage(program, BREAK_ROW, child.id)

    async with program.running(settings=few) as sup:
        again = sup.session(child.id)
        await again.repair(dry_run=False)
        await again.prompt("hello")
        with pytest.raises(SpawnRefused, match="child"):
            await sup.session(parent.id).spawn("echo", "another")
        await again.stop()
        await sup.session(parent.id).spawn("echo", "another")


async def test_a_rebuilt_parent_has_its_children_again(program: Program) -> None:
    few = Settings(limits=Limits(max_children=1))
    async with program.running(settings=few) as sup:
        parent = await sup.create("echo")
        child = await parent.spawn("echo", "errand", lifetime="detached")
    damage(program, BREAK_ROW, parent.id)

    async with program.running(settings=few) as sup:
        again = sup.session(parent.id)
        await again.repair(dry_run=False)
        await sup.session(child.id).prompt("hello")
        assert (await again.info()).children == (child.id,)
        with pytest.raises(SpawnRefused, match="child"):
            await again.spawn("echo", "another")


async def test_a_rebuilt_child_of_a_stopped_parent_is_stopped(
    program: Program,
) -> None:
    async with program.running() as sup:
        parent = await sup.create("echo")
        child = await parent.spawn("echo", "errand")
        await settle()
    damage(program, BREAK_ROW, child.id)

    async with program.running() as sup:
        await sup.session(parent.id).stop()
        await sup.session(child.id).repair(dry_run=False)

        await sup.session(child.id).wait_stopped()
        assert (await sup.session(child.id).info()).stop_reason == "parent_stopped"


# Not whole -------------------------------------------------------------------------------


async def test_no_row_is_rebuilt_from_incomplete_records(program: Program) -> None:
    async with program.running() as sup:
        session = await told_and_stopped(sup)
    damage(program, BREAK_ROW, session.id)
    damage(program, BREAK_RECORD, session.id, 3)

    async with program.running() as sup:
        again = sup.session(session.id)
        report = await again.repair()
        assert [(one.severity, one.seq) for one in report.problems] == [
            ("error", 3),
            ("error", None),
        ]
        assert not report.row_made
        for force in (False, True):
            with pytest.raises(RepairRefused) as refused:
                await again.repair(dry_run=False, force=force)
            assert "delete" in refused.value.hint
        assert (await sup.stats()).damaged == (session.id,)


async def snapshotted(program: Program) -> tuple[Session, Info]:
    async with program.running(settings=Settings(snapshot_every=10)) as sup:
        session = await sup.create("echo")
        for word in ("one", "two", "three"):
            await session.prompt(word)
        await session.stop()
        return session, await session.info()


async def test_a_snapshot_replaces_damaged_records_before_it(program: Program) -> None:
    session, before = await snapshotted(program)
    damage(program, BREAK_ROW, session.id)
    damage(program, BREAK_RECORD, session.id, 3)

    async with program.running() as sup:
        again = sup.session(session.id)
        with pytest.raises(RepairRefused, match="errors"):
            await again.repair(dry_run=False)
        assert (await again.repair(dry_run=False, force=True)).row_made
        assert await again.info() == before


@pytest.mark.parametrize(
    "action",
    [
        "UPDATE records SET body = '{' WHERE session_id = ? AND seq IN (3, {last})",
        "DELETE FROM records WHERE session_id = ? AND seq BETWEEN 3 AND {last} - 1",
        "DELETE FROM records WHERE session_id = ? AND seq > 3",
    ],
)
async def test_a_snapshot_does_not_replace_damaged_records_after_it(
    program: Program, action: str
) -> None:
    session, before = await snapshotted(program)
    damage(program, BREAK_ROW, session.id)
    damage(program, BREAK_RECORD, session.id, 2)
    damage(program, action.replace("{last}", str(before.last_seq)), session.id)

    async with program.running() as sup:
        with pytest.raises(RepairRefused):
            await sup.session(session.id).repair(dry_run=False, force=True)


async def test_a_snapshot_that_cannot_be_read_is_passed_over(program: Program) -> None:
    session, before = await snapshotted(program)
    damage(program, "UPDATE snapshots SET row = '{' WHERE session_id = ?", session.id)
    damage(program, BREAK_ROW, session.id)

    async with program.running() as sup:
        again = sup.session(session.id)
        await again.repair(dry_run=False)
        assert await again.info() == before
        assert (await again.replay(at=before.last_seq)).turns == before.turns


# Deleted ---------------------------------------------------------------------------------


@pytest.mark.parametrize("records_too", [False, True])
@pytest.mark.parametrize("stopped", [False, True])
async def test_deleting_a_damaged_session_removes_all_its_data(
    program: Program, *, records_too: bool, stopped: bool
) -> None:
    async with program.running() as sup:
        session = await sup.create("echo", key="echo:here:me")
        await session.prompt("hello")
        if stopped:
            await session.stop()
    damage(program, BREAK_ROW, session.id)
    if records_too:
        damage(program, BREAK_RECORD, session.id, 3)

    async with program.running() as sup:
        await sup.delete(session.id)

        assert (await sup.list()).items == ()
        assert (await sup.stats()).damaged == ()
        with pytest.raises(SessionNotFound):
            await sup.delete(session.id)
        another = await sup.get_or_create("echo:here:me")
        assert another.id != session.id
    assert traces(program, session.id) == []


@pytest.mark.parametrize("records_too", [False, True])
async def test_a_parent_continues_when_an_unreadable_child_is_deleted(
    program: Program, *, records_too: bool
) -> None:
    few = Settings(limits=Limits(max_children=1))
    async with program.running(settings=few) as sup:
        parent = await sup.create("echo")
        child = await parent.spawn("echo", "errand")
        await settle()
    damage(program, BREAK_ROW, child.id)
    if records_too:
        damage(program, BREAK_RECORD, child.id, 3)

    async with program.running(settings=few) as sup:
        await sup.delete(child.id)

        again = sup.session(parent.id)
        await again.spawn("echo", "another")
        await trio.sleep(1.0)
        await check_rows(sup)
        if not records_too:  # then it had a proper end, of which its parent has heard
            ended = [one.body for turn in await again.history() for one in turn.records]
            assert any(one.get("reason") == "user_cancelled" for one in ended)


async def test_a_live_session_with_a_damaged_row_is_stopped_and_deleted(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await make_busy(sup, fake_agent)
        damage(program, BREAK_ROW, session.id)

        await sup.delete(session.id)

        assert not await sup.exists(session.id)
    assert traces(program, session.id) == []


async def test_a_just_stopped_session_with_a_damaged_row_is_deleted(program: Program) -> None:
    async with program.running() as sup:
        session = await told_and_stopped(sup)
        damage(program, BREAK_ROW, session.id)

        await sup.delete(session.id)
        await trio.sleep(5.0)

        assert not await sup.exists(session.id)


async def test_a_cleanup_deletes_no_damaged_session(program: Program) -> None:
    async with program.running() as sup:
        session = await told_and_stopped(sup)
    damage(program, BREAK_ROW, session.id)

    async with program.running(downtime_seconds=100_000.0) as sup:
        report = await sup.cleanup(older_than_seconds=1.0)

        assert (report.deleted, report.failed) == ({}, {})
        assert await sup.exists(session.id)
