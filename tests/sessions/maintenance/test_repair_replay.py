"""What lies in the file: looked at, closed where it was left open, told as it was at any time."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Info,
    Phase,
    RecordNotFound,
    RepairRefused,
    RepairReport,
    Session,
    SessionNotFound,
    Settings,
    Supervisor,
)
from supervisor.core.fold import replay
from tests.support.fake_agents import FakeAgent, records
from tests.support.store_samples import differences


def damage(path: Path, statement: str, *values: object) -> None:
    """Change the file outside of the supervisor."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


async def rest(sup: Supervisor) -> Session:
    """A session with two turns behind it, one of them with a tool, which is over."""
    session = await sup.create("scripted")
    await session.prompt("say hello\ntool bash 1\nsay done")
    await session.prompt("say again")
    await session.stop()
    return session


async def damaged(path: Path, statement: str) -> str:
    """A file with one session that is over, of which something is wrong; gives its id."""
    async with supervisor.open(path) as sup:
        session = await rest(sup)
    damage(path, statement, session.id)
    return session.id


async def row_is_what_records_give(sup: Supervisor, session: Session) -> None:
    stored = await sup._services.store.read(session.id)
    assert stored is not None
    assert differences(stored.row, replay(await records(session))) == []


def codes(report: RepairReport) -> set[str]:
    return {problem.code for problem in report.problems}


# Whole -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("force", [True, False])
async def test_repair_leaves_an_intact_session_unchanged(
    sup: Supervisor, *, dry_run: bool, force: bool
) -> None:
    session = await rest(sup)
    before = await session.info()

    report = await session.repair(dry_run=dry_run, force=force)

    assert (report.session_id, report.dry_run) == (session.id, dry_run)
    assert (report.problems, report.appended) == ((), ())
    assert await session.info() == before
    assert (await session.prompt("say still here")).text == "still here"


async def test_suspended_and_archived_sessions_can_be_repaired(sup: Supervisor) -> None:
    asleep, archived = await sup.create("echo"), await rest(sup)
    await asleep.prompt("hello")
    await archived.archive()
    await trio.sleep(1_000.0)

    assert (await asleep.info()).phase is Phase.SUSPENDED
    for session in (asleep, archived):
        assert (await session.repair(dry_run=False)).problems == ()
    assert (await asleep.prompt("still here")).text == "still here"


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("force", [True, False])
async def test_a_session_at_work_is_not_touched(
    sup: Supervisor, fake_agent: FakeAgent, *, dry_run: bool, force: bool
) -> None:
    session = await sup.create("fake")
    await session.send("first")
    run = await fake_agent.next_run()

    with pytest.raises(RepairRefused) as refused:
        await session.repair(dry_run=dry_run, force=force)

    assert "stop" in refused.value.hint
    run.finish("done")
    await settle()
    assert [one.text for one in await session.transcript()] == ["first", "done"]


async def test_a_resume_during_a_repair_is_serialized_with_it(sup: Supervisor) -> None:
    session = await rest(sup)
    heard: list[str] = []

    async def repair() -> None:
        with contextlib.suppress(RepairRefused):
            await session.repair(dry_run=False)

    async def prompt() -> None:
        heard.append((await session.prompt("say hello")).text)

    async with trio.open_nursery() as nursery:
        for work in (repair, prompt, repair, repair):
            nursery.start_soon(work)

    assert heard == ["hello"]
    await session.stop()
    await row_is_what_records_give(sup, session)


# Damaged ---------------------------------------------------------------------------------

DAMAGE = {
    "gap": "DELETE FROM records WHERE session_id = ? AND seq = 5",
    "bad_json": "UPDATE records SET body = '{' WHERE session_id = ? AND seq = 5",
    "type_mismatch": "UPDATE records SET kind = 'nonsense' WHERE session_id = ? AND seq = 5",
    "regression": ("UPDATE records SET seq = seq + 100 WHERE session_id = ? AND seq = 3"),
}


@pytest.mark.parametrize("code", DAMAGE)
async def test_damage_is_reported_and_a_dry_run_writes_nothing(path: Path, code: str) -> None:
    damaged_id = await damaged(path, DAMAGE[code])
    async with supervisor.open(path) as sup:
        session = sup.session(damaged_id)
        before = (
            await sup._services.store.raw_records(session.id),
            await sup._services.store.read(session.id),
        )

        report = await session.repair()

        assert codes(report) & {code, "gap"}
        assert any(problem.severity == "error" for problem in report.problems)
        after = (
            await sup._services.store.raw_records(session.id),
            await sup._services.store.read(session.id),
        )
        assert after == before


@pytest.mark.parametrize("code", DAMAGE)
async def test_an_unrepairable_problem_is_refused_without_force(path: Path, code: str) -> None:
    damaged_id = await damaged(path, DAMAGE[code])
    async with supervisor.open(path) as sup:
        session = sup.session(damaged_id)
        before = await sup._services.store.raw_records(session.id)

        with pytest.raises(RepairRefused) as refused:
            await session.repair(dry_run=False)
        report = await session.repair(dry_run=False, force=True)

        assert "force" in refused.value.hint
        assert report.problems
        after = await sup._services.store.raw_records(session.id)
        assert after[: len(before)] == before


async def test_damage_of_one_session_affects_no_other(path: Path) -> None:
    async with supervisor.open(path) as sup:
        sick, well = await rest(sup), await rest(sup)
    damage(path, DAMAGE["bad_json"], sick.id)

    async with supervisor.open(path) as sup:
        assert len((await sup.list()).items) == 2
        assert (await sup.session(well.id).prompt("say hello")).text == "hello"
        assert await sup.session(well.id).export("jsonl")


