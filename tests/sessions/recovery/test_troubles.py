"""A recovery in trouble: killed half way, run again, unable to write, or without an agent."""

import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import AgentUnknown, Record, StoreDegraded, StoreLocked, Supervisor
from supervisor.core.ids import SessionId
from tests.sessions.cast import Player, records, waiting_texts
from tests.sessions.family.kin import refuse_false_books
from tests.sessions.lives import NEVER, phase_of

from .lives import Program, refuse_false_rows


async def make_a_mess(program: Program, sup: Supervisor, player: Player, kid: Player) -> None:
    """Sessions in many phases, below one another."""
    idle = await sup.create("player")
    crashed = await sup.create("player", restart=NEVER)
    again = await sup.create("player")
    for one in (crashed, again):
        await one.send("first")
        await one.send("second")
        await player.next_scene()
        for lifetime in ("with_parent", "detached"):
            await one.spawn("kid", "errand", lifetime=lifetime, on_end="wake")
    await idle.spawn("kid", "errand", ttl_seconds=30.0)
    stopping = await sup.create("deaf")
    await stopping.send("first")
    program.begin(stopping.stop)
    await settle()


def essence(found: list[Record]) -> list[tuple[Any, ...]]:
    """All that is said but when, by whom it was claimed and under which new ids."""
    return [
        (one.kind, {key: value for key, value in one.body.items() if key != "epoch"})
        for one in found
        if one.kind != "session_changed"
    ]


async def everything(sup: Supervisor) -> dict[SessionId, list[tuple[Any, ...]]]:
    store = sup._house.store
    return {one.row.id: essence(await store.records(one.row.id)) async for one in store.rows()}


async def phases(sup: Supervisor) -> dict[str, str]:
    return {info.id: str(info.phase) for info in (await sup.list(limit=100)).items}


async def test_a_recovery_that_ran_twice_has_done_nothing_the_second_time(
    program: Program, player: Player, deaf_player: Player, kid: Player
) -> None:
    async with program.life() as sup:
        await make_a_mess(program, sup, player, kid)
    async with program.life(away_seconds=100.0) as sup:
        await player.play_all()
        await kid.play_all()
        await trio.sleep(5.0)
        before, stood = await everything(sup), await phases(sup)

    async with program.life() as sup:
        await settle()
        rested = {one: "suspended" if phase == "idle" else phase for one, phase in stood.items()}
        assert await phases(sup) == rested
        after = await everything(sup)
        for session_id, said in before.items():
            rest = [kind for kind, _ in after[session_id][len(said) :]]
            assert set(rest) <= {"session_suspended"}


async def what_comes_of_it(program: Program, *players: Player) -> dict[str, tuple[Any, ...]]:
    """All sessions when everybody has done what they were to do after the restart."""
    async with program.life() as sup:
        for player in players:
            await player.play_all()
        await refuse_false_rows(sup)
        await refuse_false_books(sup)
        infos = (await sup.list(limit=100)).items
        return {
            info.id: (info.phase, info.stop_reason, info.turns, info.queued, info.restarts)
            for info in infos
        }


@pytest.mark.parametrize("kept", range(0, 36, 3))
async def test_a_recovery_that_was_killed_half_way_comes_to_the_same(
    program: Program, player: Player, deaf_player: Player, kid: Player, kept: int
) -> None:
    async with program.life() as sup:
        await make_a_mess(program, sup, player, kid)
    other = program.path.with_name("other.db")
    shutil.copy(program.path, other)
    twin = Program(other, *program.players)

    await program.die_in_recovery(records=kept)

    assert await what_comes_of_it(program, player, kid) == await what_comes_of_it(twin, player, kid)


async def test_a_recovery_that_cannot_write_opens_read_only(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.append("user", "remember me")
        await session.send("first")
        await player.next_scene()

    async with program.life(full=True) as sup:
        again = sup.session(session.id)
        assert "remember me" in [one.text for one in await again.transcript()]
        assert [info.id for info in (await sup.list()).items] == [session.id]
        await sup.tree()
        await sup.stats()
        for write in (again.send("x"), sup.create("player"), again.set(title="x"), again.resume()):
            with pytest.raises(StoreDegraded):
                await write


async def test_a_recovery_that_cannot_write_starts_nothing_even_when_the_disk_is_well_again(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await session.send("second")
        await player.next_scene()

    async with program.life(full=True) as sup:
        program.store.is_full = False
        await trio.sleep(60.0)
        with pytest.raises(StoreDegraded):
            await sup.session(session.id).send("x")
        assert await player.play_all() == []
    async with program.life() as sup:
        assert await player.play_all() == ["second"]


async def test_a_recovery_that_cannot_write_leaves_the_file_as_it_was(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player", restart=NEVER)
        await session.send("first")
        await player.next_scene()
        before = await everything(sup)

    async with program.life(full=True, away_seconds=500.0) as sup:
        assert await everything(sup) == before
    async with program.life() as sup:
        [ended] = await records(sup.session(session.id), "turn_ended")
        assert ended.body["outcome"] == "lost"


async def test_leaving_a_supervisor_that_could_not_recover_takes_no_time(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await player.next_scene()
    async with program.life(full=True):
        began = trio.current_time()
    assert trio.current_time() - began < 30.0


async def test_a_session_whose_agent_is_no_longer_given_is_kept_and_says_why(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
        await session.send("first")
        await session.send("second")
        await player.next_scene()

    async with program.life(agents=[]) as sup:
        info = await sup.session(session.id).wait_stopped()
        assert info.last_failure is not None
        assert "player" in info.last_failure.detail
        assert await waiting_texts(sup.session(session.id)) == ["second"]
    async with program.life() as sup:
        await sup.session(session.id).resume()
        assert await player.play_all() == ["second"]


async def test_a_suspended_session_whose_agent_is_no_longer_given_is_kept_until_it_is_wanted(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        session = await sup.create("player")
    async with program.life(agents=[]) as sup:
        again = sup.session(session.id)
        assert await phase_of(again) == "suspended"
        with pytest.raises(AgentUnknown):
            await again.prompt("hello")
        assert await phase_of(again) == "suspended"

    async with program.life() as sup:
        await sup.session(session.id).send("hello")
        assert await player.play_all() == ["hello"]


async def test_a_second_supervisor_is_refused_while_the_first_lives(program: Program) -> None:
    async with program.life():
        with pytest.raises(StoreLocked):
            async with supervisor.open(program.path):
                pass

    async with program.life() as sup:
        assert (await sup.stats()).sessions == 0


async def test_a_row_that_cannot_be_read_keeps_nobody_else_from_their_sessions(
    program: Program, player: Player
) -> None:
    async with program.life() as sup:
        damaged, other = await sup.create("player"), await sup.create("player")
    with closing(sqlite3.connect(program.path, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET row = '{}' WHERE id = ?", (damaged.id,))

    async with program.life() as sup:
        await sup.session(other.id).send("hello")
        assert await player.play_all() == ["hello"]
