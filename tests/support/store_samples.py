"""Writes and views used by the store tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from supervisor.core import events as ev
from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact, number_facts
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from supervisor.core.limits import Limits, Lineage
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
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
from supervisor.core.table import decide
from supervisor.store.port import Store, Stored, StoredReply, Write

from .event_histories import Chance

ONE = SessionId("s_one")
TWO = SessionId("s_two")
THREE = SessionId("s_three")
UNKNOWN = SessionId("s_nobody")


async def claim(store: Store, session_id: SessionId) -> Stored | None:
    """Claim one session."""
    [stored] = await store.claim([session_id])
    return stored


def creation_write(session_id: SessionId = ONE, plan: SessionSpec | None = None) -> Write:
    """Return the write that creates a session: one record and the row."""
    session, facts = create(session_id, plan or SessionSpec(agent="echo"), at=1.0)
    return Write(session_id, 0, number_facts(session_id, facts, after=0), session)


def plan_record(session_id: SessionId, seq: int, body: Mapping[str, Any] | None = None) -> Record:
    """Return a record with a text."""
    return Record(session_id, seq, 2.0, None, "plan", {"number": seq} if body is None else body)


def text_record(seq: int, text: str, session_id: SessionId = ONE) -> Record:
    return Record(session_id, seq, 2.0, None, "user_text", {"text": text, "part": None})


def next_write(
    session_id: SessionId,
    *numbers: int,
    epoch: int = 0,
    row: SessionState | None = None,
    kept: StoredReply | None = None,
    also: Write | None = None,
) -> Write:
    """Return a write of records with these numbers."""
    records = tuple(plan_record(session_id, number) for number in numbers)
    return Write(session_id, epoch, records, row, kept, also)


def row(session_id: SessionId = ONE, **changes: Any) -> SessionState:  # noqa: ANN401 - fields of the state
    return SessionState(id=session_id, agent_name="echo", **changes)


def receipt(scope: str = ONE, key: str = "key", answer: object = "first") -> StoredReply:
    return StoredReply(scope, key, "fingerprint", {"answer": answer})


async def rows_of(store: Store, *, after: int = 0) -> list[Stored]:
    return [stored async for stored in store.rows(after=after)]


async def numbers_of(store: Store, session_id: SessionId = ONE) -> list[int]:
    return [record.seq for record in await store.records(session_id)]


async def visible_data_of(store: Store) -> tuple[list[Stored], list[tuple[int, Record]]]:
    """Return everything that a reader can see without knowing an id."""
    return await rows_of(store), await store.all_records()


def differences(one: object, other: object, way: str = "") -> list[str]:
    """Return where two values differ; 1, 1.0 and True are different."""
    if type(one) is not type(other):
        return [f"{way or 'all'}: {type(one).__name__}, {type(other).__name__}"]
    mine, yours = _parts(one), _parts(other)
    if mine is None or yours is None or mine.keys() != yours.keys():
        return [] if one == other else [f"{way or 'all'}: {one!r:.50}, {other!r:.50}"]
    return [
        difference
        for name in mine
        for difference in differences(mine[name], yours[name], f"{way}.{name}")
    ]


def _parts(thing: object) -> dict[object, object] | None:
    kind: Any = type(thing)
    if attrs.has(kind):
        return {field.name: getattr(thing, field.name) for field in attrs.fields(kind)}
    if isinstance(thing, Mapping):
        return dict(thing)
    return dict(enumerate(thing)) if isinstance(thing, tuple | list) else None


PLAN = SessionSpec(
    agent="echo",
    key=SessionKey("a:b", "c%d", "é", "\x00"),
    kind="system",
    name="a name",
    tags=("x", "y"),
    custom={"k": "v", "": "😀"},
    workspace="/somewhere",
    lineage=Lineage(role="worker", expires_at=5.5),
    limits=Limits(turns=100, cost=2.5),
)


def random_session(
    seed: int, length: int, session_id: SessionId = ONE
) -> Iterator[tuple[SessionState, tuple[Fact, ...], ev.Event | None]]:
    """Yield the states of a random session from its creation on, each with its facts and event."""
    chance = Chance(seed)
    like = chance.session()
    name = f"first name of {session_id}"  # a store refuses one that another session holds
    plan = attrs.evolve(PLAN, name=name, terms=like.terms, permissions=like.permissions)
    session, facts = create(session_id, plan, at=chance.now)
    last_seq = len(facts)
    yield session, facts, None
    for _ in range(length):
        event = chance.event(session)
        step = decide(session, event, last_seq)
        session, last_seq = step.state, last_seq + len(step.facts)
        yield session, step.facts, event


FULL_STATE = SessionState(
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
