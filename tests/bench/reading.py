"""A large file: the cost of its history for opening, continuing and reading.

- recovery: 10,000 sessions with ten records each, 100 of them in the middle of a turn when they
  were left; from `supervisor.open` until it yields, against one `SELECT` of the same rows by raw
  sqlite3, which decodes and decides nothing. For information, against that and `orjson.loads`;
- history: a turn of one session that has 10,000 records in the file, against one that has 10; the
  median of many, for a disk that is slow once would hide what is asked;
- lists and searches over those 10,000 sessions, through the public calls, 50 and 20 to a page:
  what fits one in a hundred, so that half of them are looked at for a page; what fits one in a
  thousand, so that all of them are; a word that is in most of what was said, and one that is in
  almost nothing. Against the bound, so that 1.0 is just reached.

The files are made by the store itself from histories decided by the core, not by running turns.
"""

import atexit
import functools
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import trio

import supervisor
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact, number_facts
from supervisor.core.fold import fold
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.state import Agent, Capabilities, SessionState
from supervisor.core.table import decide
from supervisor.store.port import Write
from supervisor.store.sqlite.store import open_sqlite
from tests.bench._row import Row, at_most
from tests.bench.durable import MS, Prose, answerer, opened, unless_on_a_disk, vocabulary
from tests.bench.sessions import constant, p99

COUNT = 10_000
RUNNING = 100
CHUNK = 1_000
HISTORY_TURNS = 200
LOOKS = 100
OPEN_MS = 3_000.0
LOOK_MS = 50.0
# One in a hundred, and one in a thousand.
SOME, FEW = 100, 1_000
BEGAN_AT = 1_700_000_000.0
COMMON_WORD = vocabulary()[0]
RARE_WORD = "rhinoceros"


# Files --------------------------------------------------------------------------------------


class Life:
    """A session in the making, and all that was said of it."""

    def __init__(self, number: int, plan: SessionSpec) -> None:
        self.id = SessionId(f"s_{number}")
        self._now = BEGAN_AT + number
        self.session, facts = create(self.id, plan, at=self._now)
        self._facts = list(facts)
        self.tell(agent_events.AgentAttached, agent=Agent(Capabilities()))

    def tell(self, event: Callable[..., ev.Event], **more: Any) -> None:  # noqa: ANN401 - its fields
        self._now += 1.0
        fresh = TurnId(f"turn_{self.id}_{len(self._facts)}")
        step = decide(self.session, event(at=self._now, fresh=fresh, **more))
        self.session = step.state
        self._facts += step.facts

    def prompt(self, text: str) -> TurnId:
        self.tell(ev.InputSubmitted, input=InputId(f"in_{self.id}_{len(self._facts)}"), text=text)
        assert self.session.turn is not None
        return self.session.turn.id

    def say(self, turn: TurnId, text: str) -> None:
        body = {"text": text, "part": f"{turn}.1", "continues": False}
        fact = Fact("agent_text", self._now, body, turn)
        self.session = fold(self.session, fact)
        self._facts.append(fact)

    def write(self) -> Write:
        return Write(self.id, 0, number_facts(self.id, self._facts, after=0), self.session)


def a_life(number: int, prose: Prose, *, is_running: bool) -> Write:
    """One with ten records: left in the middle of a turn, or at rest after one."""
    tags = [
        "all",
        *(["some"] if number % SOME == 0 else []),
        *(["few"] if number % FEW == 0 else []),
    ]
    # Each its own, because a store refuses a name that another session holds.
    name = f"{'needle' if number % SOME == 1 else 'haystack'} {number}"
    life = Life(number, SessionSpec(agent=answerer.name, name=name, tags=tuple(tags)))
    rare = f" {RARE_WORD}" if number % FEW == 2 else ""
    turn = life.prompt(prose.words(5, 80) + rare)
    if is_running:
        for _ in range(3):
            life.say(turn, prose.words(10, 100))
        return life.write()
    life.say(turn, f"{prose.words(30, 300)} {COMMON_WORD}")
    life.tell(
        agent_events.TurnEnded, turn=turn, outcome="completed", stop_reason="end_turn", messages=1
    )
    life.tell(ev.StopRequested if number % SOME == 3 else agent_events.IdleElapsed)
    if life.session.agent is not None:
        life.tell(agent_events.AgentClosed)
    return life.write()


async def fill(path: Path, *, count: int, running: int) -> None:
    prose = Prose(2)
    async with open_sqlite(path) as store:
        for first in range(0, count, CHUNK):
            numbers = range(first, min(first + CHUNK, count))
            every = count // running
            writes = [a_life(one, prose, is_running=one % every == every - 1) for one in numbers]
            assert not any(await store.commit(writes))


