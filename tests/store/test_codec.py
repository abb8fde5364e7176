"""What is encoded comes back as it was, and what was not encoded here does not pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import state as rows
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from supervisor.core.limits import Ladder, Limits, Lineage, Restart, Terms
from supervisor.core.permissions import MODES, Permissions
from supervisor.core.records import KINDS, Record, number_facts
from supervisor.core.state import (
    Agent,
    Capabilities,
    Failure,
    OpenCall,
    OpenRequest,
    OpenTurn,
    PendingInput,
    PermissionRule,
    Phase,
    SessionState,
    Stopping,
    Usage,
)
from supervisor.store.codec import decode, encode
from supervisor.store.port import StoredReply
from tests.support.store_samples import ONE, PLAN, birth, differences, life, row, said

SEEDS = range(200)
LENGTH = 60


# Sessions and records of random histories ------------------------------------------------


def states(seed: int) -> list[SessionState]:
    return [session for session, facts, _ in life(seed, LENGTH) if facts]


def test_every_state_of_a_life_comes_back_with_its_types() -> None:
    for seed in SEEDS:
        for session in states(seed):
            assert differences(decode(encode(session), SessionState), session) == [], f"seed {seed}"


def test_every_record_of_a_life_comes_back_with_its_types() -> None:
    for seed in SEEDS:
        facts = [fact for _, facts, _ in life(seed, LENGTH) for fact in facts]
        for record in number_facts(ONE, facts, after=0):
            assert differences(decode(encode(record), Record), record) == [], f"seed {seed}"


def test_the_lives_have_been_everywhere() -> None:
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
def test_empty_text_and_no_text_are_two_things(name: str, text: str | None) -> None:
    back = decode(encode(row().changed(**{name: text})), SessionState)

    assert getattr(back, name) == text


def test_never_comes_back_as_never() -> None:
    session = row(terms=Terms(suspend_after_seconds=None))

    assert decode(encode(session), SessionState) == session


def test_a_full_session_comes_back() -> None:
    back = decode(encode(FULL), SessionState)

    assert differences(back, FULL) == []
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
def test_any_session_comes_back_with_its_types(session: SessionState) -> None:
    assert differences(decode(encode(session), SessionState), session) == []


@given(record=st.builds(Record, ids, whole, times, st.none() | ids, st.sampled_from(KINDS), bodies))
def test_any_record_comes_back_with_its_types(record: Record) -> None:
    assert differences(decode(encode(record), Record), record) == []


@given(kept=st.builds(StoredReply, texts, texts, texts, bodies))
def test_any_kept_answer_comes_back_with_its_types(kept: StoredReply) -> None:
    assert differences(decode(encode(kept), StoredReply), kept) == []


# What sessions share ---------------------------------------------------------------------


def test_what_is_shared_is_not_taken_for_another_that_came_later() -> None:
    for number in range(5_000):  # more than are remembered, and each gone before the next
        session = row(terms=Terms(queue_cap=number), limits=Limits(turns=number))

        back = decode(encode(session), SessionState)

        assert back.limits is not None
        assert (back.terms.queue_cap, back.limits.turns) == (number, number)


def test_what_cannot_be_encoded_spoils_nothing_for_those_who_share_with_it() -> None:
    terms = Terms(queue_cap=3)
    with pytest.raises(TypeError):
        encode(row(terms=terms, title="\ud800"))

    assert decode(encode(row(terms=terms)), SessionState) == row(terms=terms)


# Strictness ------------------------------------------------------------------------------

FULL = SessionState(
    id=ONE,
    agent_name="echo",
    key=PLAN.key,
    name="name",
    title="title",
    tags=("a", "b"),
    custom={"k": "v"},
    workspace="/somewhere",
    lineage=Lineage(parent=SessionId("s_up"), root=SessionId("s_up"), depth=1, role="worker"),
    limits=Limits(turns=1, cost=1.5),
    permissions=Permissions(tools=["bash", "edit"], mode="approve_all"),
    rules=(PermissionRule(RequestId("req"), "bash", "allow_always"),),
    phase=Phase.RUNNING,
    stopping=Stopping("user", "why", after_turn=True),
    stop_reason="error",
    stop_detail="detail",
    last_failure=Failure("timeout", "detail"),
    agent=Agent(Capabilities(ladder=("ask", "kill")), "theirs", 7),
    turn=OpenTurn(
        TurnId("turn"),
        InputId("in"),
        "user",
        1.0,
        calls=(OpenCall(CallId("call"), "bash"),),
        requests=(OpenRequest(RequestId("r"), "bash", "?", ("allow_once",), 1.0, {"cmd": ["ls"]}),),
        step="ask",
        usage=Usage(1, 2, 0.5),
    ),
    zombie=TurnId("turn_0"),
    inputs=(
        PendingInput(
            InputId("i"), 1, "text", "queue", "user", 1.0, 0, 2.0, attachments=({"x": 1},)
        ),
    ),
    recent_restarts=(1.0, 2.5),
)


def changed(thing: object, path: str, value: object) -> bytes:
    """The thing's JSON with another value at `path`, as in `turn.calls.0.name`."""
    whole_thing: Any = orjson.loads(encode(thing))
    *way, last = path.split(".")
    place = functools.reduce(lambda at, step: at[_step(step)], way, whole_thing)
    place[_step(last)] = value
    return orjson.dumps(whole_thing)


