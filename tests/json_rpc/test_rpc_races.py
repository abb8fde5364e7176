"""Races of a connection under many schedules; see acp/rpc_connection.py."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
from trio.testing import memory_stream_pair

from actors.testing import explore, settle
from supervisor.json_rpc.rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from supervisor.json_rpc.rpc_messages import (
    RpcErrorResponse,
    RpcId,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
)
from tests.support.rpc_peer import FOR_EVER, FarEnd, RecordingHandlers, connected, receiver, tell

SEEDS = range(150)
CANCEL = "$/cancel_request"


async def an_answer_as_the_call_is_given_up() -> None:
    """Every call gets its result or its answer is late; the next call is answered."""
    results: list[object] = []
    async with connected() as (connection, agent), trio.open_nursery() as nursery:
        nursery.start_soon(_answer_after_a_second, agent, 3)
        for _ in range(3):
            with trio.move_on_after(1):
                results.append(
                    await connection.call("m", timeout_seconds=FOR_EVER, on_abandon="tell")
                )
        nursery.cancel_scope.cancel()
        counted = connection.statistics()
        assert counted.open_calls == 0
        assert counted.unknown_answer == 0
        assert len(results) + counted.late_answers <= 3
        assert set(results) <= {"done"}


async def _answer_after_a_second(agent: FarEnd, count: int) -> None:
    asked = 0
    while asked < count:
        request = await agent.hears()
        if isinstance(request, RpcRequest):
            asked += 1
            await trio.sleep(1)
            await agent.says(RpcResult(request.id, "done"))
        else:
            assert isinstance(request, RpcNotification)


async def a_result_as_they_cancel_the_request() -> None:
    """Each request has exactly one reply: its result, or that it was cancelled."""

    async def serve(params: object) -> object:
        await trio.sleep(1)
        return params

    replies: Counter[RpcId] = Counter()
    async with connected(RpcHandlers(requests={"ask": serve})) as (connection, agent):
        for number in range(3):
            await agent.says(RpcRequest(number, "ask", number))
            await trio.sleep(1)
            await agent.says(RpcNotification(CANCEL, {"requestId": number}))
        while replies.total() < 3:
            reply = await agent.hears()
            assert isinstance(reply, RpcResult | RpcErrorResponse)
            replies[reply.id] += 1
        await trio.sleep(5)
        assert connection.statistics().open_requests == 0
    assert replies == {0: 1, 1: 1, 2: 1}


async def a_hang_up_as_calls_are_made() -> None:
    """Every call ends."""
    ended = 0
    near, far = memory_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    agent = FarEnd(far)

    async def call() -> None:
        nonlocal ended
        with suppress(ConnectionLost, CallTimeout):
            await connection.call("m", timeout_seconds=5)
        ended += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        for _ in range(4):
            nursery.start_soon(call)
        with trio.move_on_after(10):  # calls that time out first are not sent
            await agent.answers()
        await agent.hangs_up()
    assert ended == 4
    assert connection.statistics().open_calls == 0


async def updates_around_an_answer() -> None:
    """Handle notifications before the answer first, and those after it later."""
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (connection, agent), trio.open_nursery() as nursery:

        async def prompt() -> None:
            recorder.entries.append(await connection.call("prompt", timeout_seconds=FOR_EVER))

        async def answer() -> None:
            request = await agent.hears_request()
            for message in (
                *tell(1, 2),
                RpcResult(request.id, 3),
                *tell(4),
                RpcRequest("r", "ask", 5),
            ):
                await agent.says(message)
            await agent.says(*tell(6))
            await settle()

        nursery.start_soon(prompt)
        nursery.start_soon(answer)
    assert recorder.entries == [1, 2, 3, 4, 5, 6]


async def callers_cancelled_anywhere_while_they_write() -> None:
    """Whole lines arrive, each at most once, those of one caller in order, none after its end."""
    chance = random.Random(0)
    near, far = memory_stream_pair()
    sent: list[tuple[int, int]] = []

    async def slowly(data: bytes) -> None:
        for place in range(0, len(data), 40):
            await trio.lowlevel.checkpoint()
            await near.send_all(data[place : place + 40])

    connection = RpcConnection(slowly, receiver(near), name="the agent")

    async def talk(who: int) -> None:
        for number in range(4):
            with trio.move_on_after(chance.random()):
                await connection.notify("n", [who, number])
                sent.append((who, number))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        async with trio.open_nursery() as talkers:
            for who in range(3):
                talkers.start_soon(talk, who)
        await connection.notify("end")
        nursery.cancel_scope.cancel()
    heard = await _heard_until_the_end(FarEnd(far))
    assert set(sent) <= set(heard)
    assert len(heard) == len(set(heard))
    for who in range(3):
        mine = [each for each in heard if each[0] == who]
        assert mine == sorted(mine)


async def _heard_until_the_end(agent: FarEnd) -> list[tuple[int, int]]:
    heard = []
    while (message := await agent.hears()) != RpcNotification("end"):
        heard.append(_pair(message))
    return heard


def _pair(message: RpcMessage) -> tuple[int, int]:
    assert isinstance(message, RpcNotification)
    who, number = message.params
    return who, number


@pytest.mark.parametrize(
    "program",
    [
        an_answer_as_the_call_is_given_up,
        a_result_as_they_cancel_the_request,
        a_hang_up_as_calls_are_made,
        updates_around_an_answer,
        callers_cancelled_anywhere_while_they_write,
    ],
    ids=lambda program: program.__name__,
)
def test_the_connection_keeps_its_rules_under_any_schedule(
    program: Callable[[], Awaitable[None]],
) -> None:
    assert explore(program, seeds=SEEDS, early_timeouts=True) == []
