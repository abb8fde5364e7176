"""Trees after a kill: who ends with whom, who goes on, and who has a place."""

import trio

from actors.testing import settle
from supervisor import Limits, Restart, Settings
from tests.sessions.cast import Player
from tests.sessions.family.kin import WIDE, ends, order_of_ends, refuse_false_books
from tests.sessions.lives import NEVER, phase_of

from .lives import Program, kind_is, make_busy

ALWAYS = Restart(policy="always", backoff_seconds=0.0)


async def test_children_of_a_session_that_crashed_are_stopped_children_first(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await make_busy(sup, player)
        children = [await parent.spawn("kid", "errand", restart=ALWAYS) for _ in range(2)]
        below = await children[0].spawn("kid", "errand", restart=ALWAYS)

    async with program.life() as sup:
        for one in (*children, below):
            assert (await sup.session(one.id).info()).stop_reason == "parent_stopped"
        first, second = children
        assert await order_of_ends(sup) == [second.id, below.id, first.id, parent.id]


async def test_twelve_children_made_at_one_instant_end_the_youngest_first(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life(settings=Settings(limits=WIDE)) as sup:
        parent = await make_busy(sup, player)
        children = [await parent.spawn("kid", "errand") for _ in range(12)]

    async with program.life() as sup:
        youngest_first = [child.id for child in reversed(children)]
        assert await order_of_ends(sup) == [*youngest_first, parent.id]


async def test_detached_children_go_on(program: Program, player: Player, kid: Player) -> None:
    async with program.life() as sup:
        parent = await make_busy(sup, player)
        child = await parent.spawn("kid", "errand", lifetime="detached", restart=ALWAYS)

    async with program.life() as sup:
        await settle()
        assert await phase_of(sup.session(parent.id)) == "stopped"
        assert await phase_of(sup.session(child.id)) == "idle"
        await refuse_false_books(sup)


async def test_a_child_that_never_got_written_is_not_there(program: Program, kid: Player) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        program.begin(program.die_before, kind_is("child_started"))
        await settle()
        program.begin(parent.spawn, "kid", "errand")
        await program.store.dead.wait()

    async with program.life() as sup:
        assert [info.id for info in (await sup.list()).items] == [parent.id]
        await refuse_false_books(sup)


async def test_a_child_that_was_written_and_not_started_has_failed_to_start(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        program.begin(program.die_before, kind_is("session_started"))
        await settle()
        program.begin(parent.spawn, "kid", "errand")
        await program.store.dead.wait()

    async with program.life() as sup:
        await settle()
        [ended] = await ends(sup.session(parent.id))
        assert ended.body["reason"] == "start_failed"


async def test_a_child_that_waits_for_a_place_gets_the_one_there_is_after_a_restart(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player", limits=Limits(max_children=1))
        sleeper = await parent.spawn("kid", "one", suspend_after_seconds=1.0)
        (await kid.next_scene()).finish()
        await trio.sleep(5.0)
        await parent.spawn("kid", "two", restart=NEVER)
        await kid.next_scene()
        await sleeper.send("three")
        assert await phase_of(sleeper) == "suspended"

    async with program.life() as sup:
        assert await kid.play_all() == ["three"]
        await refuse_false_books(sup)


async def test_a_child_that_waits_for_a_place_waits_on_if_its_sibling_is_back(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player", limits=Limits(max_children=1))
        sleeper = await parent.spawn("kid", "one", suspend_after_seconds=1.0)
        (await kid.next_scene()).finish()
        await trio.sleep(5.0)
        await parent.spawn("kid", "two", restart=ALWAYS)
        await kid.next_scene()
        await sleeper.send("three")

    async with program.life() as sup:
        await settle()
        infos = (await sup.list(parent=parent.id)).items
        assert sorted(info.phase for info in infos) == ["idle", "suspended"]
        assert (await sup.session(sleeper.id).info()).queued == 1
        await refuse_false_books(sup)
