"""The records page lists exactly the written kinds, their fields and their changes."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

import supervisor
from actors.testing import VirtualClock
from supervisor.core import events as ev
from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact, fact_of
from supervisor.core.fold import fold
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.records import KINDS, STREAMED, RecordKind
from supervisor.core.state import Phase, SessionState
from supervisor.core.table import decide
from supervisor.core.text import MAX_RESULT_BYTES
from supervisor.drivers.acp.agent import scripted_process
from tests.support.acp_supervisor import open_acp_supervisor
from tests.support.event_histories import history
from tests.support.fake_agents import records

PAGE = Path(__file__).parents[2] / "docs/reference/records.md"
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
FIELD = re.compile(r"`(\w+)`(\??)")
HISTORIES = 1_000
LENGTH = 100
# Its other fields are of warnings that drivers write.
HALF_WRITTEN = {"warning"}
REPLACE_ALL = ev.InterruptRequested(
    at=5_000.0,
    fresh=TurnId("turn_fresh"),
    whole=True,
    queued="cancel",
    replacement=InputId("in_fresh"),
    replace_with="this instead",
)


@attrs.frozen
class Entry:
    kind: str
    always: frozenset[str]
    sometimes: frozenset[str]
    changes: frozenset[str]


@supervisor.agent("talker")
async def talker(turn: supervisor.Turn) -> None:
    await turn.plan(["talk"])
    await turn.think("what to say?")
    async with turn.tool("look") as call:
        call.update("half")
    await turn.say("hello" if turn.text == "talk" else "a" * (MAX_RESULT_BYTES + 1))


async def records_of_a_real_session() -> list[supervisor.Record]:
    news = await news_of_a_real_session()
    async with supervisor.open(agents=[talker]) as sup:
        session = await sup.create("talker")
        await session.prompt("talk")
        await session.prompt("talk at length")
        await session.append("agent", "and more")
        return news + [record for turn in await session.history() for record in turn.records]


async def news_of_a_real_session() -> list[supervisor.Record]:
    agent = scripted_process("agent", subagents=True)
    async with open_acp_supervisor(agent) as (sup, _):
        session = await sup.create("agent")
        await session.prompt("notice info a\ncompact 5 b\nsubagent c running\nsay d")
        return await records(session, "notice", "agent_compaction", "subagent")


@functools.cache
def facts_written() -> list[Fact]:
    real = trio.run(records_of_a_real_session, clock=VirtualClock())
    with_more = SessionSpec(agent="talker", options={"model": "large"}, mcp_servers=("files",))
    _, created = create(SessionId("s_2"), with_more, at=1.0)
    return [*map(fact_of, real), *created, *(fact for _, fact in folded())]


def folded() -> Iterator[tuple[SessionState, Fact]]:
    """Every fact of many random histories, with the session that it comes upon."""
    for seed in range(HISTORIES):
        for session, event in history(seed, LENGTH):
            yield from facts_of(session, event)
            if session.phase is Phase.SUSPENDED and session.inputs:
                yield from facts_of(session, REPLACE_ALL)  # histories hardly ever do


def facts_of(session: SessionState, event: ev.Event) -> Iterator[tuple[SessionState, Fact]]:
    for fact in decide(session, event).facts:
        yield session, fact
        session = fold(session, fact)


@functools.cache
def changes_seen() -> dict[str, set[str]]:
    names = [field.name for field in attrs.fields(SessionState) if field.name != "updated_at"]
    seen: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for before, fact in folded():
        after = fold(before, fact)
        seen[fact.kind] |= {n for n in names if getattr(before, n) != getattr(after, n)}
    return seen


def listed() -> dict[str, Entry]:
    entries = {}
    for kind, body, changes in ROW.findall(PAGE.read_text()):
        fields = FIELD.findall(body)
        entries[kind] = Entry(
            kind,
            always=frozenset(name for name, mark in fields if not mark),
            sometimes=frozenset(name for name, mark in fields if mark),
            changes=frozenset(name for name, _ in FIELD.findall(changes)),
        )
    return entries


def test_the_page_lists_every_kind_once() -> None:
    assert sorted(kind for kind, _, _ in ROW.findall(PAGE.read_text())) == sorted(KINDS)


def test_every_record_kind_is_written() -> None:
    assert {fact.kind for fact in facts_written()} == set(KINDS)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - HALF_WRITTEN))
def test_the_page_names_the_fields_of_every_body(kind: RecordKind) -> None:
    bodies = [set(fact.body) for fact in facts_written() if fact.kind == kind]

    always, ever = set.intersection(*bodies), set.union(*bodies)

    assert listed()[kind].always == always
    assert listed()[kind].sometimes == ever - always


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"session_created"}))
def test_the_page_names_the_row_fields_that_a_kind_changes(kind: RecordKind) -> None:
    assert listed()[kind].changes == changes_seen()[kind]


def test_streamed_text_changes_no_row() -> None:
    session = SessionState(id=SessionId("s_1"), agent_name="talker")
    part = {"text": "hello", "part": "p.1", "continues": False}

    for kind in STREAMED:
        assert fold(session, Fact(kind, 1.0, part)) is session