async def fill_one(path: Path, *, records: int) -> SessionState:
    life = Life(0, SessionSpec(agent=answerer.name))
    for _ in range(records):
        life.tell(ev.MessageAppended, role="user", text="something that was said before")
    life.tell(agent_events.IdleElapsed)
    async with open_sqlite(path) as store:
        assert not any(await store.commit([life.write()]))
    return life.session


@functools.cache
def library() -> Path:
    """Made once, and copied by everyone who opens it."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = Path(folder) / "state.db"
    trio.run(functools.partial(fill, path, count=COUNT, running=RUNNING))
    return path


@contextmanager
def a_copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(shutil.copy(library(), folder))


async def wait_until_back(sup: supervisor.Supervisor) -> None:
    """Wait until the sessions with an open turn have their agents again."""
    while (await sup.list(phase="restarting", limit=1)).items:  # noqa: ASYNC110 - a benchmark may poll
        await trio.sleep(0.05)


# Recovery -----------------------------------------------------------------------------------


def recovered_ms() -> float:
    async def main(path: Path) -> float:
        begun = time.perf_counter()
        async with opened(path, max_sessions=2 * COUNT) as sup:
            took = time.perf_counter() - begun
            await wait_until_back(sup)
        return MS * took

    with a_copy() as path:
        return trio.run(main, path)


def selected_ms(decoded: Callable[[str], object] | None = None) -> float:
    with a_copy() as path:
        begun = time.perf_counter()
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("SELECT row FROM sessions").fetchall()
            if decoded is not None:
                found = [decoded(row) for (row,) in found]
        took = time.perf_counter() - begun
    assert len(found) == COUNT
    return MS * took


# History ------------------------------------------------------------------------------------


def ms_per_turn(records: int) -> float:
    async def main(path: Path) -> float:
        row = await fill_one(path, records=records)
        async with opened(path) as sup:
            session = sup.session(row.id)
            await session.prompt("go")
            took: list[float] = []
            for _ in range(HISTORY_TURNS):
                begun = time.perf_counter()
                await session.prompt("go")
                took.append(time.perf_counter() - begun)
            return MS * statistics.median(took)

    with tempfile.TemporaryDirectory() as folder:
        return trio.run(main, Path(folder) / "state.db")


# Looking ------------------------------------------------------------------------------------


Look = Callable[[supervisor.Supervisor], Awaitable["supervisor.Page[Any]"]]


def looked_ms(look: Look, *, found: int) -> float:
    async def main(path: Path) -> float:
        took: list[float] = []
        async with opened(path, max_sessions=2 * COUNT) as sup:
            await wait_until_back(sup)
            for _ in range(LOOKS):
                begun = time.perf_counter()
                page = await look(sup)
                took.append(time.perf_counter() - begun)
                assert len(page.items) == found
        return MS * p99(took)

    with a_copy() as path:
        return trio.run(main, path)


def look_row(name: str, look: Look, *, found: int) -> Row:
    return Row(
        name=f"{name}, p99",
        against="50 ms",
        ours=lambda: looked_ms(look, found=found),
        peer=constant(LOOK_MS),
        unit="ms",
        reach=at_most(1),
        collector="running",
    )


LOOKED = (
    look_row("list by tag, one in 100", lambda sup: sup.list(tag="some", limit=50), found=50),
    look_row("list by tag, one in 1,000", lambda sup: sup.list(tag="few", limit=50), found=10),
    look_row(
        "list by phase, one in 100", lambda sup: sup.list(phase="stopped", limit=50), found=50
    ),
    look_row("list by text, one in 100", lambda sup: sup.list(text="needle", limit=50), found=50),
    look_row("list by text, no match", lambda sup: sup.list(text="nobody", limit=50), found=0),
    look_row("search for a common word", lambda sup: sup.search(COMMON_WORD), found=20),
    look_row("search for a rare word", lambda sup: sup.search(RARE_WORD), found=10),
)

ROWS = (
    Row(
        name="recovery of 10,000 sessions, 100 running",
        against="raw SELECT of the rows",
        ours=recovered_ms,
        peer=selected_ms,
        unit="ms",
        reach=at_most(10),
        collector="running",
    ),
    Row(
        name="recovery of 10,000 sessions, 100 running",
        against="raw SELECT and orjson.loads",
        ours=recovered_ms,
        peer=lambda: selected_ms(orjson.loads),
        unit="ms",
        collector="running",
    ),
    Row(
        name="recovery of 10,000 sessions, 100 running",
        against="3 s",
        ours=recovered_ms,
        peer=constant(OPEN_MS),
        unit="ms",
        reach=at_most(1),
        collector="running",
    ),
    Row(
        name="turn on a file with 10,000 records of history",
        against="with 10",
        ours=lambda: ms_per_turn(10_000),
        peer=lambda: ms_per_turn(10),
        unit="ms",
        reach=at_most(1.2),
        obstacle=unless_on_a_disk,
    ),
    *LOOKED,
)
