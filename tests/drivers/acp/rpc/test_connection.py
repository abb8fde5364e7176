"""A connection: calls and answers, order, and what happens when something is cut short."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.drivers.acp.rpc.connection import CallTimeout, Connection, ConnectionLost
from supervisor.drivers.acp.rpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Answer,
    Notification,
    Refusal,
    Request,
    RpcError,
    Unsendable,
)
from supervisor.drivers.acp.rpc.outbox import MAX_WAITING_BYTES
from supervisor.drivers.acp.rpc.peer import TOO_MANY_REQUESTS
from supervisor.drivers.acp.rpc.serving import Handlers
from supervisor.drivers.process.port import InputClosed, InputStuck
from tests.drivers.acp.rpc.far_end import FOR_EVER, Diary, FarEnd, ask, connected, receiver, tell

CANCEL = "$/cancel_request"
Call = Callable[[], Awaitable[object]]


class Results:
    """What came of calls that were made in tasks of their own."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.came: dict[str, object] = {}

    def of(self, name: str, call: Call) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                try:
                    self.came[name] = await call()
                except (RpcError, ConnectionLost, CallTimeout) as error:
                    self.came[name] = error

        self._nursery.start_soon(run)
        return scope

    def reason(self, name: str) -> str:
        lost = self.came[name]
        assert isinstance(lost, ConnectionLost)
        return lost.reason


@pytest.fixture
def results(nursery: trio.Nursery) -> Results:
    return Results(nursery)


# Our calls --------------------------------------------------------------------------------


async def test_a_call_gives_the_result(results: Results) -> None:
    async with connected() as (connection, agent):
        results.of("it", lambda: connection.call("m", {"a": 1}, timeout_seconds=FOR_EVER))
        request = await agent.answers({"b": 2})
        await settle()

    assert (request.method, request.params) == ("m", {"a": 1})
    assert results.came["it"] == {"b": 2}


async def test_calls_get_their_own_answers_in_whatever_order_they_come(results: Results) -> None:
    async with connected() as (connection, agent):
        for name in "abc":
            results.of(name, lambda name=name: connection.call(name, timeout_seconds=1.0))  # type: ignore[misc]
        asked = [await agent.hears_request() for _ in "abc"]
        await agent.says(*(Answer(request.id, request.method) for request in reversed(asked)))
        await settle()

    assert results.came == {"a": "a", "b": "b", "c": "c"}


async def test_a_refusal_is_raised_with_all_that_it_says(results: Results) -> None:
    async with connected() as (connection, agent):
        results.of("it", lambda: connection.call("m", timeout_seconds=1.0))
        request = await agent.hears_request()
        await agent.says(Refusal(request.id, 1001, "no model", {"model": "x"}))
        await settle()

    error = results.came["it"]
    assert isinstance(error, RpcError)
    assert (error.code, error.message, error.data) == (1001, "no model", {"model": "x"})


async def test_a_call_that_is_not_answered_ends_in_time() -> None:
    async with connected() as (connection, _agent):
        with pytest.raises(CallTimeout, match=r"m was not answered within 3 seconds"):
            await connection.call("m", timeout_seconds=3.0)

        assert trio.current_time() == 3.0


async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    async with connected() as (connection, agent):
        with pytest.raises(CallTimeout):
            await connection.call("m", timeout_seconds=3.0)
        await agent.answers("late")
        await settle()

        assert connection.statistics().late_answers == 1
        assert connection.statistics().unknown_answer == 0


async def test_who_gives_up_tells_the_agent_if_that_was_asked_for() -> None:
    async with connected() as (connection, agent):
        with pytest.raises(CallTimeout):
            await connection.call("m", timeout_seconds=3.0, if_given_up="tell")
        request = await agent.hears_request()

        assert await agent.hears() == Notification(CANCEL, {"requestId": request.id})


async def test_and_does_not_if_it_was_not() -> None:
    async with connected() as (connection, agent):
        with trio.move_on_after(3):
            await connection.call("m", timeout_seconds=FOR_EVER)
        await agent.hears_request()
        await connection.notify("next")

        assert await agent.hears() == Notification("next")


