"""Sessions on a file: what it costs that nothing acknowledged is ever lost.

- turns: 100 sessions at once, one prompt after the other in each, by an agent that answers with one
  word; each prompt waits for its result. Ours writes six records a turn and the row, in two
  commits, with `synchronous=FULL`. The peers have a file each and their own defaults, and do less:
  - OpenAI Agents SDK: `SQLiteSession` alone, without agent or model, stores the user's item and
    then the assistant's, as its runner does: before the model is asked, and after. It sets WAL and
    leaves `synchronous` as SQLite was built, which is FULL but where a distribution has changed it.
    Beside it, for information: both items in one call; and its `Runner` with a model that answers
    at once, tracing switched off.
  - LangGraph: a graph of one node that does nothing, one `ainvoke` a turn, one thread a session,
    with `AsyncSqliteSaver`: WAL, and `synchronous` as above.
  - raw sqlite3: the records of such turns, encoded before, into one table with one index, WAL and
    FULL, 100 turns a commit; no row, no search, no caller that waits for an answer;
  All of this also on a disk whose `fsync` takes two milliseconds longer, for ours and the peers'
  (see `_disk`): on a virtual machine whose host does not wait for its own disk it takes 0.15, and
  then all are bound by Python, and not by what the row is about;
- acknowledgement: from `send` to its receipt, to sessions that are in the middle of a turn, against
  a bare `fsync` of 100 bytes on a quiet disk, each with the same pauses between. Busy is ten deltas
  a second, as among the rows on sessions; for information, also in 100 sessions whose turns follow
  each other without a pause, and against an `fsync` beside the busy sessions;
- size: the file after its last checkpoint, against the JSON of its records: turns with texts of
  some sentences, thoughts, and tool calls with results of up to some pages.

The folder of temporary files has to be on a disk: in memory an `fsync` is free, and these rows say
nothing.
"""

import functools
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import trio

import supervisor
from supervisor.core.records import Record
from supervisor.store.codec import encode, encode_plain
from tests.bench._disk import slower_disk
from tests.bench._row import Row, Sample, at_least, at_most, unless_installed
from tests.bench.sessions import SESSIONS, TURNS_EACH, p99, per_second

MS = 1_000.0
PEER_TURNS_EACH = 5
RAW_TURNS_A_COMMIT = 100
ACKS = 500
SLOWER_SECONDS = 0.002
PAUSE_SECONDS = 0.002
SMALL_WRITE = b"x" * 100
# Below this an fsync has not been to any disk.
FREE_FSYNC_SECONDS = 20e-6
SIZE_SESSIONS, SIZE_TURNS = 20, 20


@supervisor.agent("answerer")
async def answerer(turn: supervisor.Turn) -> str:
    return "done"


@supervisor.agent("talker")
async def talker(turn: supervisor.Turn) -> None:
    while True:
        await turn.say("word ")
        await trio.sleep(0.1)