def without(thing: object, path: str) -> bytes:
    whole_thing: Any = orjson.loads(encode(thing))
    *way, last = path.split(".")
    del functools.reduce(lambda at, step: at[_step(step)], way, whole_thing)[_step(last)]
    return orjson.dumps(whole_thing)


def can_be_read(data: bytes) -> bool:
    try:
        decode(data, SessionState)
    except ValueError:
        return False
    return True


def _step(text: str) -> int | str:
    return int(text) if text.isdigit() else text


WRONG: list[tuple[str, object]] = [
    ("turns", "5"),
    ("turns", 1.9),
    ("turns", 1.0),
    ("turns", True),
    ("turns", None),
    ("created_at", "1.0"),
    ("created_at", True),
    ("created_at", None),
    ("archived", 0),
    ("archived", "false"),
    ("archived", None),
    ("title", 5),
    ("title", ["t"]),
    ("id", None),
    ("id", 7),
    ("tags", "ab"),
    ("tags", {"a": 1}),
    ("tags", None),
    ("tags", [1]),
    ("tags", [None]),
    ("custom", []),
    ("custom", None),
    ("custom", {"k": 5}),
    ("custom", {"k": None}),
    ("permissions.tools", "bash"),
    ("permissions.tools", {"bash": 1}),
    ("permissions.tools", [5]),
    ("permissions.tools", [" "]),
    ("permissions", None),
    ("permissions", []),
    ("limits.turns", -1),
    ("limits.max_depth", "3"),
    ("limits.cost", "1.5"),
    ("terms.ladder.ask_seconds", -1.0),
    ("key", "a:b:c"),
    ("key.peer", ""),
    ("key.peer", None),
    ("inputs", {}),
    ("inputs", ""),
    ("inputs.0", None),
    ("inputs.0.number", "1"),
    ("inputs.0.attachments", [1]),
    ("turn", {}),
    ("turn", []),
    ("turn", False),
    ("turn.calls.0.cancellable", "yes"),
    ("turn.requests.0.input", []),
    ("turn.usage", None),
    ("agent.pid", 7.5),
    ("agent.capabilities.ladder", "ask"),
    ("recent_restarts", [None]),
    ("recent_restarts", "12"),
]
WORDS = [
    "phase",
    "kind",
    "permissions.mode",
    "terms.steer_fallback",
    "terms.restart.policy",
    "lineage.lifetime",
    "rules.0.decision",
    "stopping.cause",
    "agent.capabilities.steering",
    "agent.capabilities.ladder.0",
    "turn.source",
    "turn.step",
    "turn.requests.0.options.0",
    "inputs.0.when_busy",
    "inputs.0.status",
]


def _paths(thing: Any, way: str = "") -> list[str]:  # noqa: ANN401 - whatever JSON has
    """Every name in it, however deep, but for what is free to have any."""
    found: list[str] = []
    for name, inner in thing.items() if isinstance(thing, dict) else enumerate(thing):
        path = f"{way}{name}"
        if isinstance(thing, dict):
            found.append(path)
        if isinstance(inner, dict | list) and name not in ("custom", "input", "attachments"):
            found += _paths(inner, f"{path}.")
    return found


PATHS = _paths(orjson.loads(encode(FULL)))


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_value_of_another_type_is_refused(path: str, value: object) -> None:
    with pytest.raises(ValueError, match="not a stored SessionState"):
        decode(changed(FULL, path, value), SessionState)


