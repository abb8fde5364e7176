"""Trees after a kill: which sessions stop, which continue, and which hold a child slot."""

import trio

from actors.testing import settle
from supervisor import Limits, Restart, Settings
from tests.support.fake_agents import FakeAgent
from tests.support.killed_program import Program, kind_is, make_busy
from tests.support.session_states import NEVER, phase_of
from tests.support.tree_queries import WIDE, check_tree_counts, ends, order_of_ends

ALWAYS = Restart(policy="always", backoff_seconds=0.0)


async def test_children_of_a_session_that_crashed_are_stopped_children_first(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await make_busy(sup, fake_agent)
        children = [await parent.spawn("child-agent", "errand", restart=ALWAYS) for _ in range(2)]
        below = await children[0].spawn("child-agent", "errand", restart=ALWAYS)

    async with program.running() as sup:
        for one in (*children, below):
            assert (await sup.session(one.id).info()).stop_reason == "parent_stopped"
        first, second = children
        assert await order_of_ends(sup) == [second.id, below.id, first.id, parent.id]


async def test_twelve_children_created_at_once_stop_youngest_first(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running(settings=Settings(limits=WIDE)) as sup:
        parent = await make_busy(sup, fake_agent)
        children = [await parent.spawn("child-agent", "errand") for _ in range(12)]

    async with program.running() as sup:
        youngest_first = [child.id for child in reversed(children)]
        assert await order_of_ends(sup) == [*youngest_first, parent.id]


async def test_detached_children_go_on(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await make_busy(sup, fake_agent)
        child = await parent.spawn("child-agent", "errand", lifetime="detached", restart=ALWAYS)

    async with program.running() as sup:
        await settle()
        assert await phase_of(sup.session(parent.id)) == "stopped"
        assert await phase_of(sup.session(child.id)) == "idle"
        await check_tree_counts(sup)


async def test_an_uncommitted_child_does_not_exist_after_a_restart(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        program.begin(program.kill_before, kind_is("child_started"))
        await settle()
        program.begin(parent.spawn, "child-agent", "errand")
        await program.store.killed.wait()

    async with program.running() as sup:
        assert [info.id for info in (await sup.list()).items] == [parent.id]
        await check_tree_counts(sup)


async def test_a_child_that_was_written_and_not_started_has_failed_to_start(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        program.begin(program.kill_before, kind_is("session_started"))
        await settle()
        program.begin(parent.spawn, "child-agent", "errand")
        await program.store.killed.wait()

    async with program.running() as sup:
        await settle()
        [ended] = await ends(sup.session(parent.id))
        assert ended.body["reason"] == "start_failed"


async def test_a_child_waiting_for_a_slot_gets_it_after_a_restart(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake", limits=Limits(max_children=1))
        sleeper = await parent.spawn("child-agent", "one", suspend_after_seconds=1.0)
        (await child_agent.next_run()).finish()
        await trio.sleep(5.0)
        await parent.spawn("child-agent", "two", restart=NEVER)
        await child_agent.next_run()
        await sleeper.send("three")
        assert await phase_of(sleeper) == "suspended"

    async with program.running() as sup:
        assert await child_agent.finish_all() == ["three"]
        await check_tree_counts(sup)


async def test_a_child_waits_on_for_a_slot_when_its_sibling_is_recovered(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake", limits=Limits(max_children=1))
        sleeper = await parent.spawn("child-agent", "one", suspend_after_seconds=1.0)
        (await child_agent.next_run()).finish()
        await trio.sleep(5.0)
        await parent.spawn("child-agent", "two", restart=ALWAYS)
        await child_agent.next_run()
        await sleeper.send("three")

    async with program.running() as sup:
        await settle()
        infos = (await sup.list(parent=parent.id)).items
        assert sorted(info.phase for info in infos) == ["idle", "suspended"]
        assert (await sup.session(sleeper.id).info()).queued == 1
        await check_tree_counts(sup)
