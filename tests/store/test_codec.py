"""What is encoded comes back as it was, and what was not encoded here does not pass."""

from __future__ import annotations

import gc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import state as rows
from supervisor.core.facts import number_facts
from supervisor.core.ids import CallId, InputId, SessionId, SessionKey, TurnId
from supervisor.core.limits import Ladder, Limits, Lineage, Restart, Terms
from supervisor.core.permissions import MODES, Permissions
from supervisor.core.records import KINDS, Record
from supervisor.core.state import (
    Agent,
    Capabilities,
    Failure,
    OpenCall,
    OpenRequest,
    OpenTurn,
    PendingInput,
    Phase,
    SessionState,
    Stopping,
    Usage,
)
from supervisor.store.codec import decode, encode
from supervisor.store.port import StoredReply
from tests.support.store_samples import FULL_STATE, ONE, differences, random_session, row

SEEDS = range(200)
LENGTH = 60


# Sessions and records of random histories -----------------------------------------------


def states(seed: int) -> list[SessionState]:
    return [session for session, facts, _ in random_session(seed, LENGTH) if facts]


def test_every_state_of_a_history_is_decoded_with_its_types() -> None:
    for seed in SEEDS:
        for session in states(seed):
            assert differences(decode(encode(session), SessionState), session) == [], f"seed {seed}"


def test_every_record_of_a_history_is_decoded_with_its_types() -> None:
    for seed in SEEDS:
        facts = [fact for _, facts, _ in random_session(seed, LENGTH) for fact in facts]
        for record in number_facts(ONE, facts, after=0):
            assert differences(decode(encode(record), Record), record) == [], f"seed {seed}"


def test_the_histories_reach_every_phase() -> None:
    seen = [session for seed in SEEDS for session in states(seed)]

    assert {session.phase for session in seen} == set(Phase)
    for name in ("inputs", "rules", "agent", "turn", "zombie", "stopping", "last_failure"):
        assert any(getattr(session, name) for session in seen), name
    turns = [session.turn for session in seen if session.turn is not None]
    assert any(turn.calls for turn in turns)
    assert any(turn.requests for turn in turns)
    assert any(turn.step for turn in turns)


def test_a_phase_is_an_enum_again() -> None:
    back = decode(encode(row(phase=Phase.SUSPENDED)), SessionState)

    assert back.phase is Phase.SUSPENDED


@pytest.mark.parametrize("name", ["name", "title", "workspace", "stop_reason", "stop_detail"])
@pytest.mark.parametrize("text", ["", " ", None])
def test_empty_text_and_none_are_kept_apart(name: str, text: str | None) -> None:
    back = decode(encode(row().changed(**{name: text})), SessionState)

    assert getattr(back, name) == text


def test_never_is_decoded_as_never() -> None:
    session = row(terms=Terms(suspend_after_seconds=None))

    assert decode(encode(session), SessionState) == session


def test_a_session_with_every_field_is_decoded() -> None:
    back = decode(encode(FULL_STATE), SessionState)

    assert differences(back, FULL_STATE) == []
    assert type(back.permissions.tools) is frozenset
    assert type(back.inputs[0].attachments) is tuple


@pytest.mark.parametrize("interrupt", [None, "asked", "unreachable"])
def test_only_an_interrupted_call_is_written_with_its_interrupt(
    interrupt: rows.CallInterrupt | None,
) -> None:
    call = OpenCall(CallId("call_1"), "bash", interrupt=interrupt)
    turn = OpenTurn(TurnId("turn_1"), InputId("in_1"), "user", 1.0, calls=(call,))
    session = row(turn=turn)

    (written,) = orjson.loads(encode(session))["turn"]["calls"]
    assert ("interrupt" in written) == (interrupt is not None)
    assert decode(encode(session), SessionState) == session


# Anything that fits the types ------------------------------------------------------------

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=10)
maybe_texts = st.none() | names
whole = st.integers(min_value=0, max_value=2**63 - 1)
times = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


bodies = st.dictionaries(texts, plain, max_size=4)
sets = st.none() | st.frozensets(names.filter(str.strip), max_size=3)


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=2).map(tuple)


