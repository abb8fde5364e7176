"""What is remembered over a kill: keys, answers, rules, chapters, and who is gone."""

import random
from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import IdempotencyConflict, KeyTaken, Limits, SessionNotActive, SupervisorError
from tests.sessions.cast import Player, records
from tests.sessions.lives import phase_of, texts_of

from .lives import Program

KEY = "player:house:ann"


# Keys and answers ---------------------------------------------------------------------------


async def test_a_key_still_has_its_bearer(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player", key=KEY)
        await session.stop()

    async with program.life() as sup:
        assert await sup.get_or_create(KEY) == sup.session(session.id)
        with pytest.raises(KeyTaken):
            await sup.create("player", key=KEY)


async def test_the_key_of_an_archived_session_is_free(program: Program) -> None:
    async with program.life() as sup:
        old = await sup.create("player", key=KEY)
        new = await sup.new(KEY)

    async with program.life() as sup:
        assert (await sup.get_or_create(KEY)).id == new.id
        assert (await sup.session(old.id).info()).archived
        with pytest.raises(KeyTaken):
            await sup.session(old.id).unarchive()


async def test_an_archived_session_stays_archived(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.stop()
        await session.archive()

    async with program.life() as sup:
        info = await sup.session(session.id).info()
        assert (info.archived, info.phase) == (True, "stopped")
        with pytest.raises(SupervisorError):
            await sup.session(session.id).send("hello")


async def test_the_same_send_has_the_same_receipt(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        receipt = await session.send("first", idempotency_key="k")
        await player.next_scene()

    async with program.life() as sup:
        again = sup.session(session.id)
        assert await again.send("first", idempotency_key="k") == receipt
        with pytest.raises(IdempotencyConflict):
            await again.send("other", idempotency_key="k")
        assert len(await records(again, "input_accepted")) == 1


async def test_the_same_create_gives_the_same_session(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player", name="one", idempotency_key="k")

    async with program.life() as sup:
        assert (await sup.create("player", name="one", idempotency_key="k")).id == session.id
        with pytest.raises(IdempotencyConflict):
            await sup.create("player", name="two", idempotency_key="k")


async def test_the_same_spawn_gives_the_same_child(program: Program, kid: Player) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", idempotency_key="k")

    async with program.life() as sup:
        again = await sup.session(parent.id).spawn("kid", "errand", idempotency_key="k")
        assert again.id == child.id
        assert (await sup.stats()).sessions == 2


def test_a_program_that_seeds_chance_in_each_life_makes_other_names_in_each(
    tmp_path: Path,
) -> None:
    """In real time: where time is virtual, names are meant to be the same again."""

    async def live() -> tuple[str, str]:
        random.seed(42)
        async with supervisor.open(tmp_path / "state.db") as sup:
            session = await sup.create("echo")
            return session.id, (await session.send("hello")).input_id

    first, second = trio.run(live), trio.run(live)

    assert not set(first) & set(second)


# Rules, chapters, forks -----------------------------------------------------------------------


async def test_rules_of_permissions_survive(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        asked = scene.begin(scene.turn.ask("may I?", tool="bash"))
        await settle()
        [request] = await sup.permissions()
        await sup.answer(request.id, "allow_always")
        assert await asked.wait()
        rules = await session.rules()

    async with program.life() as sup:
        await settle()
        again = sup.session(session.id)
        assert await again.rules() == rules
        await again.send("second")
        scene = await player.next_scene()
        assert await scene.do(scene.turn.ask("may I again?", tool="bash"))


async def test_a_cleared_session_has_its_new_chapter_only(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.append("user", "old")
        await session.clear()
        await session.append("user", "new")

    async with program.life() as sup:
        assert await texts_of(sup.session(session.id)) == ["new"]
        await sup.session(session.id).send("go")
        scene = await player.next_scene()
        assert "old" not in [message.text for message in scene.turn.history]


async def test_a_fork_has_what_it_was_made_with(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.append("user", "shared")
        fork = await session.fork()
        await session.append("user", "mine")

    async with program.life() as sup:
        assert await texts_of(sup.session(fork.id)) == ["shared"]
        assert await phase_of(sup.session(fork.id)) == "suspended"


async def test_what_people_have_set_is_as_they_set_it(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player", name="n", workspace="/w")
        await session.set(title="t", tags=["a"], custom={"k": "v"}, limits=Limits(turns=3))
        before = await session.info()

    async with program.life() as sup:
        after = await sup.session(session.id).info()
        for field in ("name", "title", "tags", "custom", "workspace", "limits", "permissions"):
            assert getattr(after, field) == getattr(before, field), field


# Deleting and leaving -------------------------------------------------------------------------


async def test_a_deleted_session_is_not_there(program: Program) -> None:
    async with program.life() as sup:
        session = await sup.create("player", key=KEY, idempotency_key="k")
        await sup.delete(session.id)

    async with program.life() as sup:
        assert not await sup.exists(session.id)
        assert (await sup.create("player", key=KEY, idempotency_key="k")).id != session.id


async def test_a_delete_that_was_cut_short_has_stopped_the_session_and_may_be_repeated(
    program: Program, deaf_player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("deaf")
        await session.send("first")
        await deaf_player.next_scene()
        program.begin(sup.delete, session.id)
        await settle()

    async with program.life() as sup:
        assert await phase_of(sup.session(session.id)) == "stopped"
        await sup.delete(session.id)
        assert not await sup.exists(session.id)


async def test_a_replacement_is_made_wholly_or_not_at_all(program: Program) -> None:
    async with program.life() as sup:
        old = await sup.create("player", key=KEY)
        program.begin(program.die_before, lambda one: one.kind == "session_archived")
        await settle()
        program.begin(sup.new, KEY)
        await program.store.dead.wait()

    async with program.life() as sup:
        assert (await sup.get_or_create(KEY)).id == old.id
        assert (await sup.stats()).sessions == 1


async def test_who_left_in_peace_is_found_as_it_left(program: Program, player: Player) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        (await player.next_scene()).finish()
        await sup.drain()
        with pytest.raises(SessionNotActive):
            await session.send("second")

    async with program.life() as sup:
        assert await phase_of(sup.session(session.id)) == "suspended"
        assert [
            one.body["outcome"] for one in await records(sup.session(session.id), "turn_ended")
        ] == ["completed"]
