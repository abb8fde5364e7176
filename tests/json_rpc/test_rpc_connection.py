"""Calls, answers, requests and their order; see json_rpc/rpc_connection.py."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import trio

from actors.testing import settle
from supervisor.core.log_content import revealed_arguments
from supervisor.json_rpc.rpc_connection import (
    MESSAGES_PER_CHECKPOINT,
    CallTimeout,
    RpcConnection,
)
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from supervisor.json_rpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RpcError,
    RpcErrorResponse,
    RpcNotification,
    RpcRequest,
    RpcResult,
    Unsendable,
)
from supervisor.json_rpc.rpc_peer import TOO_MANY_REQUESTS
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


# Our calls --------------------------------------------------------------------------------


async def test_a_call_returns_the_result(results: CallResults) -> None:
    async with connected() as (connection, agent):
        results.of("it", lambda: connection.call("m", {"a": 1}, timeout_seconds=FOR_EVER))
        request = await agent.answers({"b": 2})
        await settle()

    assert (request.method, request.params) == ("m", {"a": 1})
    assert results.came["it"] == {"b": 2}


async def test_calls_get_their_own_answers_in_any_order(
    results: CallResults,
) -> None:
    async with connected() as (connection, agent):
        for name in "abc":
            results.of(name, lambda name=name: connection.call(name, timeout_seconds=1.0))  # type: ignore[misc]
        asked = [await agent.hears_request() for _ in "abc"]
        await agent.says(*(RpcResult(request.id, request.method) for request in reversed(asked)))
        await settle()

    assert results.came == {"a": "a", "b": "b", "c": "c"}


async def test_an_error_response_is_raised_with_all_its_fields(results: CallResults) -> None:
    async with connected() as (connection, agent):
        results.of("it", lambda: connection.call("m", timeout_seconds=1.0))
        request = await agent.hears_request()
        await agent.says(RpcErrorResponse(request.id, 1001, "no model", {"model": "x"}))
        await settle()

    error = results.came["it"]
    assert isinstance(error, RpcError)
    assert (error.code, error.message, error.data) == (1001, "no model", {"model": "x"})


async def test_an_unanswered_call_times_out() -> None:
    async with connected() as (connection, _agent):
        with pytest.raises(CallTimeout, match=r"m was not answered within 3 seconds"):
            await connection.call("m", timeout_seconds=3.0)

        assert trio.current_time() == 3.0


async def test_a_late_answer_is_dropped() -> None:
    async with connected() as (connection, agent):
        with pytest.raises(CallTimeout):
            await connection.call("m", timeout_seconds=3.0)
        await agent.answers("late")
        await settle()

        assert connection.statistics().late_answers == 1
        assert connection.statistics().unknown_answer == 0


async def test_an_abandoned_call_sends_a_cancel_on_request() -> None:
    async with connected() as (connection, agent):
        with pytest.raises(CallTimeout):
            await connection.call("m", timeout_seconds=3.0, on_abandon="tell")
        request = await agent.hears_request()

        assert await agent.hears() == RpcNotification(CANCEL, {"requestId": request.id})


async def test_an_abandoned_call_sends_no_cancel_by_default() -> None:
    async with connected() as (connection, agent):
        with trio.move_on_after(3):
            await connection.call("m", timeout_seconds=FOR_EVER)
        await agent.hears_request()
        await connection.notify("next")

        assert await agent.hears() == RpcNotification("next")


async def test_a_call_cancelled_before_sending_is_not_sent() -> None:
    async with connected() as (connection, agent):
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.call("m", timeout_seconds=FOR_EVER)
        await connection.notify("next")

        assert await agent.hears() == RpcNotification("next")


async def test_unsendable_params_are_refused_and_keep_the_connection() -> None:
    async with connected() as (connection, agent):
        with pytest.raises(Unsendable):
            await connection.call("m", {"text": "\ud800"}, timeout_seconds=1.0)
        with pytest.raises(Unsendable):
            await connection.notify("m", float("nan"))
        await connection.notify("next")

        assert await agent.hears() == RpcNotification("next")
        assert connection.statistics().open_calls == 0


# Order ------------------------------------------------------------------------------------


async def test_messages_before_an_answer_are_handled_first() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (connection, agent), trio.open_nursery() as nursery:
        recorder.hold("two")

        async def prompt() -> None:
            recorder.entries.append(await connection.call("prompt", timeout_seconds=FOR_EVER))

        nursery.start_soon(prompt)
        request = await agent.hears_request()
        await agent.says(*tell("one", "two", "three"), RpcResult(request.id, "over"))
        await settle()
        assert recorder.entries == ["one", "two"]
        recorder.may_go_on["two"].set()

    assert recorder.entries == ["one", "two", "two done", "three", "over"]


async def test_a_caller_takes_its_answer_before_the_next_message_is_handled() -> None:
    """Agents send updates of a session together with the answer that has its id."""
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (connection, agent), trio.open_nursery() as nursery:

        async def make() -> None:
            recorder.entries.append(await connection.call("session/new", timeout_seconds=FOR_EVER))

        nursery.start_soon(make)
        request = await agent.hears_request()
        await agent.says(RpcResult(request.id, "s1"), *tell("about s1"))
        await settle()

    assert recorder.entries == ["s1", "about s1"]


async def test_request_handlers_start_in_order_and_end_in_any_order() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (_connection, agent):
        recorder.hold("a")
        await agent.says(*ask("a", "b", "c"), *tell("d"))

        assert await agent.hears() == RpcResult(2, {"served": "b"})
        assert await agent.hears() == RpcResult(3, {"served": "c"})
        assert recorder.entries == ["a", "b", "c", "d"]
        recorder.may_go_on["a"].set()
        assert await agent.hears() == RpcResult(1, {"served": "a"})


async def test_nothing_is_read_while_a_notification_is_handled() -> None:
    recorder = RecordingHandlers()
    near, far = trio.testing.lockstep_stream_pair()
    connection = RpcConnection(near.send_all, receiver(near), name="the agent")
    recorder.hold("slow")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, recorder.handlers)
        await FarEnd(far).says(*tell("slow"))

        with pytest.raises(trio.TooSlowError), trio.fail_after(60):
            await FarEnd(far).says(*tell("held up"))
        nursery.cancel_scope.cancel()


# Requests of the agent --------------------------------------------------------------------


def refusing(error: Exception) -> RpcHandlers:
    async def refuse(_params: object) -> None:
        raise error

    return RpcHandlers(requests={"ask": refuse}, notifications={"tell": refuse})


async def test_a_handler_may_refuse() -> None:
    error = RpcError(INVALID_PARAMS, "the path is not absolute", {"path": "x"})
    async with connected(refusing(error)) as (_connection, agent):
        await agent.says(*ask("x"))

        assert await agent.hears() == RpcErrorResponse(1, error.code, error.message, error.data)


async def test_a_handler_may_refuse_from_within_a_nursery() -> None:
    error = ExceptionGroup("a nursery's", [RpcError(INVALID_PARAMS, "no")])
    async with connected(refusing(error)) as (_connection, agent):
        await agent.says(*ask("x"))

        assert await agent.hears() == RpcErrorResponse(1, INVALID_PARAMS, "no")


async def test_an_unsendable_refusal_becomes_a_plain_refusal() -> None:
    async with connected(refusing(RpcError(5, "no", object()))) as (_connection, agent):
        await agent.says(*ask("x"))

        assert await agent.hears() == RpcErrorResponse(1, INTERNAL_ERROR, "the request was refused")


async def test_a_request_without_a_handler_is_refused() -> None:
    async with connected() as (_connection, agent):
        await agent.says(RpcRequest("a", "terminal/create", {}))

        refusal = await agent.hears()
        assert isinstance(refusal, RpcErrorResponse)
        assert (refusal.id, refusal.code) == ("a", METHOD_NOT_FOUND)
        assert "terminal/create" in refusal.message


@pytest.mark.parametrize(
    "crash", [ValueError("hunter2"), ExceptionGroup("hunter2", [KeyError("hunter2")])]
)
async def test_a_crashed_handler_is_logged_without_the_error_text(
    crash: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(refusing(crash)) as (_connection, agent):
        await agent.says(*tell("x"), *ask("x"))

        refusal = await agent.hears()
    assert isinstance(refusal, RpcErrorResponse)
    assert refusal.code == INTERNAL_ERROR
    assert "hunter2" not in refusal.message + caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "Error" in caplog.text


async def test_a_crashed_handler_keeps_the_connection() -> None:
    async def crash(_params: object) -> None:
        raise ValueError

    recorder = RecordingHandlers()
    handlers = RpcHandlers(
        requests=recorder.handlers.requests,
        notifications={"x": crash, **recorder.handlers.notifications},
    )
    async with connected(handlers) as (_connection, agent):
        await agent.says(RpcNotification("x"), *tell("a"), *ask("b"))

        assert await agent.hears() == RpcResult(1, {"served": "b"})
        assert recorder.entries == ["a", "b"]


async def test_an_unsendable_result_is_a_crash() -> None:
    async def serve(_params: object) -> object:
        return {"text": "\ud800"}

    async with connected(RpcHandlers(requests={"ask": serve})) as (connection, agent):
        await agent.says(*ask("x"))

        refusal = await agent.hears()
        assert isinstance(refusal, RpcErrorResponse)
        assert refusal.code == INTERNAL_ERROR
        assert connection.statistics().open_requests == 0


async def test_a_cancelled_request_is_answered() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (_connection, agent):
        recorder.hold("a")
        recorder.hold("b")
        await agent.says(*ask("a", "b"), RpcNotification(CANCEL, {"requestId": 1}))

        refusal = await agent.hears()
        assert isinstance(refusal, RpcErrorResponse)
        assert (refusal.id, refusal.code) == (1, REQUEST_CANCELLED)
        recorder.may_go_on["b"].set()
        assert await agent.hears() == RpcResult(2, {"served": "b"})
        assert recorder.entries == ["a", "b", "b done"]


async def test_a_finished_request_is_answered_despite_a_cancel() -> None:
    async def stubborn(_params: object) -> object:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return "done"

    async with connected(RpcHandlers(requests={"ask": stubborn})) as (_connection, agent):
        await agent.says(*ask("x"), RpcNotification(CANCEL, {"requestId": 1}))

        assert await agent.hears() == RpcResult(1, "done")


async def test_cancelling_an_answered_request_does_nothing() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (_connection, agent):
        await agent.says(*ask("a"))
        await agent.hears()
        await agent.says(RpcNotification(CANCEL, {"requestId": 1}), *ask("b"))

        assert await agent.hears() == RpcResult(1, {"served": "b"})


async def test_requests_above_the_limit_are_refused_and_earlier_requests_served() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers, max_open_requests=2) as (_connection, agent):
        recorder.hold("slow")
        await agent.says(*ask("slow", "slow", "more"))

        refusal = await agent.hears()
        assert isinstance(refusal, RpcErrorResponse)
        assert (refusal.id, refusal.code) == (3, TOO_MANY_REQUESTS)
        recorder.may_go_on["slow"].set()
        assert {(await agent.hears()).id, (await agent.hears()).id} == {1, 2}  # type: ignore[union-attr]


async def test_a_request_with_an_open_id_is_refused() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (_connection, agent):
        recorder.hold("a")
        await agent.says(*ask("a"), *ask("again"))

        refusal = await agent.hears()
        assert isinstance(refusal, RpcErrorResponse)
        assert (refusal.id, refusal.code) == (1, INVALID_REQUEST)
        recorder.may_go_on["a"].set()
        assert await agent.hears() == RpcResult(1, {"served": "a"})


# Faults -----------------------------------------------------------------------------------


async def test_faults_are_counted_and_logged_once_per_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers, max_line_bytes=1000) as (connection, agent):
        await agent.says(b"Starting...\n" * 50, b"x" * 2000 + b"\n", RpcResult(9), RpcResult(9))
        await agent.says(*tell("still here"))
        await settle()

        counted = connection.statistics()
    assert (counted.junk, counted.too_long, counted.unknown_answer) == (50, 1, 2)
    assert recorder.entries == ["still here"]
    assert len(caplog.records) == 3
    assert "agent: junk in its output" in caplog.text
    assert "Starting..." not in caplog.text
    assert "Starting..." in str(revealed_arguments(caplog.records[0].args))


async def test_unknown_notifications_are_ignored() -> None:
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (connection, agent):
        await agent.says(RpcNotification("_auth/status_update", {}), *tell("next"))
        await settle()

        assert recorder.entries == ["next"]
        assert connection.statistics().junk == 0


async def test_other_tasks_run_while_an_agent_floods() -> None:
    """All messages arrive in one chunk; the other task runs once per scheduler round.

    trio chooses the order within a round, so two intervals may pass between two of its runs.
    """
    counts = [0]
    recorder = RecordingHandlers()
    async with connected(recorder.handlers) as (_connection, agent), trio.open_nursery() as nursery:

        async def look() -> None:
            while len(recorder.entries) < 1000:
                counts.append(len(recorder.entries))
                await trio.lowlevel.checkpoint()

        nursery.start_soon(look)
        await agent.says(*tell(*range(1000)))

    gaps = [after - before for before, after in pairwise([*counts, 1000])]
    assert max(gaps) <= 2 * MESSAGES_PER_CHECKPOINT
    assert recorder.entries == list(range(1000))