async def test_a_call_that_is_cancelled_before_it_is_sent_is_not_sent() -> None:
    async with connected() as (connection, agent):
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.call("m", timeout_seconds=FOR_EVER)
        await connection.notify("next")

        assert await agent.hears() == Notification("next")


async def test_what_cannot_be_sent_is_refused_and_does_no_harm() -> None:
    async with connected() as (connection, agent):
        with pytest.raises(Unsendable):
            await connection.call("m", {"text": "\ud800"}, timeout_seconds=1.0)
        with pytest.raises(Unsendable):
            await connection.notify("m", float("nan"))
        await connection.notify("next")

        assert await agent.hears() == Notification("next")
        assert connection.statistics().open_calls == 0


# Order ------------------------------------------------------------------------------------


async def test_all_that_came_before_an_answer_is_handled_before_it_counts() -> None:
    diary = Diary()
    async with connected(diary.handlers) as (connection, agent), trio.open_nursery() as nursery:
        diary.hold("two")

        async def prompt() -> None:
            diary.entries.append(await connection.call("prompt", timeout_seconds=FOR_EVER))

        nursery.start_soon(prompt)
        request = await agent.hears_request()
        await agent.says(*tell("one", "two", "three"), Answer(request.id, "over"))
        await settle()
        assert diary.entries == ["one", "two"]
        diary.may_go_on["two"].set()

    assert diary.entries == ["one", "two", "two done", "three", "over"]


async def test_who_waited_for_an_answer_knows_it_before_what_came_after_is_looked_at() -> None:
    """Agents tell things about a session in the same breath in which they say its id."""
    diary = Diary()
    async with connected(diary.handlers) as (connection, agent), trio.open_nursery() as nursery:

        async def make() -> None:
            diary.entries.append(await connection.call("session/new", timeout_seconds=FOR_EVER))

        nursery.start_soon(make)
        request = await agent.hears_request()
        await agent.says(Answer(request.id, "s1"), *tell("about s1"))
        await settle()

    assert diary.entries == ["s1", "about s1"]


async def test_requests_begin_in_order_and_may_end_in_any() -> None:
    diary = Diary()
    async with connected(diary.handlers) as (_connection, agent):
        diary.hold("a")
        await agent.says(*ask("a", "b", "c"), *tell("d"))

        assert await agent.hears() == Answer(2, {"served": "b"})
        assert await agent.hears() == Answer(3, {"served": "c"})
        assert diary.entries == ["a", "b", "c", "d"]
        diary.may_go_on["a"].set()
        assert await agent.hears() == Answer(1, {"served": "a"})


async def test_while_a_notification_is_handled_nothing_is_read() -> None:
    diary = Diary()
    near, far = trio.testing.lockstep_stream_pair()
    connection = Connection(near.send_all, receiver(near), name="the agent")
    diary.hold("slow")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, diary.handlers)
        await FarEnd(far).says(*tell("slow"))

        with pytest.raises(trio.TooSlowError), trio.fail_after(60):
            await FarEnd(far).says(*tell("held up"))
        nursery.cancel_scope.cancel()


# Their requests ---------------------------------------------------------------------------


def refusing(error: Exception) -> Handlers:
    async def refuse(_params: object) -> None:
        raise error

    return Handlers(requests={"ask": refuse}, notifications={"tell": refuse})


async def test_a_handler_may_refuse() -> None:
    error = RpcError(INVALID_PARAMS, "the path is not absolute", {"path": "x"})
    async with connected(refusing(error)) as (_connection, agent):
        await agent.says(*ask("x"))

        assert await agent.hears() == Refusal(1, error.code, error.message, error.data)


async def test_a_handler_may_refuse_from_within_a_nursery() -> None:
    error = ExceptionGroup("a nursery's", [RpcError(INVALID_PARAMS, "no")])
    async with connected(refusing(error)) as (_connection, agent):
        await agent.says(*ask("x"))

        assert await agent.hears() == Refusal(1, INVALID_PARAMS, "no")


