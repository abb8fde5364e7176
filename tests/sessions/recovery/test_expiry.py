"""What ran out while nobody was there has run out: expiries come first."""

from actors.testing import settle
from supervisor import Restart
from tests.sessions.cast import Player, outcomes, records
from tests.sessions.family.kin import ends
from tests.sessions.lives import NEVER, phase_of

from .lives import Program


async def test_a_child_whose_time_passed_has_ended_for_that(program: Program, kid: Player) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", ttl_seconds=60.0)
        await kid.next_scene()

    async with program.life(away_seconds=100.0) as sup:
        info = await sup.session(child.id).info()
        assert (info.phase, info.stop_reason) == ("stopped", "ttl_expired")
        [ended] = await records(sup.session(child.id), "turn_ended")
        assert ended.body["outcome"] != "completed"


async def test_an_expiry_comes_before_a_restart(program: Program, kid: Player) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        again = Restart(policy="always")
        child = await parent.spawn("kid", "errand", ttl_seconds=60.0, restart=again)
        await kid.next_scene()

    async with program.life(away_seconds=100.0) as sup:
        await settle()
        assert await records(sup.session(child.id), "agent_restarting") == []
        [ended] = await ends(sup.session(parent.id))
        assert ended.body["reason"] == "ttl_expired"


async def test_a_turn_that_ran_when_nobody_was_there_to_expire_it_has_the_time_it_ran(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", ttl_seconds=60.0)
        await kid.next_scene()

    async with program.life(away_seconds=5_000.0) as sup:
        [ended] = await records(sup.session(child.id), "turn_ended")
        assert ended.body["seconds"] < 60.0


async def test_a_child_whose_time_has_not_passed_ends_when_it_has(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", ttl_seconds=60.0)
        (await kid.next_scene()).finish()
        await settle()

    async with program.life(away_seconds=30.0) as sup:
        again = sup.session(child.id)
        assert await phase_of(again) == "suspended"
        await again.wait_stopped()
        assert (await again.info()).stop_reason == "ttl_expired"


async def test_an_input_whose_time_passed_never_runs(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await player.next_scene()
        late = await session.send("late", ttl_seconds=60.0)
        early = await session.send("early")

    async with program.life(away_seconds=100.0) as sup:
        assert await player.play_all() == ["early"]
        found = await outcomes(sup.session(session.id))
        assert found[late.input_id] == ["expired"]
        assert found[early.input_id] == ["delivered"]


async def test_an_input_that_is_held_expires_in_time_after_a_restart(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player", restart=NEVER)
        await session.send("first")
        await player.next_scene()
        late = await session.send("late", ttl_seconds=60.0)

    async with program.life(away_seconds=100.0) as sup:
        await settle()
        assert (await outcomes(sup.session(session.id)))[late.input_id] == ["expired"]
        assert await phase_of(sup.session(session.id)) == "stopped"


async def test_a_clock_that_was_set_back_expires_nobody_early_and_breaks_nothing(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", ttl_seconds=60.0)
        (await kid.next_scene()).finish()
        await settle()

    async with program.life(away_seconds=-10_000.0) as sup:
        assert await phase_of(sup.session(child.id)) == "suspended"
        stamps = [one.at for one in await records(sup.session(child.id))]
        assert stamps == sorted(stamps)
