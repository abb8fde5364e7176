"""Open calls and requests, in any order and with invalid lines between; see acp/rpc_peer.py."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from supervisor.json_rpc.request_budget import FREE_BYTES, RequestBudget
from supervisor.json_rpc.rpc_messages import (
    INVALID_REQUEST,
    RpcError,
    RpcErrorResponse,
    RpcId,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    Unsendable,
    encode,
    parse,
)
from supervisor.json_rpc.rpc_peer import (
    MAX_ABANDONED_CALLS,
    TOO_MANY_REQUESTS,
    AnsweredTwice,
    CancelRequested,
    InvalidAnswerReceived,
    Peer,
    PeerEvent,
    RpcCallId,
    RpcFault,
)
from tests.support.rpc_samples import cut, garbage, ids, messages, notifications, values

PATIENT = 10_000  # more requests than any test has


def events_of(peer: Peer, *pieces: bytes) -> list[PeerEvent]:
    found = []
    for piece in pieces:
        peer.feed(piece)
        while (event := peer.next_event()) is not None:
            found.append(event)
    return found


def hear(peer: Peer, message: RpcMessage) -> list[PeerEvent]:
    return events_of(peer, encode(message))


def read(line: bytes | None) -> object:
    return parse(line.strip()) if line is not None else None


# Our calls --------------------------------------------------------------------------------


def test_an_answer_ends_its_call() -> None:
    peer = Peer()

    call_id, line = peer.call("initialize", {"protocolVersion": 1})

    assert read(line) == RpcRequest(call_id, "initialize", {"protocolVersion": 1})
    assert peer.statistics().open_calls == 1
    assert hear(peer, RpcResult(call_id, "hello")) == [RpcResult(call_id, "hello")]
    assert peer.statistics().open_calls == 0


def test_answers_may_come_in_any_order() -> None:
    peer = Peer()
    first, second, third = (peer.call("m")[0] for _ in range(3))

    heard = [hear(peer, RpcResult(call_id)) for call_id in (third, first, second)]

    assert heard == [[RpcResult(third)], [RpcResult(first)], [RpcResult(second)]]


@pytest.mark.parametrize("second", [RpcResult(1, "again"), RpcErrorResponse(1, 5, "no")])
def test_a_second_answer_is_a_fault_and_dropped(second: RpcMessage) -> None:
    peer = Peer()
    peer.call("m")
    hear(peer, RpcResult(1))

    (fault,) = hear(peer, second)

    assert isinstance(fault, RpcFault)
    assert fault.kind == "unknown_answer"
    assert peer.statistics().unknown_answer == 1


@pytest.mark.parametrize("unknown", [0, 2, "1", None])
def test_an_answer_without_a_call_is_a_fault(unknown: RpcId) -> None:
    peer = Peer()
    peer.call("m")

    (fault,) = hear(peer, RpcResult(unknown))

    assert isinstance(fault, RpcFault)
    assert fault.kind == "unknown_answer"
    assert peer.statistics().open_calls == 1


def test_unsendable_params_open_no_call() -> None:
    peer = Peer()

    with pytest.raises(Unsendable):
        peer.call("m", {"text": "\ud800"})

    assert peer.statistics().open_calls == 0


def test_abandoning_a_call_returns_its_cancel() -> None:
    peer = Peer()
    call_id, _ = peer.call("m")

    assert read(peer.abandon_call(call_id)) == RpcNotification(
        "$/cancel_request", {"requestId": call_id}
    )
    assert peer.abandon_call(call_id) is None


def test_the_answer_to_an_abandoned_call_is_not_a_fault() -> None:
    peer = Peer()
    call_id, _ = peer.call("m")
    peer.abandon_call(call_id)

    assert hear(peer, RpcResult(call_id)) == []
    assert peer.statistics().late_answers == 1
    assert peer.statistics().unknown_answer == 0

    hear(peer, RpcResult(call_id))
    assert peer.statistics().unknown_answer == 1


def test_an_answered_call_cannot_be_abandoned() -> None:
    peer = Peer()
    call_id, _ = peer.call("m")
    hear(peer, RpcResult(call_id))

    assert peer.abandon_call(call_id) is None


def test_the_number_of_remembered_abandoned_calls_is_bounded() -> None:
    peer = Peer()
    for _ in range(MAX_ABANDONED_CALLS + 1):
        peer.abandon_call(peer.call("m")[0])

    hear(peer, RpcResult(1))
    hear(peer, RpcResult(2))

    assert (peer.statistics().unknown_answer, peer.statistics().late_answers) == (1, 1)


# Requests of the agent --------------------------------------------------------------------


@pytest.mark.parametrize("request_id", [0, 7, "a", "", None])
def test_a_request_is_open_until_it_is_answered(request_id: RpcId) -> None:
    peer = Peer()

    assert hear(peer, RpcRequest(request_id, "m")) == [RpcRequest(request_id, "m")]
    assert peer.statistics().open_requests == 1
    assert read(peer.answer(request_id, {"a": 1})) == RpcResult(request_id, {"a": 1})
    assert peer.statistics().open_requests == 0


def test_a_refusal_closes_the_request() -> None:
    peer = Peer()
    hear(peer, RpcRequest(1, "m"))

    line = peer.refuse(1, RpcError(-32602, "the path is not absolute", {"path": "x"}))

    assert read(line) == RpcErrorResponse(1, -32602, "the path is not absolute", {"path": "x"})
    assert peer.statistics().open_requests == 0


def test_answering_a_request_twice_raises() -> None:
    peer = Peer()
    hear(peer, RpcRequest(1, "m"))
    peer.answer(1, None)

    with pytest.raises(AnsweredTwice):
        peer.refuse(1, RpcError(5, "no"))


def test_an_unsendable_answer_leaves_the_request_open() -> None:
    peer = Peer()
    hear(peer, RpcRequest(1, "m"))

    with pytest.raises(Unsendable):
        peer.answer(1, float("nan"))

    assert peer.answer(1, None)


def test_a_request_with_an_open_id_is_refused() -> None:
    peer = Peer()
    hear(peer, RpcRequest(1, "first"))

    (fault,) = hear(peer, RpcRequest(1, "second"))

    assert isinstance(fault, RpcFault)
    refusal = read(fault.reply)
    assert isinstance(refusal, RpcErrorResponse)
    assert (refusal.id, refusal.code) == (1, INVALID_REQUEST)
    assert peer.answer(1, "of the first")


def test_an_id_can_be_used_again_after_its_answer() -> None:
    peer = Peer()
    hear(peer, RpcRequest(1, "m"))
    peer.answer(1, None)

    assert hear(peer, RpcRequest(1, "m")) == [RpcRequest(1, "m")]


def test_requests_above_the_limit_are_refused() -> None:
    peer = Peer(max_open_requests=2)
    hear(peer, RpcRequest(1, "m"))
    hear(peer, RpcRequest(2, "m"))

    (fault,) = hear(peer, RpcRequest(3, "m"))

    assert isinstance(fault, RpcFault)
    refusal = read(fault.reply)
    assert isinstance(refusal, RpcErrorResponse)
    assert (refusal.id, refusal.code) == (3, TOO_MANY_REQUESTS)
    assert "2 requests are open" in refusal.message
    peer.answer(1, None)
    assert hear(peer, RpcRequest(4, "m")) == [RpcRequest(4, "m")]


def test_open_requests_of_all_agents_together_are_limited_by_size() -> None:
    budget = RequestBudget(max_bytes=2 * FREE_BYTES)
    first, second = Peer(request_budget=budget), Peer(request_budget=budget)
    large = RpcRequest(1, "m", "x" * FREE_BYTES)
    small = RpcRequest(2, "m", "x")

    assert hear(first, large) == [large]
    (fault,) = hear(second, large)
    assert isinstance(fault, RpcFault)
    refusal = read(fault.reply)
    assert isinstance(refusal, RpcErrorResponse)
    assert (refusal.id, refusal.code) == (1, TOO_MANY_REQUESTS)
    assert "send this one later" in refusal.message
    assert hear(second, small) == [small]
    first.answer(1, None)
    assert hear(second, large) == [large]
    second.drop_requests()
    assert budget.bytes == 0


def test_the_agent_can_cancel_an_open_request() -> None:
    peer = Peer()
    hear(peer, RpcRequest("a", "m"))
    cancel = RpcNotification("$/cancel_request", {"requestId": "a"})

    assert hear(peer, cancel) == [CancelRequested("a")]
    peer.answer("a", None)
    assert hear(peer, cancel) == []


@pytest.mark.parametrize(
    "params", [None, [], "a", {}, {"requestId": []}, {"requestId": {}}, {"requestId": 1.0}]
)
def test_a_cancel_of_an_unknown_request_is_ignored(params: object) -> None:
    peer = Peer()
    hear(peer, RpcRequest(1, "m"))

    assert hear(peer, RpcNotification("$/cancel_request", params)) == []


# Any messages -----------------------------------------------------------------------------


def test_an_overlong_line_is_a_fault_in_order() -> None:
    peer = Peer(max_line_bytes=100)

    first, fault, last = events_of(
        peer, encode(RpcNotification("a")) + b"x" * 101 + b"\n" + encode(RpcNotification("b"))
    )

    assert (first, last) == (RpcNotification("a"), RpcNotification("b"))
    assert isinstance(fault, RpcFault)
    assert fault.kind == "too_long"
    assert peer.statistics().too_long == 1


def test_a_batch_is_a_fault() -> None:
    peer = Peer()

    (fault,) = events_of(peer, b'[{"jsonrpc":"2.0","id":1,"method":"m"}]\n')

    assert isinstance(fault, RpcFault)
    assert fault.reply is None
    assert peer.statistics().junk == 1


def test_a_batch_ends_every_call_that_it_answers() -> None:
    peer = Peer()
    calls = [peer.call("m")[0] for _ in range(3)]
    batch = b'[{"id":1,"result":{"id":2}},{"id":3,"error":{}},5,{"id":1,"result":0},{"id":[]}]\n'

    ended = events_of(peer, batch)

    assert [type(one) for one in ended] == [InvalidAnswerReceived] * 2
    assert [one.call_id for one in ended] == [calls[0], calls[2]]  # type: ignore[union-attr]
    counted = peer.statistics()
    assert (counted.open_calls, counted.junk) == (1, 1)


def test_a_last_line_without_a_newline_is_parsed_at_the_end() -> None:
    peer = Peer()
    assert events_of(peer, encode(RpcNotification("bye")).strip()) == []

    peer.finish()

    assert peer.next_event() == RpcNotification("bye")


def test_messages_are_parsed_one_at_a_time() -> None:
    peer = Peer(max_open_requests=1)
    peer.feed(encode(RpcRequest(1, "m")) + encode(RpcRequest(2, "m")))

    assert peer.next_event() == RpcRequest(1, "m")
    peer.answer(1, None)
    assert peer.next_event() == RpcRequest(2, "m")


@given(
    st.lists(messages | garbage, max_size=12),
    st.lists(st.integers(min_value=0), max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\n\n"]),
)
def test_valid_messages_keep_their_order_between_any_invalid_lines(
    said: list[RpcMessage | bytes], places: list[int], ending: bytes
) -> None:
    """Requests and notifications become events; stray answers and invalid lines are faults."""
    lines = [item if isinstance(item, bytes) else encode(item).strip() for item in said]
    peer = Peer(max_open_requests=PATIENT)

    events = events_of(peer, *cut(b"".join(line + ending for line in lines), places))

    heard = [event for event in events if isinstance(event, RpcRequest | RpcNotification)]
    faults = [event for event in events if isinstance(event, RpcFault)]
    sent = [item for item in said if isinstance(item, RpcRequest | RpcNotification)]
    assert heard == without_repeats(sent)
    assert len(events) == len(heard) + len(faults) == len(said)


def without_repeats(
    said: Sequence[RpcRequest | RpcNotification],
) -> list[RpcRequest | RpcNotification]:
    """Without answers, all but the first request with an id are refused."""
    seen: set[RpcId] = set()
    kept = []
    for message in said:
        if isinstance(message, RpcRequest):
            if message.id in seen:
                continue
            seen.add(message.id)
        kept.append(message)
    return kept


class BothSides(RuleBasedStateMachine):
    """A peer and a simple model of its open calls and requests."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(max_open_requests=4)
        self.calls: list[RpcCallId] = []
        self.given_up: list[RpcCallId] = []
        self.requests: list[RpcId] = []
        self.unknown = self.repeated = self.too_many = self.junk = self.late = 0

    @rule(params=values)
    def call(self, params: object) -> None:
        call_id, line = self.peer.call("m", params)
        assert read(line) == RpcRequest(call_id, "m", params)
        self.calls.append(call_id)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call_id)
        self.given_up.append(call_id)
        assert self.peer.abandon_call(call_id) is not None

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), result=values)
    def they_answer(self, data: st.DataObject, result: object) -> None:
        call_id = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call_id)
        assert hear(self.peer, RpcResult(call_id, result)) == [RpcResult(call_id, result)]

    @precondition(lambda self: self.given_up)
    @rule(data=st.data())
    def they_answer_late(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.given_up))
        self.given_up.remove(call_id)
        self.late += 1
        assert hear(self.peer, RpcErrorResponse(call_id, -32800, "cancelled")) == []

    @rule(answered=ids)
    def they_answer_anything(self, answered: RpcId) -> None:
        if answered not in self.calls and answered not in self.given_up:
            self.unknown += 1
            assert isinstance(hear(self.peer, RpcResult(answered))[0], RpcFault)

    @rule(request_id=ids)
    def they_ask(self, request_id: RpcId) -> None:
        heard = hear(self.peer, RpcRequest(request_id, "m"))
        if request_id in self.requests:
            self.repeated += 1
        elif len(self.requests) == 4:
            self.too_many += 1
        else:
            self.requests.append(request_id)
            assert heard == [RpcRequest(request_id, "m")]
            return
        assert isinstance(heard[0], RpcFault)
        assert orjson.loads(heard[0].reply or b"")["id"] == request_id

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), result=values)
    def answer(self, data: st.DataObject, result: object) -> None:
        request_id = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request_id)
        assert read(self.peer.answer(request_id, result)) == RpcResult(request_id, result)

    @rule(cancelled=ids)
    def they_cancel(self, cancelled: RpcId) -> None:
        heard = hear(self.peer, RpcNotification("$/cancel_request", {"requestId": cancelled}))
        assert heard == ([CancelRequested(cancelled)] if cancelled in self.requests else [])

    @rule(told=notifications)
    def they_tell(self, told: RpcNotification) -> None:
        assert hear(self.peer, told) == [told]

    @rule(line=garbage)
    def they_write_rubbish(self, line: bytes) -> None:
        self.junk += 1
        assert isinstance(events_of(self.peer, line + b"\n")[0], RpcFault)

    @invariant()
    def the_accounts_agree(self) -> None:
        counted = self.peer.statistics()
        assert counted.open_calls == len(self.calls)
        assert counted.open_requests == len(self.requests)
        assert counted.unknown_answer == self.unknown
        assert counted.repeated_request == self.repeated
        assert counted.too_many_requests == self.too_many
        assert counted.junk == self.junk
        assert counted.late_answers == self.late


TestBothSides = BothSides.TestCase
TestBothSides.settings = settings(max_examples=50, stateful_step_count=40)
