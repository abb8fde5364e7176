"""Those whose parent was deleted: what binds them and who counts them is so after a kill too."""

import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Settings, SpawnRefused, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.store.port import Stored
from tests.sessions.cast import Player, records
from tests.sessions.family.kin import WIDE, ledger_of, refuse_false_books
from tests.sessions.lives import phase_of

from .lives import Program


async def test_a_child_of_a_deleted_parent_cannot_come_back_after_a_restart(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        root = await sup.create("player")
        parent = await root.spawn("kid", "errand")
        child = await parent.spawn("kid", "errand")
        await sup.delete(parent.id)
        with pytest.raises(SpawnRefused):
            await child.resume()

    async with program.life() as sup:
        with pytest.raises(SpawnRefused):
            await sup.session(child.id).resume()


async def test_a_root_hears_nothing_of_the_children_of_a_child_that_was_deleted(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        root = await sup.create("player")
        parent = await root.spawn("kid", "errand")
        child = await parent.spawn("kid", "errand", lifetime="detached")
        await sup.delete(parent.id)
        await settle()
        heard = await records(root, "child_started", "child_ended")

    async with program.life() as sup:
        await sup.session(child.id).stop()
        await settle()
        assert await records(sup.session(root.id), "child_started", "child_ended") == heard
        assert (await sup.session(root.id).info()).children == ()


async def test_grandchildren_whose_parent_was_deleted_are_still_counted_by_their_root(
    program: Program, kid: Player
) -> None:
    limits = Limits(max_descendants=2, max_spawns=3)
    async with program.life() as sup:
        root = await sup.create("player", limits=limits)
        parent = await root.spawn("kid", "errand")
        await parent.spawn("kid", "errand", lifetime="detached")
        await sup.delete(parent.id)

    async with program.life() as sup:
        again = sup.session(root.id)
        await again.spawn("kid", "errand")
        with pytest.raises(SpawnRefused):
            await again.spawn("kid", "one too many")


async def test_a_spawn_below_one_that_is_deleted_while_its_row_is_read_leaves_nothing(
    program: Program, kid: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is read in a thread, and much may happen meanwhile."""
    async with program.life() as sup:
        root = await sup.create("player")
        parent = await root.spawn("kid", "errand", suspend_after_seconds=1.0)
        (await kid.next_scene()).finish()
        await trio.sleep(10.0)
        read, reads = program.store.read, iter("ab")

        async def read_slowly(session_id: SessionId) -> Stored | None:
            stored = await read(session_id)
            if session_id == parent.id and next(reads, None) == "b":
                await sup.delete(parent.id)
            return stored

        monkeypatch.setattr(program.store, "read", read_slowly)
        with pytest.raises(SupervisorError):
            await parent.spawn("kid", "too late")
        await settle()
        assert ledger_of(sup).find(parent.id) is None
        await refuse_false_books(sup)


async def test_whoever_is_left_of_a_line_still_counts_who_is_below_two_that_were_deleted(
    program: Program, kid: Player
) -> None:
    async with program.life(settings=Settings(limits=WIDE)) as sup:
        root = await sup.create("player")
        line = [root]
        for _ in range(3):
            line.append(await line[-1].spawn("kid", "errand"))
        below = await line[-1].spawn("kid", "errand", lifetime="detached")
        for one in reversed(line[2:]):
            await sup.delete(one.id)
        before = [ledger_of(sup).find(one.id) for one in line[:2]]
        counted = [(one.descendants, one.spawns) for one in before if one is not None]

    async with program.life(settings=Settings(limits=WIDE)) as sup:
        after = [ledger_of(sup).find(one.id) for one in line[:2]]
        assert [(one.descendants, one.spawns) for one in after if one is not None] == counted
        assert await phase_of(sup.session(below.id)) != "stopped"