ids = st.from_regex(r"[a-z0-9_]{3,64}", fullmatch=True)
turns = st.builds(
    OpenTurn,
    id=ids,
    input_id=ids,
    source=st.sampled_from(["user", "parent"]),
    started_at=times,
    calls=tuples(st.builds(OpenCall, ids, texts, cancellable=st.booleans())),
    requests=tuples(
        st.builds(
            OpenRequest,
            ids,
            texts,
            texts,
            st.just(("allow_once",)),
            times,
            st.none() | bodies,
        )
    ),
    step=st.sampled_from([None, "ask", "kill"]),
    usage=st.builds(Usage, whole, whole, seconds),
)


inputs = st.builds(
    PendingInput,
    id=ids,
    number=whole,
    text=texts,
    when_busy=st.sampled_from(["queue", "steer"]),
    source=st.just("user"),
    accepted_at=times,
    generation=whole,
    expires_at=st.none() | times,
    replacement=st.booleans(),
    status=st.sampled_from(["queued", "staged", "handed"]),
    attachments=tuples(bodies),
)


sessions = st.builds(
    SessionState,
    id=ids,
    agent_name=names,
    key=st.none() | st.builds(SessionKey, names, names, names, st.none() | names),
    title=maybe_texts,
    tags=tuples(texts),
    custom=st.dictionaries(texts, texts, max_size=3),
    lineage=st.builds(Lineage, parent=st.none() | ids, depth=whole, expires_at=st.none() | times),
    updated_at=times,
    terms=st.builds(
        Terms,
        queue_cap=whole,
        ladder=st.builds(Ladder, ask_seconds=seconds),
        restart=st.builds(Restart, policy=st.sampled_from(["never", "always"])),
        suspend_after_seconds=st.none() | seconds,
    ),
    limits=st.builds(Limits, turns=st.none() | whole, cost=st.none() | seconds),
    permissions=st.builds(
        Permissions, tools=sets, workspace_paths=sets, mode=st.sampled_from([None, *MODES])
    ),
    phase=st.sampled_from(Phase),
    stopping=st.none() | st.builds(Stopping, st.just("user"), maybe_texts, st.booleans()),
    last_failure=st.none() | st.builds(Failure, texts, texts),
    agent=st.none() | st.builds(Agent, st.just(Capabilities()), maybe_texts, st.none() | whole),
    turn=st.none() | turns,
    inputs=tuples(inputs),
    recent_restarts=tuples(times),
    epoch=whole,
)


@given(session=sessions)
def test_any_session_is_decoded_with_its_types(session: SessionState) -> None:
    assert differences(decode(encode(session), SessionState), session) == []


@given(record=st.builds(Record, ids, whole, times, st.none() | ids, st.sampled_from(KINDS), bodies))
def test_any_record_is_decoded_with_its_types(record: Record) -> None:
    assert differences(decode(encode(record), Record), record) == []


@given(kept=st.builds(StoredReply, texts, texts, texts, bodies))
def test_any_stored_reply_is_decoded_with_its_types(kept: StoredReply) -> None:
    assert differences(decode(encode(kept), StoredReply), kept) == []


# What sessions share --------------------------------------------------------------------


def test_the_cache_of_shared_values_never_confuses_two_values() -> None:
    for number in range(5_000):  # more than are remembered, and each gone before the next
        session = row(terms=Terms(queue_cap=number), limits=Limits(turns=number))

        back = decode(encode(session), SessionState)

        assert back.limits is not None
        assert (back.terms.queue_cap, back.limits.turns) == (number, number)


def test_a_failed_encoding_does_not_poison_the_cache_of_shared_values() -> None:
    terms = Terms(queue_cap=3)
    with pytest.raises(TypeError):
        encode(row(terms=terms, title="\ud800"))

    assert decode(encode(row(terms=terms)), SessionState) == row(terms=terms)


def count_lineages() -> int:
    gc.collect()
    return sum(type(one) is Lineage for one in gc.get_objects())


def test_lineages_of_deleted_children_are_not_kept() -> None:
    root = SessionId("s_root")
    before = count_lineages()  # of other tests
    for number in range(3_000):
        lineage = Lineage(parent=root, root=root, depth=1, input=InputId(f"in_{number}"))
        child = row(SessionId(f"s_{number}"), lineage=lineage)
        assert decode(encode(child), SessionState) == child

    assert count_lineages() - before < 1_500
