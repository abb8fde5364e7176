"""What everybody has spent, and how many they have had, is counted after a kill as before."""

import pytest

from actors.testing import settle
from supervisor import Limits, Restart, SpawnRefused, Spending, Supervisor, SupervisorError
from tests.sessions.cast import Player, records
from tests.sessions.family.kin import ledger_of, refuse_false_books
from tests.sessions.lives import NEVER, phase_of

from .lives import Program, refuse_false_rows


def books(sup: Supervisor, *ids: str) -> list[tuple[int, int, Spending]]:
    """Of each: live descendants, spawns ever, and what it and all below it have spent."""
    members = [ledger_of(sup).find(one) for one in ids]  # type: ignore[arg-type]
    return [(one.descendants, one.spawns, one.spent) for one in members if one is not None]


async def test_the_desk_counts_after_a_restart_as_it_did_before(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        root = await sup.create("player", limits=Limits(tokens=1_000))
        child = await root.spawn("kid", "errand")
        below = await child.spawn("kid", "errand")
        for _ in range(2):
            scene = await kid.next_scene()
            scene.turn.usage(input_tokens=10, output_tokens=5, cost=0.5)
            scene.finish()
            await settle()
        ids = (root.id, child.id, below.id)
        before = books(sup, *ids)

    async with program.life() as sup:
        assert books(sup, *ids) == before
        await refuse_false_books(sup)


async def test_what_deleted_children_spent_is_still_spent(program: Program, kid: Player) -> None:
    async with program.life() as sup:
        root = await sup.create("player", limits=Limits(tokens=20, max_spawns=2))
        for _ in range(2):
            child = await root.spawn("kid", "errand")
            scene = await kid.next_scene()
            scene.turn.usage(output_tokens=10)
            scene.finish()
            await settle()
            await sup.delete(child.id)
        before = books(sup, root.id)

    async with program.life() as sup:
        assert books(sup, root.id) == before
        with pytest.raises(SpawnRefused):
            await sup.session(root.id).spawn("kid", "one too many")


async def test_a_child_and_its_parent_deleted_at_once_are_still_paid_for(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        root = await sup.create("player", limits=Limits(tokens=1_000))
        parent = await root.spawn("kid", "errand")
        child = await parent.spawn("kid", "errand", lifetime="detached")
        for _ in range(2):
            scene = await kid.next_scene()
            scene.turn.usage(output_tokens=10)
            scene.finish()
        await settle()
        program.begin(sup.delete, child.id)
        program.begin(sup.delete, parent.id)
        await settle()
        before = books(sup, root.id)

    async with program.life() as sup:
        assert books(sup, root.id) == before


async def test_the_time_in_which_nobody_was_there_is_not_spent(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        limits = Limits(wall_seconds=60.0)
        session = await sup.create("player", limits=limits, restart=Restart(policy="always"))
        await session.send("first")
        await player.next_scene()

    async with program.life(away_seconds=5_000.0) as sup:
        await settle()
        assert await phase_of(sup.session(session.id)) == "idle"
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["seconds"] < 60.0


async def test_a_budget_that_is_spent_stays_spent(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player", limits=Limits(tokens=10))
        await session.send("first")
        scene = await player.next_scene()
        scene.turn.usage(output_tokens=11)
        await session.wait_stopped()

    async with program.life() as sup:
        again = sup.session(session.id)
        assert (await again.info()).stop_reason == "budget_exceeded"
        with pytest.raises(SupervisorError):
            await again.resume()
        await again.set(limits=Limits(tokens=100))
        await again.resume()
        assert await phase_of(again) == "idle"


async def test_usage_of_a_lost_turn_that_was_written_counts(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player", limits=Limits(tokens=100), restart=NEVER)
        await session.send("first")
        scene = await player.next_scene()
        scene.turn.usage(output_tokens=7)
        await settle()
        spent = (await session.info()).usage

    async with program.life() as sup:
        assert (await sup.session(session.id).info()).usage == spent
        await refuse_false_rows(sup)