async def test_an_unreadable_row_affects_no_other_session(path: Path) -> None:
    async with supervisor.open(path) as sup:
        sick, well = await rest(sup), await rest(sup)
    damage(path, "UPDATE sessions SET row = '{' WHERE id = ?", sick.id)

    async with supervisor.open(path) as sup:
        assert (await sup.session(well.id).prompt("say hello")).text == "hello"


# Left open -------------------------------------------------------------------------------


async def cut_off(path: Path, fake_agent: FakeAgent) -> str:
    """A file whose last session is over by its row, in the middle of a turn by its records."""
    async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        await run.do(run.turn.say("half"))
        await run.open_call("bash")
        await trio.sleep(1.0)
        last = (await session.info()).last_seq
        fake_agent.finish_open_runs()
        await session.stop()
    damage(path, "DELETE FROM records WHERE session_id = ? AND seq > ?", session.id, last)
    return session.id


async def test_repair_closes_an_open_turn_once(path: Path, fake_agent: FakeAgent) -> None:
    cut = await cut_off(path, fake_agent)
    async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
        session = sup.session(cut)
        found = await session.repair()
        assert codes(found) >= {"dangling_tool_call", "missing_terminal"}

        report = await session.repair(dry_run=False, force=True)

        assert [one.kind for one in report.appended] == ["tool_ended", "turn_ended"]
        assert report.appended[-1].body["outcome"] == "lost"
        assert (await records(session))[-2:] == list(report.appended)
        again = await session.repair(dry_run=False, force=True)
        assert again.appended == ()
        assert codes(again) <= {"type_mismatch"}


async def test_a_dry_run_reports_the_records_to_append(path: Path, fake_agent: FakeAgent) -> None:
    cut = await cut_off(path, fake_agent)
    async with supervisor.open(path, agents=[fake_agent.agent]) as sup:
        session = sup.session(cut)
        before = await records(session)

        dry = await session.repair()

        assert await records(session) == before
        real = await session.repair(dry_run=False, force=True)
        assert [one.kind for one in dry.appended] == [one.kind for one in real.appended]


async def test_a_repaired_session_continues(path: Path, fake_agent: FakeAgent) -> None:
    cut = await cut_off(path, fake_agent)
    again = FakeAgent("fake")
    async with supervisor.open(path, agents=[again.agent]) as sup:
        session = sup.session(cut)
        await session.repair(dry_run=False, force=True)

        receipt = await session.send("and now?")
        run = await again.next_run()
        assert [one.text for one in run.turn.history] == ["first", "half"]
        run.finish("fine")
        assert (await session.result(receipt.input_id)).text == "fine"


# Replaying -------------------------------------------------------------------------------


def timeless(info: Info) -> dict[str, Any]:
    """Return the fields that a session's own records determine; children and usage are not."""
    known = attrs.asdict(info, recurse=False)
    return {name: value for name, value in known.items() if name not in ("children", "spent")}


@pytest.mark.parametrize("every", [1, 3, 200])
async def test_replay_returns_the_state_at_every_record_number(path: Path, every: int) -> None:
    async with supervisor.open(path, settings=Settings(snapshot_every=every)) as sup:
        session = await rest(sup)
        known = await records(session)

        for at in range(1, len(known) + 1):
            row = replay(known[:at])
            assert row is not None
            told = await session.replay(at)
            assert (told.phase, told.turns, told.messages) == (row.phase, row.turns, row.messages)
            assert (told.last_seq, told.tool_calls) == (at, row.tool_calls)

        assert timeless(await session.replay(len(known))) == timeless(await session.info())


async def test_replay_equals_the_info_of_that_time(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", tags=["x"])
    seen: list[Info] = [await session.info()]
    await session.send("first")
    run = await fake_agent.next_run()
    seen.append(await session.info())
    await session.send("second")
    seen.append(await session.info())
    run.finish("done")
    await fake_agent.next_run()
    seen.append(await session.info())
    fake_agent.finish_open_runs()
    await session.set(title="another", tags=[])
    await session.stop()
    seen.append(await session.info())

    told = [await session.replay(info.last_seq) for info in seen]

    assert [timeless(info) for info in told] == [timeless(info) for info in seen]


@pytest.mark.parametrize("at", [0, -1, 1_000, 2**63, 10**400])
async def test_replay_of_an_unknown_record_number_is_not_found(sup: Supervisor, at: int) -> None:
    session = await rest(sup)

    with pytest.raises(RecordNotFound) as missing:
        await session.replay(at)

    assert missing.value.hint


async def test_the_replay_of_a_missing_session_is_not_found(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound):
        await sup.session("s_unknown_1").replay(1)


async def test_replaying_over_a_gap_raises_a_typed_error(path: Path) -> None:
    damaged_id = await damaged(path, DAMAGE["gap"])
    async with supervisor.open(path) as sup:
        session = sup.session(damaged_id)

        assert (await session.replay(4)).last_seq == 4
        with pytest.raises(RecordNotFound) as missing:
            await session.replay(6)

    assert "repair" in missing.value.hint


async def test_replaying_changes_nothing(sup: Supervisor) -> None:
    session = await rest(sup)
    before = await session.info(), await records(session)

    for at in (1, 5, 2):
        await session.replay(at)

    assert (await session.info(), await records(session)) == before
