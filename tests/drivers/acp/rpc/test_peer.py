"""Who owes whom an answer, with any order of things and anything between them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from supervisor.drivers.acp.rpc import peer as peer_module
from supervisor.drivers.acp.rpc.messages import (
    INVALID_REQUEST,
    Answer,
    Id,
    Message,
    Notification,
    Refusal,
    Request,
    RpcError,
    Unsendable,
    encode,
    parse,
)
from supervisor.drivers.acp.rpc.peer import (
    MAX_GIVEN_UP,
    TOO_MANY_REQUESTS,
    AnsweredTwice,
    CallId,
    CancelAsked,
    Event,
    Fault,
    Peer,
)
from tests.drivers.acp.sayings import cut, garbage, ids, messages, notifications, values

PATIENT = 10_000  # more requests than any test has


def events_of(peer: Peer, *pieces: bytes) -> list[Event]:
    found = []
    for piece in pieces:
        peer.feed(piece)
        while (event := peer.next_event()) is not None:
            found.append(event)
    return found


def hear(peer: Peer, message: Message) -> list[Event]:
    return events_of(peer, encode(message))


def read(line: bytes | None) -> object:
    return parse(line.strip()) if line is not None else None


# Our calls --------------------------------------------------------------------------------


def test_a_call_is_a_request_that_its_answer_ends() -> None:
    peer = Peer()

    call_id, line = peer.call("initialize", {"protocolVersion": 1})

    assert read(line) == Request(call_id, "initialize", {"protocolVersion": 1})
    assert peer.statistics().open_calls == 1
    assert hear(peer, Answer(call_id, "hello")) == [Answer(call_id, "hello")]
    assert peer.statistics().open_calls == 0


def test_answers_may_come_in_any_order() -> None:
    peer = Peer()
    first, second, third = (peer.call("m")[0] for _ in range(3))

    heard = [hear(peer, Answer(call_id)) for call_id in (third, first, second)]

    assert heard == [[Answer(third)], [Answer(first)], [Answer(second)]]


@pytest.mark.parametrize("second", [Answer(1, "again"), Refusal(1, 5, "no")])
def test_a_second_answer_is_a_fault_and_dropped(second: Message) -> None:
    peer = Peer()
    peer.call("m")
    hear(peer, Answer(1))

    (fault,) = hear(peer, second)

    assert isinstance(fault, Fault)
    assert fault.kind == "unknown_answer"
    assert peer.statistics().unknown_answer == 1


@pytest.mark.parametrize("unknown", [0, 2, "1", None])
def test_an_answer_to_nothing_that_was_asked_is_a_fault(unknown: Id) -> None:
    peer = Peer()
    peer.call("m")

    (fault,) = hear(peer, Answer(unknown))

    assert isinstance(fault, Fault)
    assert fault.kind == "unknown_answer"
    assert peer.statistics().open_calls == 1


def test_what_cannot_be_sent_opens_no_call() -> None:
    peer = Peer()

    with pytest.raises(Unsendable):
        peer.call("m", {"text": "\ud800"})

    assert peer.statistics().open_calls == 0


def test_giving_a_call_up_tells_them_which() -> None:
    peer = Peer()
    call_id, _ = peer.call("m")

    assert read(peer.give_up(call_id)) == Notification("$/cancel_request", {"requestId": call_id})
    assert peer.give_up(call_id) is None


def test_the_answer_to_a_call_that_was_given_up_is_late_and_no_fault() -> None:
    peer = Peer()
    call_id, _ = peer.call("m")
    peer.give_up(call_id)

    assert hear(peer, Answer(call_id)) == []
    assert peer.statistics().late_answers == 1
    assert peer.statistics().unknown_answer == 0

    hear(peer, Answer(call_id))
    assert peer.statistics().unknown_answer == 1


def test_a_call_that_was_answered_cannot_be_given_up() -> None:
    peer = Peer()
    call_id, _ = peer.call("m")
    hear(peer, Answer(call_id))

    assert peer.give_up(call_id) is None


def test_calls_that_were_given_up_are_remembered_but_not_without_end() -> None:
    peer = Peer()
    for _ in range(MAX_GIVEN_UP + 1):
        peer.give_up(peer.call("m")[0])

    hear(peer, Answer(1))
    hear(peer, Answer(2))

    assert (peer.statistics().unknown_answer, peer.statistics().late_answers) == (1, 1)


# Their requests ---------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", [0, 7, "a", "", None])
def test_a_request_is_open_until_it_is_answered(request_id: Id) -> None:
    peer = Peer()

    assert hear(peer, Request(request_id, "m")) == [Request(request_id, "m")]
    assert peer.statistics().open_requests == 1
    assert read(peer.answer(request_id, {"a": 1})) == Answer(request_id, {"a": 1})
    assert peer.statistics().open_requests == 0


def test_a_refusal_is_an_answer_too() -> None:
    peer = Peer()
    hear(peer, Request(1, "m"))

    line = peer.refuse(1, RpcError(-32602, "the path is not absolute", {"path": "x"}))

    assert read(line) == Refusal(1, -32602, "the path is not absolute", {"path": "x"})
    assert peer.statistics().open_requests == 0


def test_answering_twice_is_our_own_mistake() -> None:
    peer = Peer()
    hear(peer, Request(1, "m"))
    peer.answer(1, None)

    with pytest.raises(AnsweredTwice):
        peer.refuse(1, RpcError(5, "no"))


def test_an_answer_that_cannot_be_sent_leaves_the_request_open() -> None:
    peer = Peer()
    hear(peer, Request(1, "m"))

    with pytest.raises(Unsendable):
        peer.answer(1, float("nan"))

    assert peer.answer(1, None)


def test_a_request_whose_id_is_open_is_refused_and_the_first_goes_on() -> None:
    peer = Peer()
    hear(peer, Request(1, "first"))

    (fault,) = hear(peer, Request(1, "second"))

    assert isinstance(fault, Fault)
    refusal = read(fault.reply)
    assert isinstance(refusal, Refusal)
    assert (refusal.id, refusal.code) == (1, INVALID_REQUEST)
    assert peer.answer(1, "of the first")


def test_an_id_may_be_used_again_once_it_was_answered() -> None:
    peer = Peer()
    hear(peer, Request(1, "m"))
    peer.answer(1, None)

    assert hear(peer, Request(1, "m")) == [Request(1, "m")]


def test_more_requests_than_may_be_open_are_refused() -> None:
    peer = Peer(max_open_requests=2)
    hear(peer, Request(1, "m"))
    hear(peer, Request(2, "m"))

    (fault,) = hear(peer, Request(3, "m"))

    assert isinstance(fault, Fault)
    refusal = read(fault.reply)
    assert isinstance(refusal, Refusal)
    assert (refusal.id, refusal.code) == (3, TOO_MANY_REQUESTS)
    assert "2 requests are open" in refusal.message
    peer.answer(1, None)
    assert hear(peer, Request(4, "m")) == [Request(4, "m")]


def test_requests_that_are_very_large_may_be_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "MAX_OPEN_BYTES", 1_000)
    peer = Peer()
    large = [encode(Request(number, "m", "x" * 500)) for number in range(3)]

    assert [type(event) for event in events_of(peer, *large)] == [Request, Request, Fault]
    peer.answer(0, None)
    assert hear(peer, Request(3, "m")) == [Request(3, "m")]


def test_they_may_cancel_a_request_that_is_open() -> None:
    peer = Peer()
    hear(peer, Request("a", "m"))
    cancel = Notification("$/cancel_request", {"requestId": "a"})

    assert hear(peer, cancel) == [CancelAsked("a")]
    peer.answer("a", None)
    assert hear(peer, cancel) == []


@pytest.mark.parametrize(
    "params", [None, [], "a", {}, {"requestId": []}, {"requestId": {}}, {"requestId": 1.0}]
)
def test_a_cancel_that_names_nothing_is_ignored(params: object) -> None:
    peer = Peer()
    hear(peer, Request(1, "m"))

    assert hear(peer, Notification("$/cancel_request", params)) == []


# Anything between -------------------------------------------------------------------------


def test_lines_that_are_too_long_are_counted_in_their_place() -> None:
    peer = Peer(max_line_bytes=100)

    first, fault, last = events_of(
        peer, encode(Notification("a")) + b"x" * 101 + b"\n" + encode(Notification("b"))
    )

    assert (first, last) == (Notification("a"), Notification("b"))
    assert isinstance(fault, Fault)
    assert fault.kind == "too_long"
    assert peer.statistics().too_long == 1


def test_a_batch_is_junk() -> None:
    peer = Peer()

    (fault,) = events_of(peer, b'[{"jsonrpc":"2.0","id":1,"method":"m"}]\n')

    assert isinstance(fault, Fault)
    assert fault.reply is None
    assert peer.statistics().junk == 1


def test_a_message_without_a_newline_counts_once_nothing_more_can_come() -> None:
    peer = Peer()
    assert events_of(peer, encode(Notification("bye")).strip()) == []

    peer.finish()

    assert peer.next_event() == Notification("bye")


def test_messages_are_looked_at_one_at_a_time() -> None:
    peer = Peer(max_open_requests=1)
    peer.feed(encode(Request(1, "m")) + encode(Request(2, "m")))

    assert peer.next_event() == Request(1, "m")
    peer.answer(1, None)
    assert peer.next_event() == Request(2, "m")


@given(
    st.lists(messages | garbage, max_size=12),
    st.lists(st.integers(min_value=0), max_size=8),
    st.sampled_from([b"\n", b"\r\n", b"\n\n"]),
)
def test_no_valid_message_is_lost_or_overtaken_whatever_lies_between(
    said: list[Message | bytes], places: list[int], ending: bytes
) -> None:
    """Their requests and notifications come out; what answers nothing, and junk, are faults."""
    lines = [item if isinstance(item, bytes) else encode(item).strip() for item in said]
    peer = Peer(max_open_requests=PATIENT)

    events = events_of(peer, *cut(b"".join(line + ending for line in lines), places))

    heard = [event for event in events if isinstance(event, Request | Notification)]
    faults = [event for event in events if isinstance(event, Fault)]
    sent = [item for item in said if isinstance(item, Request | Notification)]
    assert heard == without_repeats(sent)
    assert len(events) == len(heard) + len(faults) == len(said)


def without_repeats(said: Sequence[Request | Notification]) -> list[Request | Notification]:
    """Nothing is answered here, so of the requests with one id all but the first are refused."""
    seen: set[Id] = set()
    kept = []
    for message in said:
        if isinstance(message, Request):
            if message.id in seen:
                continue
            seen.add(message.id)
        kept.append(message)
    return kept


class BothSides(RuleBasedStateMachine):
    """A peer, and the plainest account of what is open in each direction."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(max_open_requests=4)
        self.calls: list[CallId] = []
        self.given_up: list[CallId] = []
        self.requests: list[Id] = []
        self.unknown = self.repeated = self.too_many = self.junk = self.late = 0

    @rule(params=values)
    def call(self, params: object) -> None:
        call_id, line = self.peer.call("m", params)
        assert read(line) == Request(call_id, "m", params)
        self.calls.append(call_id)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call_id)
        self.given_up.append(call_id)
        assert self.peer.give_up(call_id) is not None

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), result=values)
    def they_answer(self, data: st.DataObject, result: object) -> None:
        call_id = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call_id)
        assert hear(self.peer, Answer(call_id, result)) == [Answer(call_id, result)]

    @precondition(lambda self: self.given_up)
    @rule(data=st.data())
    def they_answer_late(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.given_up))
        self.given_up.remove(call_id)
        self.late += 1
        assert hear(self.peer, Refusal(call_id, -32800, "cancelled")) == []

    @rule(answered=ids)
    def they_answer_anything(self, answered: Id) -> None:
        if answered not in self.calls and answered not in self.given_up:
            self.unknown += 1
            assert isinstance(hear(self.peer, Answer(answered))[0], Fault)

    @rule(request_id=ids)
    def they_ask(self, request_id: Id) -> None:
        heard = hear(self.peer, Request(request_id, "m"))
        if request_id in self.requests:
            self.repeated += 1
        elif len(self.requests) == 4:
            self.too_many += 1
        else:
            self.requests.append(request_id)
            assert heard == [Request(request_id, "m")]
            return
        assert isinstance(heard[0], Fault)
        assert orjson.loads(heard[0].reply or b"")["id"] == request_id

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), result=values)
    def answer(self, data: st.DataObject, result: object) -> None:
        request_id = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request_id)
        assert read(self.peer.answer(request_id, result)) == Answer(request_id, result)

    @rule(cancelled=ids)
    def they_cancel(self, cancelled: Id) -> None:
        heard = hear(self.peer, Notification("$/cancel_request", {"requestId": cancelled}))
        assert heard == ([CancelAsked(cancelled)] if cancelled in self.requests else [])

    @rule(told=notifications)
    def they_tell(self, told: Notification) -> None:
        assert hear(self.peer, told) == [told]

    @rule(line=garbage)
    def they_write_rubbish(self, line: bytes) -> None:
        self.junk += 1
        assert isinstance(events_of(self.peer, line + b"\n")[0], Fault)

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
