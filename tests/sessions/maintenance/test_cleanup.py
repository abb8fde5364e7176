"""Clearing up: what is over goes by age, count and size, in whole trees, and nothing else does."""

from __future__ import annotations

import pytest
import trio

from supervisor import CleanupReport, Phase, Session, SessionNotActive, Supervisor
from supervisor.core.errors import NotStorable
from supervisor.core.ids import SessionId
from tests.support.fake_agents import FakeAgent

HOUR = 3_600.0


async def over(sup: Supervisor, text: str | None = "hello", **options: object) -> Session:
    """A session that has said something and is stopped."""
    session = await sup.create("echo", **options)  # type: ignore[arg-type] # as in create
    if text is not None:
        await session.prompt(text)
    await session.stop()
    return session


async def ids(sup: Supervisor) -> set[str]:
    return {info.id for info in (await sup.list(limit=1_000)).items}


async def family(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> tuple[Session, Session]:
    """A parent at rest with one child, detached and at rest."""
    parent = await sup.create("fake")
    await parent.send("go")
    run = await fake_agent.next_run()
    child = await parent.spawn("child-agent", "help", lifetime="detached")
    (await child_agent.next_run()).finish("done")
    run.finish("done")
    await child.wait()
    return parent, child


# By what ---------------------------------------------------------------------------------


async def test_cleanup_without_rules_removes_only_empty_sessions(sup: Supervisor) -> None:
    said, empty = await over(sup), await over(sup, None)
    await trio.sleep(HOUR + 1.0)

    report = await sup.cleanup()

    assert report.deleted == {empty.id: "empty"}
    assert await ids(sup) == {said.id}


async def test_cleanup_keeps_an_empty_session_for_an_hour(sup: Supervisor) -> None:
    empty = await over(sup, None)
    await trio.sleep(HOUR - 1.0)

    assert (await sup.cleanup()).deleted == {}
    assert await ids(sup) == {empty.id}


async def test_a_forked_or_appended_session_is_not_empty(sup: Supervisor) -> None:
    fork = await (await over(sup)).fork()
    appended = await sup.create("echo")
    await appended.append("user", "a note")
    for one in (fork, appended):
        await one.stop()
    await trio.sleep(2 * HOUR)

    await sup.cleanup()

    assert {fork.id, appended.id} <= await ids(sup)


async def test_a_cleared_session_is_not_empty(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.clear()
    await session.stop()
    await trio.sleep(2 * HOUR)

    await sup.cleanup()

    assert await sup.exists(session.id)


async def test_cleanup_by_age_removes_inactive_trees(sup: Supervisor) -> None:
    old = await over(sup)
    await trio.sleep(100.0)
    new = await over(sup)

    report = await sup.cleanup(older_than_seconds=50.0)

    assert (report.deleted, report.failed) == ({old.id: "age"}, {})
    assert report.bytes > 0
    assert await ids(sup) == {new.id}


async def test_by_count_the_last_stay(sup: Supervisor) -> None:
    made = []
    for _ in range(4):
        made.append(await over(sup))
        await trio.sleep(1.0)

    await sup.cleanup(keep_last=2)

    assert await ids(sup) == {one.id for one in made[2:]}


async def test_by_size_the_oldest_go_first(sup: Supervisor) -> None:
    first = await over(sup, "x" * 20_000)
    await trio.sleep(1.0)
    second = await over(sup)

    report = await sup.cleanup(max_bytes=30_000)

    assert report.deleted == {first.id: "size"}
    assert report.bytes > 20_000
    assert await ids(sup) == {second.id}


async def test_cleanup_removes_archived_sessions(sup: Supervisor) -> None:
    session = await over(sup)
    await session.archive()
    await trio.sleep(10.0)

    await sup.cleanup(older_than_seconds=5.0)

    assert not await sup.exists(session.id)


# What never goes -------------------------------------------------------------------------


async def test_cleanup_never_removes_a_live_session(sup: Supervisor, fake_agent: FakeAgent) -> None:
    idle, busy = await sup.create("echo"), await sup.create("fake")
    await busy.send("work")
    await fake_agent.next_run()
    await trio.sleep(2 * HOUR)  # the idle one is asleep by now

    report = await sup.cleanup(older_than_seconds=0.0, keep_last=0, max_bytes=0)

    assert (report.deleted, report.failed) == ({}, {})
    assert (await idle.info()).phase is Phase.SUSPENDED
    assert (await busy.info()).phase is Phase.RUNNING


async def test_cleanup_keeps_a_tree_with_a_live_member(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent, child = await family(sup, fake_agent, child_agent)
    await parent.stop()
    await trio.sleep(10.0)

    assert (await sup.cleanup(older_than_seconds=5.0)).deleted == {}
    await child.stop()
    await trio.sleep(10.0)

    report = await sup.cleanup(older_than_seconds=5.0)
    assert list(report.deleted) == [child.id, parent.id]
    assert await ids(sup) == set()


async def test_an_input_that_is_held_is_not_thrown_away(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake")
    await session.send("first")
    run = await fake_agent.next_run()
    receipt = await session.send("second")
    run.fail(SystemExit("the agent is gone"))
    await trio.sleep(2 * HOUR)

    await sup.cleanup()

    assert await sup.exists(session.id), receipt


# Looking first ---------------------------------------------------------------------------


async def test_a_dry_run_reports_the_same_and_deletes_nothing(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    parent, child = await family(sup, fake_agent, child_agent)
    await child.stop()
    await parent.stop()
    await over(sup)
    await trio.sleep(10.0)
    before = await ids(sup)

    dry = await sup.cleanup(older_than_seconds=5.0, dry_run=True)
    assert await ids(sup) == before
    real = await sup.cleanup(older_than_seconds=5.0)

    assert dry.dry_run
    assert (dry.deleted, dry.bytes, dry.failed) == (real.deleted, real.bytes, real.failed)
    assert set(real.deleted) == before


async def test_a_second_cleanup_finds_nothing(sup: Supervisor) -> None:
    await over(sup)
    await trio.sleep(10.0)
    await sup.cleanup(older_than_seconds=5.0)

    assert await sup.cleanup(older_than_seconds=5.0) == CleanupReport(False, {}, 0, {})  # noqa: FBT003


async def test_two_at_once_do_not_disturb_each_other(sup: Supervisor) -> None:
    for _ in range(5):
        await over(sup)
    await trio.sleep(10.0)
    reports: list[CleanupReport] = []

    async def clean() -> None:
        reports.append(await sup.cleanup(older_than_seconds=5.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clean)
        nursery.start_soon(clean)

    assert await ids(sup) == set()
    assert [report.failed for report in reports] == [{}, {}]


# What happens meanwhile ------------------------------------------------------------------


async def test_a_session_resumed_after_planning_stays_and_is_not_reported(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, gone = await over(sup), await over(sup)
    await trio.sleep(10.0)
    stored = sup._parts.registry.stored
    resumed: list[str] = []

    async def stored_after(session_id: str) -> object:
        if session_id == back.id and not resumed:
            resumed.append(session_id)
            await back.resume()
        return await stored(session_id)  # type: ignore[arg-type]

    monkeypatch.setattr(sup._parts.registry, "stored", stored_after)
    report = await sup.cleanup(older_than_seconds=5.0)

    assert await ids(sup) == {back.id}
    assert set(report.deleted) == {gone.id}
    assert (await back.prompt("still here")).text == "still here"


async def test_a_failed_deletion_does_not_stop_the_cleanup(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, stuck, last = [await over(sup) for _ in range(3)]
    await trio.sleep(10.0)
    delete = sup._parts.deletion.delete

    async def fail(session_id: SessionId, *, only_if_stopped: bool) -> bool:
        if session_id == stuck.id:
            raise NotStorable("it is stuck", hint="pull")
        return await delete(session_id, only_if_stopped=only_if_stopped)

    monkeypatch.setattr(sup._parts.deletion, "delete", fail)
    report = await sup.cleanup(older_than_seconds=5.0)

    assert set(report.deleted) == {first.id, last.id}
    assert list(report.failed) == [stuck.id]
    assert "it is stuck" in report.failed[stuck.id]
    assert await ids(sup) == {stuck.id}


async def test_deletions_before_a_failure_are_reported(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = await family(sup, fake_agent, child_agent)
    await child.stop()
    await parent.stop()
    await trio.sleep(10.0)
    delete = sup._parts.deletion.delete

    async def fail(session_id: SessionId, *, only_if_stopped: bool) -> bool:
        if session_id == parent.id:
            raise NotStorable("it is stuck", hint="pull")
        return await delete(session_id, only_if_stopped=only_if_stopped)

    monkeypatch.setattr(sup._parts.deletion, "delete", fail)
    report = await sup.cleanup(older_than_seconds=5.0)

    assert set(report.deleted) == {child.id}
    assert list(report.failed) == [parent.id]


async def test_a_session_deleted_after_the_plan_is_not_a_failure(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await over(sup)
    await trio.sleep(10.0)
    sizes = sup._services.store.sizes

    async def sizes_before() -> object:
        found = await sizes()
        await sup.delete(session.id)
        return found

    monkeypatch.setattr(sup._services.store, "sizes", sizes_before)

    assert (await sup.cleanup(older_than_seconds=5.0)).failed == {}


async def test_a_deleted_session_leaves_no_row_in_any_table(sup: Supervisor) -> None:
    session = await over(sup, "xylophone", key="echo:irc:ann")
    await trio.sleep(10.0)

    await sup.cleanup(older_than_seconds=5.0)

    assert (await sup.search("xylophone")).items == ()
    assert (await sup.get_or_create("echo:irc:ann")).id != session.id
    assert (await sup.stats()).sessions == 1


@pytest.mark.parametrize("dry_run", [True, False])
async def test_no_cleanup_runs_after_leaving(sup: Supervisor, *, dry_run: bool) -> None:
    await sup.drain()
    sup._parts.registry.close()

    with pytest.raises(SessionNotActive):
        await sup.cleanup(dry_run=dry_run)