async def test_a_refusal_that_cannot_be_sent_is_still_one() -> None:
    async with connected(refusing(RpcError(5, "no", object()))) as (_connection, agent):
        await agent.says(*ask("x"))

        assert await agent.hears() == Refusal(1, INTERNAL_ERROR, "it was refused")


async def test_what_nobody_offered_is_refused() -> None:
    async with connected() as (_connection, agent):
        await agent.says(Request("a", "terminal/create", {}))

        refusal = await agent.hears()
        assert isinstance(refusal, Refusal)
        assert (refusal.id, refusal.code) == ("a", METHOD_NOT_FOUND)
        assert "terminal/create" in refusal.message


@pytest.mark.parametrize(
    "crash", [ValueError("hunter2"), ExceptionGroup("hunter2", [KeyError("hunter2")])]
)
async def test_a_handler_that_crashes_is_logged_without_what_it_says(
    crash: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(refusing(crash)) as (_connection, agent):
        await agent.says(*tell("x"), *ask("x"))

        refusal = await agent.hears()
    assert isinstance(refusal, Refusal)
    assert refusal.code == INTERNAL_ERROR
    assert "hunter2" not in refusal.message + caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "Error" in caplog.text


async def test_a_handler_that_crashes_leaves_the_rest_alone() -> None:
    async def crash(_params: object) -> None:
        raise ValueError

    diary = Diary()
    handlers = Handlers(
        requests=diary.handlers.requests, notifications={"x": crash, **diary.handlers.notifications}
    )
    async with connected(handlers) as (_connection, agent):
        await agent.says(Notification("x"), *tell("a"), *ask("b"))

        assert await agent.hears() == Answer(1, {"served": "b"})
        assert diary.entries == ["a", "b"]


async def test_a_result_that_cannot_be_sent_is_a_crash() -> None:
    async def serve(_params: object) -> object:
        return {"text": "\ud800"}

    async with connected(Handlers(requests={"ask": serve})) as (connection, agent):
        await agent.says(*ask("x"))

        refusal = await agent.hears()
        assert isinstance(refusal, Refusal)
        assert refusal.code == INTERNAL_ERROR
        assert connection.statistics().open_requests == 0


async def test_a_request_they_cancel_is_cancelled_and_answered() -> None:
    diary = Diary()
    async with connected(diary.handlers) as (_connection, agent):
        diary.hold("a")
        diary.hold("b")
        await agent.says(*ask("a", "b"), Notification(CANCEL, {"requestId": 1}))

        refusal = await agent.hears()
        assert isinstance(refusal, Refusal)
        assert (refusal.id, refusal.code) == (1, REQUEST_CANCELLED)
        diary.may_go_on["b"].set()
        assert await agent.hears() == Answer(2, {"served": "b"})
        assert diary.entries == ["a", "b", "b done"]


async def test_what_is_done_when_they_cancel_it_is_answered_with_the_result() -> None:
    async def stubborn(_params: object) -> object:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return "done"

    async with connected(Handlers(requests={"ask": stubborn})) as (_connection, agent):
        await agent.says(*ask("x"), Notification(CANCEL, {"requestId": 1}))

        assert await agent.hears() == Answer(1, "done")


async def test_cancelling_what_was_answered_does_nothing() -> None:
    diary = Diary()
    async with connected(diary.handlers) as (_connection, agent):
        await agent.says(*ask("a"))
        await agent.hears()
        await agent.says(Notification(CANCEL, {"requestId": 1}), *ask("b"))

        assert await agent.hears() == Answer(1, {"served": "b"})


async def test_requests_beyond_the_cap_are_refused_and_those_within_are_served() -> None:
    diary = Diary()
    async with connected(diary.handlers, max_open_requests=2) as (_connection, agent):
        diary.hold("slow")
        await agent.says(*ask("slow", "slow", "more"))

        refusal = await agent.hears()
        assert isinstance(refusal, Refusal)
        assert (refusal.id, refusal.code) == (3, TOO_MANY_REQUESTS)
        diary.may_go_on["slow"].set()
        assert {(await agent.hears()).id, (await agent.hears()).id} == {1, 2}  # type: ignore[union-attr]


async def test_an_id_that_is_open_is_refused_and_the_first_is_answered() -> None:
    diary = Diary()
    async with connected(diary.handlers) as (_connection, agent):
        diary.hold("a")
        await agent.says(*ask("a"), *ask("again"))

        refusal = await agent.hears()
        assert isinstance(refusal, Refusal)
        assert (refusal.id, refusal.code) == (1, INVALID_REQUEST)
        diary.may_go_on["a"].set()
        assert await agent.hears() == Answer(1, {"served": "a"})


# Faults -----------------------------------------------------------------------------------


async def test_rubbish_is_counted_and_logged_once_for_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    diary = Diary()
    async with connected(diary.handlers, max_line_bytes=1000) as (connection, agent):
        await agent.says(b"Starting...\n" * 50, b"x" * 2000 + b"\n", Answer(9), Answer(9))
        await agent.says(*tell("still here"))
        await settle()

        counted = connection.statistics()
    assert (counted.junk, counted.too_long, counted.unknown_answer) == (50, 1, 2)
    assert diary.entries == ["still here"]
    assert len(caplog.records) == 3
    assert "Starting..." in caplog.text


async def test_unknown_notifications_are_ignored() -> None:
    diary = Diary()
    async with connected(diary.handlers) as (connection, agent):
        await agent.says(Notification("_auth/status_update", {}), *tell("next"))
        await settle()

        assert diary.entries == ["next"]
        assert connection.statistics().junk == 0


async def test_others_get_their_turn_while_an_agent_floods() -> None:
    """As fast as the machine is: what matters is that somebody else ran in between."""
    counts = []
    diary = Diary()
    async with connected(diary.handlers) as (_connection, agent), trio.open_nursery() as nursery:

        async def look() -> None:
            while len(diary.entries) < 1000:
                counts.append(len(diary.entries))
                await trio.lowlevel.checkpoint()

        nursery.start_soon(look)
        await agent.says(*tell(*range(1000)))

    assert len(set(counts)) > 10
    assert diary.entries == list(range(1000))


# The end ----------------------------------------------------------------------------------


async def test_when_the_agent_hangs_up_calls_fail_and_handlers_are_cancelled(
    results: Results,
) -> None:
    near, far = trio.testing.memory_stream_pair()
    diary = Diary()
    diary.hold("a")
    connection = Connection(near.send_all, receiver(near), name="the agent")
    results.of("served", lambda: connection.serve(diary.handlers))
    results.of("it", lambda: connection.call("m", timeout_seconds=FOR_EVER))
    agent = FarEnd(far)
    await agent.hears_request()
    await agent.says(*ask("a"), *tell("last words"))
    await agent.hangs_up()
    await settle()

    assert results.came["served"] == "the agent has closed its output"
    assert results.reason("it") == "the agent has closed its output"
    assert diary.entries == ["a", "last words"]


async def test_after_the_end_nothing_can_be_asked_or_told() -> None:
    async with connected() as (connection, agent):
        await agent.hangs_up()
        await settle()

        with pytest.raises(ConnectionLost, match="closed its output"):
            await connection.call("m", timeout_seconds=FOR_EVER)
        with pytest.raises(ConnectionLost, match="closed its output"):
            await connection.notify("m")


async def test_closing_our_side_fails_what_waits(results: Results) -> None:
    async with connected() as (connection, agent):
        results.of("it", lambda: connection.call("m", timeout_seconds=FOR_EVER))
        await agent.hears_request()
    await settle()

    assert results.reason("it") == "the connection was closed"


async def test_an_output_that_cannot_be_read_is_an_end(results: Results) -> None:
    async def receive() -> bytes:
        await trio.sleep(1)
        raise OSError("hunter2")

    connection = Connection(_swallow, receive, name="the agent")
    results.of("it", lambda: connection.call("m", timeout_seconds=FOR_EVER))

    assert await connection.serve(Handlers()) == "the agent's output cannot be read: OSError"
    await settle()
    assert "cannot be read" in results.reason("it")


async def _swallow(_data: bytes) -> None:
    await trio.lowlevel.checkpoint()


class FailingInput:
    """Takes so many pieces, then raises."""

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


async def test_an_input_that_is_closed_still_lets_the_agent_answer(results: Results) -> None:
    """It answers a prompt when its input is closed: what was sent may be answered, no more."""
    near, far = trio.testing.memory_stream_pair()
    agent_input = FailingInput(InputClosed(), after=1)
    connection = Connection(agent_input.send, receiver(near), name="the agent")
    results.of("served", lambda: connection.serve(Handlers()))
    results.of("sent", lambda: connection.call("prompt", timeout_seconds=FOR_EVER))
    await trio.sleep(1.5)
    results.of("unsent", lambda: connection.call("m", timeout_seconds=FOR_EVER))
    results.of("untold", lambda: connection.notify("n"))
    await trio.sleep(1.5)
    assert results.reason("unsent") == results.reason("untold") == "the agent's input is closed"
    results.of("later", lambda: connection.call("m", timeout_seconds=FOR_EVER))
    await FarEnd(far).says(Answer(1, "cancelled"))
    await settle()

    assert results.came["sent"] == "cancelled"
    assert results.reason("later") == "the agent's input is closed"
    assert "served" not in results.came
    await FarEnd(far).hangs_up()


async def test_an_agent_that_does_not_read_is_lost(results: Results) -> None:
    near, _far = trio.testing.memory_stream_pair()
    agent_input = FailingInput(InputStuck(), after=1)
    connection = Connection(agent_input.send, receiver(near), name="the agent")
    results.of("sent", lambda: connection.call("prompt", timeout_seconds=FOR_EVER))
    results.of("served", lambda: connection.serve(Handlers()))
    await trio.sleep(1.5)
    results.of("untold", lambda: connection.notify("n"))
    await trio.sleep(1.5)

    assert results.came["served"] == "the agent does not read what it is sent"
    assert results.reason("sent") == results.reason("untold") == results.came["served"]


# Writing ----------------------------------------------------------------------------------


async def test_a_caller_who_is_cancelled_in_mid_write_neither_cuts_nor_takes_back_a_line() -> None:
    near, far = trio.testing.lockstep_stream_pair()  # nothing is sent before it is read
    connection = Connection(near.send_all, receiver(near), name="the agent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, Handlers())
        with trio.move_on_after(1) as first:
            await connection.call("first", "x" * 1000, timeout_seconds=FOR_EVER)
        with trio.move_on_after(1) as second:
            await connection.notify("second")
        assert first.cancelled_caught
        assert second.cancelled_caught

        agent = FarEnd(far)
        assert (await agent.hears_request()).params == "x" * 1000
        assert await agent.hears() == Notification("second")
        nursery.cancel_scope.cancel()


async def test_senders_wait_while_there_is_much_to_write() -> None:
    near, far = trio.testing.lockstep_stream_pair()
    connection = Connection(near.send_all, receiver(near), name="the agent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, Handlers())
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


async def test_an_agent_that_asks_without_reading_is_not_read_on_and_on() -> None:
    """Refusals wait too: they are bounded by no longer looking at what it says."""
    near, far = trio.testing.memory_stream_pair()

    async def stuck(_data: bytes) -> None:
        await trio.sleep_forever()

    connection = Connection(stuck, receiver(near), name="the agent")
    refused: list[Any] = [Request(number, "nothing") for number in range(50_000)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, Handlers())
        await FarEnd(far).says(*refused, b"rubbish\n")
        await settle()

        assert connection.statistics().junk == 0
        assert connection._outbox._put_bytes < MAX_WAITING_BYTES + 1000
        nursery.cancel_scope.cancel()