@pytest.mark.parametrize("word", ["unheard-of", "", "IDLE", 1, True, ["ask"]])
def test_an_unknown_word_is_refused(word: object) -> None:
    assert [path for path in WORDS if can_be_read(changed(FULL, path, word))] == []


def test_a_name_that_is_missing_is_refused() -> None:
    never_empty = ["id", "agent_name", "kind", "lineage", "terms", "permissions"]
    written = [*never_empty, "phase", "usage", *(path for path in PATHS if "." in path)]
    # None where None is the default is left out at every depth, so these may be.
    optional = {
        field.name
        for kind in [*vars(rows).values(), Limits, Permissions]
        if isinstance(kind, type) and attrs.has(kind) and kind is not SessionState
        for field in attrs.fields(kind)
        if field.default is None
    }
    written = [path for path in written if path.rpartition(".")[2] not in optional]

    assert len(written) > 50
    assert [path for path in written if can_be_read(without(FULL, path))] == []


@pytest.mark.parametrize("place", ["", "key.", "terms.", "terms.ladder.", "turn.", "turn.usage."])
def test_a_name_too_many_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="not a stored SessionState"):
        decode(changed(FULL, f"{place}colour", "red"), SessionState)


RECORD = said(ONE, 1, {"free": {"to": ["have", 1, None]}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seq", "1"),
        ("seq", 1.0),
        ("seq", True),
        ("at", "now"),
        ("at", None),
        ("kind", "unheard_of"),
        ("kind", None),
        ("body", []),
        ("body", "text"),
        ("body", None),
        ("turn_id", 5),
        ("session_id", None),
        ("colour", "red"),
    ],
)
def test_a_record_that_was_not_written_here_is_refused(path: str, value: object) -> None:
    with pytest.raises(ValueError, match="not a stored Record"):
        decode(changed(RECORD, path, value), Record)


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Record)])
def test_a_record_without_one_of_its_names_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a stored Record"):
        decode(without(RECORD, name), Record)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'""',
        b"{}",
        b"{",
        b"\x00",
        b"\xff\xfe",
        b'{"id": "\xed\xa0\x80"}',
        b"[" * 100_000,
        b'{"id": NaN}',
        encode(FULL)[:-1],
        encode(FULL) + b"}",
        encode(RECORD),
    ],
)
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(ValueError, match="not a stored SessionState"):
        decode(junk, SessionState)


@given(junk=st.binary(max_size=200))
def test_bytes_that_mean_nothing_are_refused(junk: bytes) -> None:
    for kind in (SessionState, Record, StoredReply):
        with pytest.raises(ValueError, match=f"not a stored {kind.__name__}"):
            decode(junk, kind)


@given(data=st.data())
def test_a_row_that_was_cut_or_bitten_is_refused_or_read_as_it_stands(data: st.DataObject) -> None:
    damaged = bytearray(encode(FULL))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))

    _is_refused_or_read_as_it_stands(bytes(damaged))


VALUES: list[object] = [None, True, 0, 7, 1.5, "", "5", "abc", [], [1], ["a"], {}, {"x": 1}]


@given(path=st.sampled_from(PATHS), value=st.sampled_from(VALUES))
def test_what_is_read_is_never_bent_into_shape(path: str, value: object) -> None:
    _is_refused_or_read_as_it_stands(changed(FULL, path, value))


def _is_refused_or_read_as_it_stands(data: bytes) -> None:
    try:
        session = decode(data, SessionState)
    except ValueError:
        return
    assert _in_order(encode(session)) == _in_order(data)


def _in_order(data: bytes) -> bytes:
    """With its names sorted, and without those that say nothing."""
    said_so = {name: value for name, value in orjson.loads(data).items() if value}
    return orjson.dumps(_without_nones(said_so), option=orjson.OPT_SORT_KEYS)


def _without_nones(thing: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(thing, dict):
        return {key: _without_nones(value) for key, value in thing.items() if value is not None}
    return [_without_nones(value) for value in thing] if isinstance(thing, list) else thing


@pytest.mark.parametrize("make", [lambda: FULL, lambda: RECORD, lambda: birth(ONE, PLAN).row])
def test_what_came_back_is_written_the_same_again(make: Callable[[], object]) -> None:
    thing = make()

    assert encode(decode(encode(thing), type(thing))) == encode(thing)
