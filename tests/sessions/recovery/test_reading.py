"""Who asked in the life before may ask again in the next, and goes on reading where they were."""

import pytest

from actors.testing import settle
from supervisor import PermissionConflict, PermissionNotFound
from tests.sessions.cast import Follow, Player, last_seq, numbers
from tests.sessions.lives import texts_of

from .lives import Program


async def test_the_result_of_a_lost_turn_says_that_it_was_lost(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        receipt = await session.send("first")
        await player.next_scene()

    async with program.life() as sup:
        result = await sup.session(session.id).result(receipt.input_id)
        assert (result.outcome, result.turn_id) == ("lost", receipt.turn_id)
        assert result.error


async def test_the_result_of_a_turn_that_ended_is_the_same(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        receipt = await session.send("first")
        (await player.next_scene()).finish("done")
        before = await session.result(receipt.input_id)

    async with program.life() as sup:
        assert await sup.session(session.id).result(receipt.input_id) == before


async def test_a_prompt_that_is_repeated_has_its_first_result(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first", idempotency_key="k")
        await player.next_scene()

    async with program.life() as sup:
        result = await sup.session(session.id).prompt("first", idempotency_key="k")
        assert result.outcome == "lost"
        assert len(player.scenes) == 1


async def test_the_wait_for_a_child_of_the_life_before_is_answered(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand")
        (await kid.next_scene()).finish("the answer")
        await settle()

    async with program.life() as sup:
        assert (await sup.session(child.id).wait()).text == "the answer"


async def test_who_watches_on_sees_each_record_once(
    program: Program, player: Player, follow: Follow
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await player.next_scene()
        seen = await last_seq(session)

    async with program.life() as sup:
        again = sup.session(session.id)
        items = await follow(again, after=seen)
        await again.append("user", "more")
        await settle()
        assert numbers(items) == list(range(seen + 1, await last_seq(again) + 1))


async def test_positions_of_everything_go_on(program: Program) -> None:
    async with program.life() as sup:
        await sup.create("player")
        await settle()
        before = await sup._house.store.all_records()

    async with program.life() as sup:
        await sup.create("player")
        await settle()
        after = await sup._house.store.all_records()
        assert after[: len(before)] == before
        assert [position for position, _ in after] == list(range(1, len(after) + 1))


async def test_a_request_of_the_life_before_cannot_be_answered_any_more(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        scene.begin(scene.turn.ask("may I?", tool="bash"))
        await settle()
        [request] = await sup.permissions()

    async with program.life() as sup:
        with pytest.raises((PermissionConflict, PermissionNotFound)):
            await sup.answer(request.id, "allow_once")


async def test_an_agent_that_is_back_has_the_whole_conversation_for_its_history(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        (await player.next_scene()).finish("one")
        await settle()
        await session.send("second")
        await player.next_scene()

    async with program.life() as sup:
        again = sup.session(session.id)
        await again.send("third")
        scene = await player.next_scene()
        told = [message.text for message in scene.turn.history]
        assert told[:3] == ["first", "one", "second"]
        assert (await texts_of(again))[:3] == told[:3]
