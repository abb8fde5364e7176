"""Leaving while the store is degraded is bounded, and says what was lost."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import Settings, Supervisor
from tests.sessions.cast import Player, records
from tests.sessions.degraded.frail import FrailStore, check_kept, make_known

# Patience for turns, their ladder and its margin, and what the writer is given to end.
BOUND_SECONDS = 10.0 + 5.0 + 5.0 + 10.0


async def leave_ill(
    store: FrailStore, player: Player, *, well_after_seconds: float | None = None
) -> tuple[Supervisor, float]:
    """Leave with a turn that was interrupted while the store was ill; gives how long that took."""
    async with trio.open_nursery() as nursery:
        async with supervisor.open(agents=[player.agent], settings=Settings()) as sup:
            session = await sup.create("player")
            await session.send("first")
            await player.next_scene()
            await make_known(store, sup)
            await session.interrupt()
            if well_after_seconds is not None:
                nursery.start_soon(_recover, store, well_after_seconds)
            began = trio.current_time()
        return sup, trio.current_time() - began


async def _recover(store: FrailStore, after_seconds: float) -> None:
    await trio.sleep(after_seconds)
    store.is_ill = False


async def test_leaving_is_bounded(store: FrailStore, player: Player) -> None:
    _, seconds = await leave_ill(store, player)

    assert seconds <= BOUND_SECONDS


async def test_leaving_says_what_was_lost(
    store: FrailStore, player: Player, caplog: pytest.LogCaptureFixture
) -> None:
    await leave_ill(store, player)

    said = [
        one.getMessage()
        for one in caplog.records
        if one.name == "supervisor" and "cannot be used" not in one.getMessage()
    ]
    assert any("written" in line or "lost" in line for line in said), said


async def test_a_store_that_gets_well_in_time_loses_nothing(
    store: FrailStore, player: Player
) -> None:
    sup, seconds = await leave_ill(store, player, well_after_seconds=3.0)

    assert seconds <= BOUND_SECONDS
    (stored,) = [one async for one in store.rows()]
    assert stored.row.phase == "suspended"
    await check_kept(store, sup.session(stored.row.id))


async def test_a_turn_that_runs_is_interrupted_and_the_block_is_left(
    store: FrailStore, player: Player
) -> None:
    async with supervisor.open(agents=[player.agent]) as sup:
        session = await sup.create("player")
        await session.send("first")
        scene = await player.next_scene()
        await make_known(store, sup)
        began = trio.current_time()

    assert scene.over.is_set()
    assert trio.current_time() - began <= BOUND_SECONDS


async def test_a_block_that_raises_is_left_at_once_enough(
    store: FrailStore, player: Player
) -> None:
    async def raise_inside() -> None:
        async with supervisor.open(agents=[player.agent]) as sup:
            session = await sup.create("player")
            await session.send("first")
            await player.next_scene()
            await make_known(store, sup)
            raise ZeroDivisionError

    began = trio.current_time()
    with pytest.raises(ZeroDivisionError):
        await raise_inside()

    assert trio.current_time() - began <= BOUND_SECONDS


async def test_whoever_waits_for_an_acknowledgement_hears_that_there_is_none(
    store: FrailStore, player: Player
) -> None:
    told: list[BaseException] = []
    async with trio.open_nursery() as outside:
        async with supervisor.open(agents=[player.agent]) as sup:
            session = await sup.create("player")
            await session.send("first")
            await player.next_scene()

            async def send() -> None:
                try:
                    await session.send("second")
                except supervisor.SupervisorError as error:
                    told.append(error)

            store.fall_ill()
            outside.start_soon(send)
            await settle()
        with trio.fail_after(1):
            await settle()

    assert [bool(getattr(error, "hint", "")) for error in told] == [True]


async def test_draining_is_bounded_too(store: FrailStore, player: Player) -> None:
    async with supervisor.open(agents=[player.agent]) as sup:
        session = await sup.create("player")
        await session.send("first")
        await player.next_scene()
        await make_known(store, sup)

        with trio.fail_after(BOUND_SECONDS):
            await sup.drain()

        await store.get_well()


async def test_what_was_lost_by_leaving_is_put_in_order_by_the_next_supervisor(
    store: FrailStore, player: Player
) -> None:
    await leave_ill(store, player)
    store.is_ill = False

    async with supervisor.open(agents=[player.agent]) as again:
        (info,) = (await again.list()).items
        session = again.session(info.id)
        await trio.sleep(5)  # it is started again, as after any other death
        outcome = (await records(session, "turn_ended"))[-1].body["outcome"]
        assert (outcome, (await session.info()).phase) == ("lost", "idle")
        await check_kept(store, session)
