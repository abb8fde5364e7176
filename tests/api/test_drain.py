"""The drain state: its stages, and streams that end with it."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.api.drain import DrainState
from supervisor.http_server.problems import RequestRefused


async def hold_stream(drain_state: DrainState) -> None:
    async with drain_state.move_on_when_closed():
        await trio.sleep_forever()


def test_work_is_accepted_from_open_to_drain() -> None:
    drain_state = DrainState()
    assert (drain_state.is_ready, drain_state.is_draining) == (False, False)

    drain_state.open()
    assert (drain_state.is_ready, drain_state.is_draining) == (True, False)

    drain_state.drain()
    assert (drain_state.is_ready, drain_state.is_draining) == (False, True)


def test_a_drain_is_not_undone() -> None:
    drain_state = DrainState()
    drain_state.drain()
    drain_state.open()
    assert (drain_state.is_ready, drain_state.is_draining) == (False, True)

    drain_state.close()
    drain_state.drain()
    drain_state.open()
    assert (drain_state.is_ready, drain_state.is_draining) == (False, True)


async def test_closing_ends_all_streams_and_refuses_new_ones() -> None:
    drain_state = DrainState()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(hold_stream, drain_state)
        await settle()
        assert drain_state.open_streams == 3
        drain_state.close()

    assert drain_state.open_streams == 0
    with pytest.raises(RequestRefused):
        await hold_stream(drain_state)


async def test_draining_ends_no_stream() -> None:
    drain_state = DrainState()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold_stream, drain_state)
        await settle()
        drain_state.drain()
        await settle()
        assert drain_state.open_streams == 1
        nursery.cancel_scope.cancel()


async def test_the_wait_for_streams_ends_with_the_last_one() -> None:
    drain_state = DrainState()
    async with trio.open_nursery() as nursery:
        async with drain_state.move_on_when_closed():
            nursery.start_soon(drain_state.wait_no_streams)
            await settle()
            assert len(nursery.child_tasks) == 1
        await settle()
        assert not nursery.child_tasks
