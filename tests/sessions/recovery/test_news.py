"""What parents had not heard of their children before a kill they hear after it, once."""

from pathlib import Path

import pytest

from actors.testing import settle
from supervisor import Settings
from tests.sessions.cast import Player, Scene, records
from tests.sessions.family.kin import ends
from tests.sessions.lives import NEVER

from .lives import Program, kind_is, make_busy


async def test_a_parent_hears_that_its_child_has_crashed_with_the_supervisor(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", restart=NEVER)
        await kid.next_scene()

    async with program.life() as sup:
        await settle()
        [ended] = await ends(sup.session(parent.id))
        assert (ended.body["child"], ended.body["reason"]) == (child.id, "agent_crashed")


async def test_an_end_that_the_parent_had_not_heard_of_is_told_once(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand")
        await kid.next_scene()
        program.begin(program.die_before, kind_is("child_ended"))
        program.begin(child.stop)
        await program.store.dead.wait()

    for _ in range(3):
        async with program.life() as sup:
            await settle()
            [ended] = await ends(sup.session(parent.id))
            assert (ended.body["child"], ended.body["reason"]) == (child.id, "user_cancelled")


async def test_an_end_that_the_parent_had_heard_of_is_not_told_again(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand")
        await kid.next_scene()
        await child.stop()
        await settle()
        heard = await records(parent, "child_started", "child_ended")

    async with program.life() as sup:
        await settle()
        assert await records(sup.session(parent.id), "child_started", "child_ended") == heard


async def test_a_copy_of_the_parent_has_not_heard_it_in_its_place(
    program: Program, kid: Player, tmp_path: Path
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand", restart=NEVER)
        await kid.next_scene()
        await child.stop()
        await settle()
        (tmp_path / "copy.jsonl").write_text(await parent.export("jsonl"))
        await sup.import_(tmp_path / "copy.jsonl")
        await child.resume()
        await child.send("another")
        await kid.next_scene()

    async with program.life() as sup:
        await settle()
        reasons = [end.body["reason"] for end in await ends(sup.session(parent.id))]
        assert reasons == ["user_cancelled", "agent_crashed"]


async def test_an_errand_done_that_the_parent_had_not_heard_of_is_told_once(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        await parent.spawn("kid", "errand")
        scene = await kid.next_scene()
        program.begin(program.die_before, kind_is("child_ended"))
        await settle()
        scene.finish("the answer")
        await program.store.dead.wait()

    for _ in range(3):
        async with program.life() as sup:
            await settle()
            [done] = await records(sup.session(parent.id), "child_ended")
            assert (done.body["outcome"], done.body["text"]) == ("completed", "the answer")
            assert done.body["reason"] is None


async def test_a_return_that_the_parent_had_not_heard_of_is_told(
    program: Program, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand")
        await kid.next_scene()
        await child.stop()
        await settle()
        program.begin(program.die_before, kind_is("child_started", "child_ended"))
        await settle()
        program.begin(child.resume)
        await program.store.dead.wait()

    async with program.life() as sup:
        await settle()
        told = await records(sup.session(parent.id), "child_started")
        assert [one.body["resumed"] for one in told] == [False, True]


async def test_a_second_end_that_the_parent_had_not_heard_of_is_told(
    program: Program, kid: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand")
        await kid.next_scene()
        await child.stop()
        await settle()
        # As if the parent were too slow to write anything before the kill.
        monkeypatch.setattr(sup._house.desk.bell, "call", lambda _: None)
        await child.resume()
        await child.stop()
        assert len(await ends(parent)) == 1

    async with program.life() as sup:
        await settle()
        assert len(await ends(sup.session(parent.id))) == 2


async def test_an_end_and_a_return_of_which_the_parent_had_heard_nothing_are_told_in_order(
    program: Program, kid: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        child = await parent.spawn("kid", "errand")
        await kid.next_scene()
        monkeypatch.setattr(sup._house.desk.bell, "call", lambda _: None)
        await child.stop()
        await child.resume()
        assert await ends(parent) == []

    async with program.life() as sup:
        await settle()
        _, ended, back = await records(sup.session(parent.id), "child_started", "child_ended")
        assert (ended.kind, ended.body["reason"]) == ("child_ended", "user_cancelled")
        assert (back.kind, back.body["resumed"]) == ("child_started", True)


async def test_an_end_wakes_a_parent_that_wanted_to_be_woken_once(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        await parent.spawn("kid", "errand", on_end="wake")
        scene = await kid.next_scene()
        program.begin(program.die_before, kind_is("child_ended"))
        await settle()
        scene.finish("the answer")
        await program.store.dead.wait()

    async with program.life() as sup:
        [text] = await player.play_all()
        assert "the answer" in text
    async with program.life() as sup:
        assert await player.play_all() == []


async def test_a_wake_that_was_accepted_and_has_not_begun_runs_after_the_start(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life(settings=Settings(max_running_turns=2)) as sup:
        parent = await sup.create("player")
        await parent.spawn("kid", "errand", on_end="wake")
        scene = await kid.next_scene()
        busy = await make_busy(sup, player)
        scene.finish("the answer")
        await settle()
        assert len(await records(parent, "child_ended")) == 1
        del busy

    async with program.life() as sup:
        played = await player.play_all()
        assert len([text for text in played if "the answer" in text]) <= 1
        assert (await sup.session(parent.id).info()).queued == 0


async def test_news_that_an_agent_had_not_read_it_reads_after_a_restart(
    program: Program, player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        parent = await sup.create("player")
        await parent.spawn("kid", "errand")
        (await kid.next_scene()).finish("the answer")
        await settle()

    async with program.life() as sup:
        await sup.session(parent.id).send("what is new?")
        scene: Scene = await player.next_scene()
        assert [one.kind for one in scene.turn.news()] == ["child_started", "child_ended"]
