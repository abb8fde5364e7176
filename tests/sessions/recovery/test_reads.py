"""Who asked in the life before may ask again in the next, and goes on reading where they were."""

import pytest

from actors.testing import settle
from supervisor import PermissionConflict, PermissionNotFound
from tests.support.fake_agents import FakeAgent, Follow, last_seq, numbers
from tests.support.killed_program import Program
from tests.support.session_states import texts_of


async def test_the_result_of_a_lost_turn_is_lost(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        receipt = await session.send("first")
        await fake_agent.next_run()

    async with program.running() as sup:
        result = await sup.session(session.id).result(receipt.input_id)
        assert (result.outcome, result.turn_id) == ("lost", receipt.turn_id)
        assert result.error


async def test_the_result_of_a_turn_that_ended_is_the_same(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        receipt = await session.send("first")
        (await fake_agent.next_run()).finish("done")
        before = await session.result(receipt.input_id)

    async with program.running() as sup:
        assert await sup.session(session.id).result(receipt.input_id) == before


async def test_a_prompt_that_is_repeated_has_its_first_result(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first", idempotency_key="k")
        await fake_agent.next_run()

    async with program.running() as sup:
        result = await sup.session(session.id).prompt("first", idempotency_key="k")
        assert result.outcome == "lost"
        assert len(fake_agent.runs) == 1


async def test_waiting_for_a_child_of_an_earlier_run_returns(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand")
        (await child_agent.next_run()).finish("the answer")
        await settle()

    async with program.running() as sup:
        assert (await sup.session(child.id).wait()).text == "the answer"


async def test_a_watcher_resuming_after_a_restart_sees_each_record_once(
    program: Program, fake_agent: FakeAgent, follow: Follow
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        await fake_agent.next_run()
        seen = await last_seq(session)

    async with program.running() as sup:
        again = sup.session(session.id)
        items = await follow(again, after=seen)
        await again.append("user", "more")
        await settle()
        assert numbers(items) == list(range(seen + 1, await last_seq(again) + 1))


async def test_global_positions_continue_after_a_restart(program: Program) -> None:
    async with program.running() as sup:
        await sup.create("fake")
        await settle()
        before = await sup._services.store.all_records()

    async with program.running() as sup:
        await sup.create("fake")
        await settle()
        after = await sup._services.store.all_records()
        assert after[: len(before)] == before
        assert [position for position, _ in after] == list(range(1, len(after) + 1))


async def test_a_permission_request_of_an_earlier_run_cannot_be_answered(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        run.begin(run.turn.ask("may I?", tool="bash"))
        await settle()
        [request] = await sup.permissions()

    async with program.running() as sup:
        with pytest.raises((PermissionConflict, PermissionNotFound)):
            await sup.answer(request.id, "allow_once")


async def test_a_restarted_agent_gets_the_whole_history(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        (await fake_agent.next_run()).finish("one")
        await settle()
        await session.send("second")
        await fake_agent.next_run()

    async with program.running() as sup:
        again = sup.session(session.id)
        await again.send("third")
        run = await fake_agent.next_run()
        told = [message.text for message in run.turn.history]
        assert told[:3] == ["first", "one", "second"]
        assert (await texts_of(again))[:3] == told[:3]