class Prose:
    """Sentences of a language in which, as in others, few words are used often."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def words(self, least: int, most: int) -> str:
        count = self._chance.randint(least, most)
        return " ".join(self._chance.choices(vocabulary(), cum_weights=weights(), k=count))

    def pick(self, least: int, most: int) -> int:
        return self._chance.randint(least, most)


@functools.cache
def vocabulary() -> list[str]:
    chance = random.Random(0)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words = ("".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(20_000))
    return list(dict.fromkeys(words))


@functools.cache
def weights() -> list[float]:
    return list(accumulate(1.0 / place for place in range(1, len(vocabulary()) + 1)))


@supervisor.agent("worker")
async def worker(turn: supervisor.Turn) -> None:
    prose = Prose(hash_of(turn.text))
    await turn.think(prose.words(10, 60))
    for _ in range(prose.pick(0, 4)):
        async with turn.tool("bash", {"command": prose.words(3, 12)}) as call:
            call.result(prose.words(20, 600))
    await turn.say(prose.words(30, 300))
    turn.usage(input_tokens=prose.pick(500, 5_000), output_tokens=prose.pick(50, 500))


def hash_of(text: str) -> int:
    return sum(text.encode())


@asynccontextmanager
async def opened(path: Path | None = None, **settings: Any) -> AsyncIterator[supervisor.Supervisor]:  # noqa: ANN401 - the fields of Settings
    with tempfile.TemporaryDirectory() as folder:
        async with supervisor.open(
            path or Path(folder) / "state.db",
            agents=[answerer, talker, worker],
            settings=supervisor.Settings(**settings),
        ) as sup:
            yield sup


# Turns --------------------------------------------------------------------------------------


def turns_per_second() -> float:
    async def main() -> float:
        async with opened() as sup:
            sessions = [await sup.create("answerer") for _ in range(SESSIONS)]
            return await per_second(lambda number: sessions[number].prompt("go"))

    return trio.run(main)


async def peer_per_second(go: Callable[[int], Awaitable[object]]) -> float:
    """Return the rate as `per_second` does, on asyncio."""
    import asyncio

    async def one_after_the_other(number: int) -> None:
        for _ in range(PEER_TURNS_EACH):
            await go(number)

    for number in range(SESSIONS):
        await go(number)  # connections and tables, not counted
    begun = time.perf_counter()
    await asyncio.gather(*(one_after_the_other(number) for number in range(SESSIONS)))
    return SESSIONS * PEER_TURNS_EACH / (time.perf_counter() - begun)


def openai_items_per_second(*, calls: int) -> float:
    import asyncio

    from agents import SQLiteSession

    items = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]

    async def main(folder: str) -> float:
        path = Path(folder) / "openai.db"
        sessions = [SQLiteSession(str(number), path) for number in range(SESSIONS)]

        async def go(number: int) -> None:
            if calls == 1:
                await sessions[number].add_items(items)
            else:
                for item in items:
                    await sessions[number].add_items([item])

        rate = await peer_per_second(go)
        for session in sessions:
            session.close()
        return rate

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(main(folder))


def openai_runs_per_second() -> float:
    import asyncio

    from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    class Answerer(Model):
        async def get_response(self, *_: object, **more: object) -> ModelResponse:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            said = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *_: object, **more: object) -> Any:  # noqa: ANN401 - never asked
            raise NotImplementedError

    async def main(folder: str) -> float:
        path = Path(folder) / "openai.db"
        agent = Agent(name="answerer", model=Answerer())
        sessions = [SQLiteSession(str(number), path) for number in range(SESSIONS)]
        quiet = RunConfig(tracing_disabled=True)
        rate = await peer_per_second(
            lambda number: Runner.run(agent, "go", session=sessions[number], run_config=quiet)
        )
        for session in sessions:
            session.close()
        return rate

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(main(folder))


def langgraph_runs_per_second() -> float:
    import asyncio
    from typing import TypedDict

    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        text: str

    async def node(state: State) -> State:
        return {"text": "done"}

    async def main(folder: str) -> float:
        graph = StateGraph(State)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / "graph.db")) as saver:
            compiled = graph.compile(checkpointer=saver)
            return await peer_per_second(
                lambda number: compiled.ainvoke(
                    {"text": "go"}, {"configurable": {"thread_id": str(number)}}
                )
            )

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(main(folder))


@functools.cache
def records_of_a_turn() -> list[Record]:
    async def main() -> list[Record]:
        async with opened() as sup:
            session = await sup.create("answerer")
            before = (await session.info()).last_seq
            await session.prompt("go")
            turns = await session.history()
            return [record for turn in turns for record in turn.records if record.seq > before]

    return trio.run(main)


def raw_turns_per_second() -> float:
    turn = [(one.at, one.turn_id, one.kind, encode_plain(one.body)) for one in records_of_a_turn()]
    size = len(turn)

    def batch(number: int) -> list[tuple[object, ...]]:
        """Return the rows of one turn of every session."""
        return [
            (f"s_{session}", size * number + place, *record)
            for session in range(RAW_TURNS_A_COMMIT)
            for place, record in enumerate(turn)
        ]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raw.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("CREATE TABLE records (session_id, seq, at, turn_id, kind, body)")
            connection.execute("CREATE UNIQUE INDEX by_number ON records (session_id, seq)")
            batches = [batch(number) for number in range(TURNS_EACH)]
            begun = time.perf_counter()
            for records in batches:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", records)
                connection.execute("COMMIT")
            took = time.perf_counter() - begun
    return RAW_TURNS_A_COMMIT * TURNS_EACH / took


# Acknowledgements ---------------------------------------------------------------------------


@asynccontextmanager
async def a_busy_house() -> AsyncIterator[list[supervisor.Session]]:
    async with opened(exit_seconds=0.0) as sup:
        sessions = [await sup.create("talker") for _ in range(SESSIONS)]
        for session in sessions:
            await session.send("talk")
        await trio.sleep(0.5)
        yield sessions


def acknowledged_ms() -> float:
    async def main() -> float:
        took: list[float] = []
        async with a_busy_house() as sessions:
            for number in range(ACKS):
                begun = time.perf_counter()
                receipt = await sessions[number % SESSIONS].send("more")
                took.append(time.perf_counter() - begun)
                assert receipt.status == "queued"
                await trio.sleep(PAUSE_SECONDS)
        return MS * p99(took)

    return trio.run(main)


def acknowledged_in_a_crowd_ms() -> float:
    async def main() -> float:
        took: list[float] = []
        async with opened() as sup:
            sessions = [await sup.create("answerer") for _ in range(SESSIONS)]

            async def go(number: int) -> None:
                begun = time.perf_counter()
                receipt = await sessions[number].send("go")
                took.append(time.perf_counter() - begun)
                await sessions[number].result(receipt.input_id)

            await per_second(go)
        return MS * p99(took)

    return trio.run(main)


def synced_ms(slower_seconds: float = 0.0) -> float:
    took: list[float] = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(ACKS):
            took.append(seconds_to_sync(file.fileno(), slower_seconds))
            time.sleep(PAUSE_SECONDS)
    return MS * p99(took)


def synced_beside_the_busy_ms() -> float:
    async def main() -> float:
        async with a_busy_house():
            return await trio.to_thread.run_sync(synced_ms)

    return trio.run(main)


def seconds_to_sync(file: int, slower_seconds: float = 0.0) -> float:
    begun = time.perf_counter()
    os.write(file, SMALL_WRITE)
    if slower_seconds:
        time.sleep(slower_seconds)
    os.fsync(file)
    return time.perf_counter() - begun


# Size ---------------------------------------------------------------------------------------


@functools.cache
def bytes_on_disk_and_in_json() -> tuple[int, int]:
    async def main(path: Path) -> int:
        prose = Prose(1)
        json = 0
        async with opened(path) as sup:
            sessions = [await sup.create("worker") for _ in range(SIZE_SESSIONS)]

            async def talk(session: supervisor.Session) -> None:
                for _ in range(SIZE_TURNS):
                    await session.prompt(prose.words(5, 80))

            async with trio.open_nursery() as nursery:
                for session in sessions:
                    nursery.start_soon(talk, session)
            for session in sessions:
                for turn in await session.history():
                    json += sum(len(encode(record)) for record in turn.records)
        return json

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        json = trio.run(main, path)
        return sum(file.stat().st_size for file in Path(folder).glob("state.db*")), json


# --------------------------------------------------------------------------------------------


def on_a_slower_disk(sample: Sample) -> Sample:
    def slower() -> float:
        with slower_disk(SLOWER_SECONDS):
            return sample()

    return slower


def unless_on_a_disk() -> str | None:
    with tempfile.TemporaryFile(buffering=0) as file:
        usual = statistics.median(seconds_to_sync(file.fileno()) for _ in range(20))
    is_free = usual < FREE_FSYNC_SECONDS
    return "temporary files are in memory here; point TMPDIR at a disk" if is_free else None


def unless_there(*modules: str) -> Callable[[], str | None]:
    """Parents first: whether a part is there cannot be asked of something that is not."""

    def obstacle() -> str | None:
        missing = (unless_installed(module)() for module in modules)
        return next(filter(None, missing), None) or unless_on_a_disk()

    return obstacle


TURNS = "durable turns, 100 sessions"
SLOWER = f"fsync {MS * SLOWER_SECONDS:g} ms slower"
ACKNOWLEDGED = "acknowledgement with 100 busy sessions, p99"

ROWS = (
    Row(
        name=TURNS,
        against="OpenAI Agents SQLiteSession, two items",
        ours=turns_per_second,
        peer=lambda: openai_items_per_second(calls=2),
        unit="/s",
        reach=at_least(5),
        obstacle=unless_there("agents"),
    ),
    Row(
        name=TURNS,
        against="OpenAI Agents SQLiteSession, two items in one call",
        ours=turns_per_second,
        peer=lambda: openai_items_per_second(calls=1),
        unit="/s",
        obstacle=unless_there("agents"),
    ),
    Row(
        name=TURNS,
        against="OpenAI Agents Runner with SQLiteSession",
        ours=turns_per_second,
        peer=openai_runs_per_second,
        unit="/s",
        obstacle=unless_there("agents"),
    ),
    Row(
        name=TURNS,
        against="LangGraph, SQLite checkpointer",
        ours=turns_per_second,
        peer=langgraph_runs_per_second,
        unit="/s",
        reach=at_least(20),
        obstacle=unless_there("langgraph", "langgraph.checkpoint.sqlite"),
    ),
    Row(
        name=TURNS,
        against="raw sqlite3, 100 turns a commit",
        ours=turns_per_second,
        peer=raw_turns_per_second,
        unit="/s",
        reach=at_least(0.1),
        obstacle=unless_on_a_disk,
    ),
    Row(
        name=f"{TURNS}, {SLOWER}",
        against="OpenAI Agents SQLiteSession, two items",
        ours=on_a_slower_disk(turns_per_second),
        peer=on_a_slower_disk(lambda: openai_items_per_second(calls=2)),
        unit="/s",
        reach=at_least(5),
        obstacle=unless_there("agents"),
    ),
    Row(
        name=f"{TURNS}, {SLOWER}",
        against="LangGraph, SQLite checkpointer",
        ours=on_a_slower_disk(turns_per_second),
        peer=on_a_slower_disk(langgraph_runs_per_second),
        unit="/s",
        reach=at_least(20),
        obstacle=unless_there("langgraph", "langgraph.checkpoint.sqlite"),
    ),
    Row(
        name=f"{TURNS}, {SLOWER}",
        against="raw sqlite3, 100 turns a commit",
        ours=on_a_slower_disk(turns_per_second),
        peer=on_a_slower_disk(raw_turns_per_second),
        unit="/s",
        reach=at_least(0.1),
        obstacle=unless_on_a_disk,
    ),
    Row(
        name=ACKNOWLEDGED,
        against="bare fsync",
        ours=acknowledged_ms,
        peer=synced_ms,
        unit="ms",
        reach=at_most(5),
        obstacle=unless_on_a_disk,
        collector="running",
    ),
    Row(
        name=f"{ACKNOWLEDGED}, {SLOWER}",
        against="bare fsync, as slow",
        ours=on_a_slower_disk(acknowledged_ms),
        peer=lambda: synced_ms(SLOWER_SECONDS),
        unit="ms",
        reach=at_most(5),
        obstacle=unless_on_a_disk,
        collector="running",
    ),
    Row(
        name=ACKNOWLEDGED,
        against="fsync beside them",
        ours=acknowledged_ms,
        peer=synced_beside_the_busy_ms,
        unit="ms",
        obstacle=unless_on_a_disk,
        collector="running",
    ),
    Row(
        name="acknowledgement with 100 sessions that never pause, p99",
        against="bare fsync",
        ours=acknowledged_in_a_crowd_ms,
        peer=synced_ms,
        unit="ms",
        obstacle=unless_on_a_disk,
        collector="running",
    ),
    Row(
        name="size of the file",
        against="JSON of its records",
        ours=lambda: float(bytes_on_disk_and_in_json()[0]),
        peer=lambda: float(bytes_on_disk_and_in_json()[1]),
        unit="bytes",
        reach=at_most(2.5),
    ),
)
