"""Usage and spawn counts are the same after a kill as before."""

import pytest

from actors.testing import settle
from supervisor import Limits, Restart, SpawnRefused, Spending, Supervisor, SupervisorError
from tests.support.fake_agents import FakeAgent, records
from tests.support.killed_program import Program, check_rows
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import check_tree_counts, tree_of


def books(sup: Supervisor, *ids: str) -> list[tuple[int, int, Spending]]:
    """Of each: live descendants, spawns ever, and what it and all below it have spent."""
    members = [tree_of(sup).find(one) for one in ids]  # type: ignore[arg-type]
    return [(one.descendant_count, one.spawns, one.spent) for one in members if one is not None]


async def test_admission_counts_are_the_same_after_a_restart(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        root = await sup.create("fake", limits=Limits(tokens=1_000))
        child = await root.spawn("child-agent", "errand")
        below = await child.spawn("child-agent", "errand")
        for _ in range(2):
            run = await child_agent.next_run()
            run.turn.usage(input_tokens=10, output_tokens=5, cost=0.5)
            run.finish()
            await settle()
        ids = (root.id, child.id, below.id)
        before = books(sup, *ids)

    async with program.running() as sup:
        assert books(sup, *ids) == before
        await check_tree_counts(sup)


async def test_usage_of_deleted_children_survives_a_restart(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        root = await sup.create("fake", limits=Limits(tokens=20, max_spawns=2))
        for _ in range(2):
            child = await root.spawn("child-agent", "errand")
            run = await child_agent.next_run()
            run.turn.usage(output_tokens=10)
            run.finish()
            await settle()
            await sup.delete(child.id)
        before = books(sup, root.id)

    async with program.running() as sup:
        assert books(sup, root.id) == before
        with pytest.raises(SpawnRefused):
            await sup.session(root.id).spawn("child-agent", "one too many")


async def test_a_child_and_its_parent_deleted_at_once_are_still_paid_for(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        root = await sup.create("fake", limits=Limits(tokens=1_000))
        parent = await root.spawn("child-agent", "errand")
        child = await parent.spawn("child-agent", "errand", lifetime="detached")
        for _ in range(2):
            run = await child_agent.next_run()
            run.turn.usage(output_tokens=10)
            run.finish()
        await settle()
        program.begin(sup.delete, child.id)
        program.begin(sup.delete, parent.id)
        await settle()
        before = books(sup, root.id)

    async with program.running() as sup:
        assert books(sup, root.id) == before


async def test_downtime_does_not_count_as_wall_seconds(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        limits = Limits(wall_seconds=60.0)
        session = await sup.create("fake", limits=limits, restart=Restart(policy="always"))
        await session.send("first")
        await fake_agent.next_run()

    async with program.running(downtime_seconds=5_000.0) as sup:
        await settle()
        assert await phase_of(sup.session(session.id)) == "idle"
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["seconds"] < 60.0


async def test_a_budget_that_is_spent_stays_spent(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", limits=Limits(tokens=10))
        await session.send("first")
        run = await fake_agent.next_run()
        run.turn.usage(output_tokens=11)
        await session.wait_stopped()

    async with program.running() as sup:
        again = sup.session(session.id)
        assert (await again.info()).stop_reason == "budget_exceeded"
        with pytest.raises(SupervisorError):
            await again.resume()
        await again.set(limits=Limits(tokens=100))
        await again.resume()
        assert await phase_of(again) == "idle"


async def test_usage_of_a_lost_turn_that_was_written_counts(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", limits=Limits(tokens=100), restart=NEVER)
        await session.send("first")
        run = await fake_agent.next_run()
        run.turn.usage(output_tokens=7)
        await settle()
        spent = (await session.info()).usage

    async with program.running() as sup:
        assert (await sup.session(session.id).info()).usage == spent
        await check_rows(sup)
