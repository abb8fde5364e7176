"""Children of deleted parents keep their lifetime, limits and budgets after a kill."""

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Settings, SpawnRefused, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.port import Stored
from tests.support.fake_agents import FakeAgent, records
from tests.support.killed_program import Program
from tests.support.session_states import phase_of
from tests.support.tree_queries import WIDE, check_tree_counts, tree_of


async def test_a_child_of_a_deleted_parent_cannot_come_back_after_a_restart(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        root = await sup.create("fake")
        parent = await root.spawn("child-agent", "errand")
        child = await parent.spawn("child-agent", "errand")
        await sup.delete(parent.id)
        with pytest.raises(SpawnRefused):
            await child.resume()

    async with program.running() as sup:
        with pytest.raises(SpawnRefused):
            await sup.session(child.id).resume()


async def test_a_root_is_not_notified_of_children_of_a_deleted_child(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        root = await sup.create("fake")
        parent = await root.spawn("child-agent", "errand")
        child = await parent.spawn("child-agent", "errand", lifetime="detached")
        await sup.delete(parent.id)
        await settle()
        heard = await records(root, "child_started", "child_ended")

    async with program.running() as sup:
        await sup.session(child.id).stop()
        await settle()
        assert await records(sup.session(root.id), "child_started", "child_ended") == heard
        assert (await sup.session(root.id).info()).children == ()


async def test_grandchildren_of_a_deleted_parent_count_for_the_root(
    program: Program, child_agent: FakeAgent
) -> None:
    limits = Limits(max_descendants=2, max_spawns=3)
    async with program.running() as sup:
        root = await sup.create("fake", limits=limits)
        parent = await root.spawn("child-agent", "errand")
        await parent.spawn("child-agent", "errand", lifetime="detached")
        await sup.delete(parent.id)

    async with program.running() as sup:
        again = sup.session(root.id)
        await again.spawn("child-agent", "errand")
        with pytest.raises(SpawnRefused):
            await again.spawn("child-agent", "one too many")


async def test_a_spawn_below_a_session_being_deleted_leaves_nothing(
    program: Program, child_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is read in a thread, and much may happen meanwhile."""
    async with program.running() as sup:
        root = await sup.create("fake")
        parent = await root.spawn("child-agent", "errand", suspend_after_seconds=1.0)
        (await child_agent.next_run()).finish()
        await trio.sleep(10.0)
        read, reads = program.store.read, iter("ab")

        async def read_slowly(session_id: SessionId) -> Stored | None:
            stored = await read(session_id)
            if session_id == parent.id and next(reads, None) == "b":
                await sup.delete(parent.id)
            return stored

        monkeypatch.setattr(program.store, "read", read_slowly)
        with pytest.raises(SupervisorError):
            await parent.spawn("child-agent", "too late")
        await settle()
        assert tree_of(sup).find(parent.id) is None
        await check_tree_counts(sup)


async def test_descendants_below_two_deleted_sessions_still_count_for_the_root(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running(settings=Settings(limits=WIDE)) as sup:
        root = await sup.create("fake")
        line = [root]
        for _ in range(3):
            line.append(await line[-1].spawn("child-agent", "errand"))
        below = await line[-1].spawn("child-agent", "errand", lifetime="detached")
        for one in reversed(line[2:]):
            await sup.delete(one.id)
        before = [tree_of(sup).find(one.id) for one in line[:2]]
        counted = [(one.descendant_count, one.spawns) for one in before if one is not None]

    async with program.running(settings=Settings(limits=WIDE)) as sup:
        after = [tree_of(sup).find(one.id) for one in line[:2]]
        assert [(one.descendant_count, one.spawns) for one in after if one is not None] == counted
        assert await phase_of(sup.session(below.id)) != "stopped"
