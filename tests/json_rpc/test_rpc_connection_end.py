"""The end of a connection, and failed writes; see json_rpc/rpc_connection.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.json_rpc.rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from supervisor.json_rpc.rpc_messages import (
    RpcNotification,
    RpcRequest,
    RpcResult,
)
from supervisor.json_rpc.rpc_outbox import MAX_WAITING_BYTES, InputClosed, InputStuck, OutgoingLine
from tests.support.rpc_peer import (
    FOR_EVER,
    CallResults,
    FarEnd,
    RecordingHandlers,
    ask,
    connected,
    receiver,
    tell,
)

CANCEL = "$/cancel_request"


# The end ----------------------------------------------------------------------------------


async def test_the_end_of_output_fails_calls_and_cancels_handlers(
    results: CallResults,
) -> None:
    near, far = trio.testing.memory_stream_pair()
    recorder = RecordingHandlers()
    recorder.hold("a")
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    results.of("served", lambda: connection.serve(recorder.handlers))
    results.of("it", lambda: connection.call("m", timeout_seconds=FOR_EVER))
    agent = FarEnd(far)
    await agent.hears_request()
    await agent.says(*ask("a"), *tell("last words"))
    await agent.hangs_up()
    await settle()

    assert results.came["served"] == "the agent has closed its output"
    assert results.reason("it") == "the agent has closed its output"
    assert recorder.entries == ["a", "last words"]


async def test_calls_and_notifications_fail_after_the_end() -> None:
    async with connected() as (connection, agent):
        await agent.hangs_up()
        await settle()

        with pytest.raises(ConnectionLost, match="closed its output"):
            await connection.call("m", timeout_seconds=FOR_EVER)
        with pytest.raises(ConnectionLost, match="closed its output"):
            await connection.notify("m")


async def test_closing_our_side_fails_open_calls(results: CallResults) -> None:
    async with connected() as (connection, agent):
        results.of("it", lambda: connection.call("m", timeout_seconds=FOR_EVER))
        await agent.hears_request()
    await settle()

    assert results.reason("it") == "the connection was closed"


async def test_an_unreadable_output_ends_the_connection(results: CallResults) -> None:
    async def receive() -> bytes:
        await trio.sleep(1)
        raise OSError("hunter2")

    connection = RpcConnection(_swallow, receive, name="the agent")
    results.of("it", lambda: connection.call("m", timeout_seconds=FOR_EVER))

    assert await connection.serve(RpcHandlers()) == "the agent's output cannot be read: OSError"
    await settle()
    assert "cannot be read" in results.reason("it")


async def _swallow(_data: bytes) -> None:
    await trio.lowlevel.checkpoint()


class FailingInput:
    """Return a `send` that accepts a number of writes and then raises."""

    def __init__(self, error: Exception, *, after: int) -> None:
        self._error = error
        self._left = after
        self.taken: list[bytes] = []

    async def send(self, data: bytes) -> None:
        await trio.sleep(1)
        if not self._left:
            raise self._error
        self._left -= 1
        self.taken.append(data)


async def test_an_agent_with_closed_input_can_still_answer(results: CallResults) -> None:
    """Calls sent before the input closed may be answered, others not."""
    near, far = trio.testing.memory_stream_pair()
    agent_input = FailingInput(InputClosed(), after=1)
    connection = RpcConnection(agent_input.send, receiver(near), name="the agent")
    results.of("served", lambda: connection.serve(RpcHandlers()))
    results.of("sent", lambda: connection.call("prompt", timeout_seconds=FOR_EVER))
    await trio.sleep(1.5)
    results.of("unsent", lambda: connection.call("m", timeout_seconds=FOR_EVER))
    results.of("untold", lambda: connection.notify("n"))
    await trio.sleep(1.5)
    assert results.reason("unsent") == results.reason("untold") == "the agent's input is closed"
    results.of("later", lambda: connection.call("m", timeout_seconds=FOR_EVER))
    await FarEnd(far).says(RpcResult(1, "cancelled"))
    await settle()

    assert results.came["sent"] == "cancelled"
    assert results.reason("later") == "the agent's input is closed"
    assert "served" not in results.came
    await FarEnd(far).hangs_up()


async def test_an_agent_that_does_not_read_ends_the_connection(results: CallResults) -> None:
    near, _far = trio.testing.memory_stream_pair()
    agent_input = FailingInput(InputStuck(), after=1)
    connection = RpcConnection(agent_input.send, receiver(near), name="the agent")
    results.of("sent", lambda: connection.call("prompt", timeout_seconds=FOR_EVER))
    results.of("served", lambda: connection.serve(RpcHandlers()))
    await trio.sleep(1.5)
    results.of("untold", lambda: connection.notify("n"))
    await trio.sleep(1.5)

    assert results.came["served"] == "the agent does not read its input"
    assert results.reason("sent") == results.reason("untold") == results.came["served"]


# Writing ----------------------------------------------------------------------------------


async def test_a_caller_cancelled_during_a_write_does_not_cut_its_line() -> None:
    near, far = trio.testing.lockstep_stream_pair()  # a send waits until it is read
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        with trio.move_on_after(1) as first:
            await connection.call("first", "x" * 1000, timeout_seconds=FOR_EVER)
        with trio.move_on_after(1) as second:
            await connection.notify("second")
        assert first.cancelled_caught
        assert second.cancelled_caught

        agent = FarEnd(far)
        assert (await agent.hears_request()).params == "x" * 1000
        assert await agent.hears() == RpcNotification("second")
        nursery.cancel_scope.cancel()


async def test_senders_wait_while_the_outbox_is_full() -> None:
    near, far = trio.testing.lockstep_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        nursery.start_soon(connection.notify, "large", "x" * (MAX_WAITING_BYTES + 1))
        await settle()
        with trio.move_on_after(1):
            await connection.notify("never begun")
        with pytest.raises(CallTimeout):
            await connection.call("never begun either", timeout_seconds=1)
        nursery.start_soon(connection.notify, "begun later")

        agent = FarEnd(far)
        heard = [await agent.hears(), await agent.hears()]
        assert [message.method for message in heard] == ["large", "begun later"]  # type: ignore[union-attr]
        nursery.cancel_scope.cancel()


async def test_a_queued_notification_waits_for_space_only() -> None:
    near, far = trio.testing.lockstep_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        await connection.queue_notification("first", "x" * (MAX_WAITING_BYTES + 1))
        with trio.move_on_after(1) as waiting:
            await connection.queue_notification("no space")
        with trio.move_on_after(1) as unwritten:
            await connection.wait_written()

        assert waiting.cancelled_caught
        assert unwritten.cancelled_caught
        nursery.start_soon(connection.wait_written)
        await FarEnd(far).hears()
        await connection.wait_written()
        nursery.cancel_scope.cancel()


async def test_nothing_is_waited_for_once_the_connection_is_lost() -> None:
    near, far = trio.testing.memory_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    await far.aclose()
    await connection.serve(RpcHandlers())

    await connection.wait_written()

    with pytest.raises(ConnectionLost):
        await connection.queue_notification("late")


async def test_an_agent_that_requests_without_reading_is_not_read_further() -> None:
    """Refusals are queued too; they are bounded because no more requests are read."""
    near, far = trio.testing.memory_stream_pair()

    async def stuck(_data: bytes) -> None:
        await trio.sleep_forever()

    connection = RpcConnection(stuck, receiver(near), name="the agent")
    refused: list[Any] = [RpcRequest(number, "nothing") for number in range(50_000)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        await FarEnd(far).says(*refused, b"rubbish\n")
        await settle()

        assert connection.statistics().junk == 0
        assert connection._outbox._put_bytes < MAX_WAITING_BYTES + 1000
        nursery.cancel_scope.cancel()


async def test_a_call_abandoned_before_its_line_left_is_not_sent() -> None:
    near, far = trio.testing.lockstep_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    line = OutgoingLine()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        nursery.start_soon(connection.notify, "first")
        await settle()
        with pytest.raises(CallTimeout):
            await connection.call(
                "abandoned", "x" * MAX_WAITING_BYTES, timeout_seconds=1, outgoing=line
            )
        nursery.start_soon(connection.notify, "second")

        agent = FarEnd(far)
        heard = [await agent.hears(), await agent.hears()]
        assert [message.method for message in heard] == ["first", "second"]  # type: ignore[union-attr]
        assert not line.has_left
        nursery.cancel_scope.cancel()


class CountedInput:
    """A `send` that writes whole lines, then some bytes; it then waits, or raises its error."""

    def __init__(
        self, whole_lines: int, more_bytes: int = 0, error: Exception | None = None
    ) -> None:
        self._whole_lines = whole_lines
        self._more_bytes = more_bytes
        self._error = error
        self.count = 0
        self.lines: list[bytes] = []

    async def send(self, data: bytes) -> None:
        if self._whole_lines:
            self._whole_lines -= 1
            self.count += len(data)
            self.lines.append(data)
            return
        self.count += self._more_bytes
        if self._error is not None:
            raise self._error
        await trio.sleep_forever()

    def make_room(self) -> None:
        self._whole_lines = 1

    def written(self) -> int:
        return self.count


async def lines_left(agent_input: CountedInput) -> list[bool]:
    """Return for two calls, one of which fails to be written, whether their lines have left."""
    near, far = trio.testing.memory_stream_pair()
    connection = RpcConnection(
        agent_input.send, receiver(near), name="the agent", written=agent_input.written
    )
    lines = (OutgoingLine(), OutgoingLine())
    left: dict[OutgoingLine, bool] = {}

    async def call(line: OutgoingLine) -> None:
        with pytest.raises(ConnectionLost):
            await connection.call("m", timeout_seconds=FOR_EVER, outgoing=line)
        left[line] = line.has_left

    async with trio.open_nursery() as nursery:
        for line in lines:
            nursery.start_soon(call, line)
            await settle()
        nursery.start_soon(connection.serve, RpcHandlers())
        await settle()
        await FarEnd(far).hangs_up()
    assert left == {line: line.has_left for line in lines}
    return [left[line] for line in lines]


@pytest.mark.parametrize("error", [None, InputClosed(), InputStuck()], ids=repr)
@pytest.mark.parametrize(
    ("whole_lines", "more_bytes", "expected"),
    [(0, 0, [False, False]), (0, 1, [True, False]), (1, 0, [True, False]), (1, 1, [True, True])],
)
async def test_a_line_of_a_failed_write_has_left_if_a_byte_was_written(
    error: Exception | None, whole_lines: int, more_bytes: int, expected: list[bool]
) -> None:
    assert await lines_left(CountedInput(whole_lines, more_bytes, error)) == expected


async def test_a_line_that_waits_for_room_in_the_pipe_is_taken_back() -> None:
    near, _far = trio.testing.memory_stream_pair()
    agent_input = CountedInput(whole_lines=0)
    connection = RpcConnection(
        agent_input.send, receiver(near), name="the agent", written=agent_input.written
    )
    line = OutgoingLine()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        with pytest.raises(CallTimeout):
            await connection.call("abandoned", timeout_seconds=1, outgoing=line)
        agent_input.make_room()
        await connection.notify("next")
        nursery.cancel_scope.cancel()

    assert not line.has_left
    assert [json.loads(one)["method"] for one in agent_input.lines] == ["next"]
