"""Chains and cycles of waiting sessions, and waits that are over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    InputRefused,
    Session,
    Supervisor,
    Turn,
)
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.waiting_agents import ActingAgent, PromptChain, SlowExitAgent, ids, sole_wait

# Chains ---------------------------------------------------------------------------------


async def test_a_chain_of_three_waits_ends_at_the_blocking_session(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    below = await fake_agent.next_run()
    grandchild = await below.do(below.turn.spawn("fake", "errand"))
    below.begin(grandchild.wait())
    lowest = await fake_agent.next_run()
    lowest.begin(lowest.turn.ask("may I?", tool="bash"))
    await settle()
    why = await session.why()

    assert ids(why) == [session.id, child.id, grandchild.id]
    assert [one.waits_for for one in why.chain] == ["child", "child", "person"]
    assert (why.waits_for, why.cycle) == ("person", ())
    assert ids(await sup.session(child.id).why()) == [child.id, grandchild.id]


async def test_a_chain_leads_through_sessions_of_other_trees(
    sup: Supervisor, prompt_chain: PromptChain
) -> None:
    one, two, three = await prompt_chain.create_sessions(sup)
    await one.send("line")
    await settle()
    why = await one.why()

    assert ids(why) == [one.id, two.id, three.id]
    assert why.waits_for == "model"


async def test_a_spawn_waits_for_the_child_while_its_agent_starts(
    sup: Supervisor, session: Session, run: AgentRun, slow: SlowExitAgent
) -> None:
    slow.waits = True
    run.begin(run.turn.spawn("slow", "errand"))
    await trio.sleep(7.0)
    why = await session.why()

    assert [one.waits_for for one in why.chain] == ["child", "start"]
    slow.report_start()


@pytest.mark.parametrize("way", ["wait", "prompt", "result", "wait_stopped"])
async def test_every_way_of_awaiting_another_session_is_reported(
    sup: Supervisor, session: Session, acting_agent: ActingAgent, way: str
) -> None:
    other = await session.spawn("fake", "errand")
    receipt = await other.send("more")
    actions: dict[str, Callable[[Turn], Awaitable[object]]] = {
        "wait": lambda _: other.wait(),
        "prompt": lambda _: other.prompt("x"),
        "result": lambda _: other.result(receipt.input_id),
        "wait_stopped": lambda _: other.wait_stopped(),
    }
    waiting = await acting_agent.begin(sup, actions[way])

    assert ids(await waiting.why()) == [waiting.id, other.id]


async def test_an_agent_awaiting_two_sessions_waits_for_the_unfinished_session(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    first = await run.do(run.turn.spawn("fake", "one"))
    second = await run.do(run.turn.spawn("fake", "two"))
    run.begin(first.wait())
    await settle()
    action = run.begin(second.wait())
    await fake_agent.next_run()
    (await fake_agent.next_run()).finish()
    await action.wait()

    assert ids(await session.why()) == [session.id, first.id]


# Circles --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
async def test_sessions_that_wait_for_each_other_are_named(count: int) -> None:
    prompt_chain = PromptChain(count)
    async with supervisor.open(agents=prompt_chain.agents) as sup:
        circle = [session.id for session in await prompt_chain.create_sessions(sup)]
        await prompt_chain.sessions[0].send("round")
        await settle()
        for place, session in enumerate(prompt_chain.sessions):
            why = await session.why()
            turned = circle[place:] + circle[:place]
            assert (ids(why), list(why.cycle), why.waits_for) == (turned, turned, "cycle")
        await prompt_chain.sessions[0].stop()


async def test_a_session_waiting_for_a_cycle_is_not_part_of_it(
    sup: Supervisor, prompt_chain: PromptChain, acting_agent: ActingAgent
) -> None:
    one, two, three = await prompt_chain.create_sessions(sup)
    await one.send("round")
    await settle()
    waiting = await acting_agent.begin(sup, lambda _: two.prompt("and me"))
    why = await waiting.why()

    assert ids(why) == [waiting.id, two.id, three.id, one.id]
    assert list(why.cycle) == [two.id, three.id, one.id]
    await one.stop()


async def test_a_cycle_ends_when_one_member_ends(
    sup: Supervisor, prompt_chain: PromptChain
) -> None:
    circle = await prompt_chain.create_sessions(sup)
    await circle[0].send("round")
    await settle()
    await circle[0].interrupt(queued="cancel")
    await settle()

    for session in circle:
        waits_for, _, seconds = await sole_wait(session)
        assert (waits_for, seconds) == ("input", 0.0)


@pytest.mark.parametrize("way", ["prompt", "result", "wait", "wait_stopped"])
async def test_no_session_waits_for_itself(
    sup: Supervisor, session: Session, acting_agent: ActingAgent, way: str
) -> None:
    refusals: list[InputRefused] = []

    async def wait_for_oneself(turn: Turn) -> None:
        own = sup.session(turn.session_id)
        given: dict[str, list[str]] = {"prompt": ["x"], "result": [turn.input_id]}
        try:
            await getattr(own, way)(*given.get(way, []))
        except InputRefused as refusal:
            refusals.append(refusal)
        await trio.sleep(10.0)

    acting_agent.action = wait_for_oneself
    child = await session.spawn("insider", "errand")
    await settle()

    assert refusals[0].hint
    assert (await sole_wait(child))[0] == "model"


# Nothing stale --------------------------------------------------------------------------


async def test_a_wait_that_is_over_is_forgotten(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    action = run.begin(child.wait())
    await trio.sleep(50.0)
    (await fake_agent.next_run()).finish("done")
    await action.wait()
    await trio.sleep(7.0)

    assert await sole_wait(session) == ("model", None, 7.0)


async def test_a_cancelled_wait_is_forgotten(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))

    async def impatient() -> None:
        with trio.move_on_after(5.0):
            await child.wait()

    await run.do(impatient())

    assert (await sole_wait(session))[0] == "model"


async def test_a_wait_for_a_deleted_session_is_forgotten(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    action = run.begin(child.wait())
    await settle()
    await sup.delete(child.id)
    assert (await action.wait()).outcome == "interrupted"

    assert (await sole_wait(session))[0] == "model"


async def test_the_waits_of_an_interrupted_turn_are_forgotten(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    run.begin(child.wait())
    await settle()
    await session.interrupt(replace_with="again")
    await settle()

    assert (await sole_wait(session))[0] == "model"


async def test_a_users_wait_does_not_make_the_session_wait(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    other = await sup.create("fake")
    nursery.start_soon(other.prompt, "go")
    await settle()

    assert (await sole_wait(session))[0] == "input"
