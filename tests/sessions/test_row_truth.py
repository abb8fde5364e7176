"""Rows against the truth: after any sequence of operations they say what a list says."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from actors.testing import settle
from supervisor import Limits, Session, Supervisor, SupervisorError
from supervisor.core.ids import SessionId
from supervisor.core.info import Info
from supervisor.handles.session_rows import SessionGone, SessionRow, Snapshot, TightestBudget
from tests.support.fake_agents import AgentRun, FakeAgent, records

OPERATIONS = 60
# Longer than any coalescing.
QUIET_SECONDS = 5.0


class RowReader:
    """The rows as a reader has them who follows a feed, and reconnects now and then."""

    def __init__(self) -> None:
        self.rows: dict[str, SessionRow] = {}

    async def follow(self, sup: Supervisor, chance: random.Random) -> None:
        """Read until cancelled."""
        while True:
            async with sup.watch_sessions() as feed:
                for _ in range(chance.randint(1, 60)):
                    item = await anext(feed)
                    if isinstance(item, Snapshot):
                        self.rows = {row.id: row for row in item.rows}
                    elif isinstance(item, SessionRow):
                        self.rows[item.id] = item
                    elif isinstance(item, SessionGone):
                        self.rows.pop(item.id, None)


class RandomUser:
    """Does what users and agents may do, in an order of chance."""

    def __init__(self, sup: Supervisor, agent: FakeAgent, chance: random.Random) -> None:
        self._sup = sup
        self._agent = agent
        self._chance = chance
        self.sessions: list[Session] = []
        self._acts: list[Callable[[], Awaitable[object]]] = [
            self._create,
            self._spawn,
            self._send,
            self._send,
            self._say,
            self._say,
            self._say,
            self._use,
            self._ask,
            self._answer,
            self._finish,
            self._finish,
            self._fail,
            self._seen,
            self._stop,
            self._archive,
            self._delete,
            self._set,
            self._sleep,
        ]

    async def act(self) -> None:
        """Do one thing; what is refused has no effect."""
        with contextlib.suppress(SupervisorError), trio.move_on_after(20.0):
            await self._chance.choice(self._acts)()
        await settle()

    def _session(self) -> Session:
        return self._chance.choice(self.sessions)

    def _limits(self) -> Limits | None:
        if self._chance.random() < 0.5:
            return None
        return Limits(tokens=self._chance.choice([None, 50, 5_000]), turns=10, wall_seconds=900.0)

    async def _create(self) -> None:
        self.sessions.append(await self._sup.create("fake", limits=self._limits()))

    async def _spawn(self) -> None:
        child = await self._session().spawn("fake", "work", limits=self._limits())
        self.sessions.append(child)

    async def _send(self) -> None:
        await self._session().send("go")

    async def _say(self) -> None:
        for run in self._open_runs():
            await run.do(
                run.turn.say(self._chance.choice(["a word ", "line\n", "\n\n", "x" * 300]))
            )

    async def _use(self) -> None:
        for run in self._open_runs():
            run.turn.usage(input_tokens=self._chance.randint(1, 30), cost=0.5)

    async def _ask(self) -> None:
        for run in self._open_runs()[:1]:
            run.begin(run.turn.ask("May I?", tool="shell"))

    async def _answer(self) -> None:
        for request in await self._sup.permissions():
            await self._sup.answer(request.id, "allow_once")

    async def _finish(self) -> None:
        for run in self._open_runs()[:2]:
            run.finish(self._chance.choice(["done", None]))

    async def _fail(self) -> None:
        for run in self._open_runs()[:1]:
            run.fail(ValueError("wrong"))

    async def _seen(self) -> None:
        session = self._session()
        await session.seen((await session.info()).last_seq)

    async def _stop(self) -> None:
        await self._session().stop()

    async def _archive(self) -> None:
        await self._session().archive()

    async def _delete(self) -> None:
        await self._sup.delete(self._session().id)

    async def _set(self) -> None:
        await self._session().set(tags=[self._chance.choice("abc")], limits=self._limits())

    async def _sleep(self) -> None:
        await trio.sleep(self._chance.choice([0.1, 1.0, 400.0]))

    def _open_runs(self) -> list[AgentRun]:
        return [run for run in self._agent.runs if not run.over.is_set()]


async def check_row(sup: Supervisor, row: SessionRow, info: Info) -> None:
    """Compare a row with what a list says of the session."""
    same = set(SessionRow.__annotations__) & {field.name for field in attrs.fields(Info)}
    assert {name: getattr(row, name) for name in same - {"children"}} == {
        name: getattr(info, name) for name in same - {"children"}
    }
    assert row.children == len(info.children)
    assert row.tokens == info.usage.input_tokens + info.usage.output_tokens
    assert row.cost == info.usage.cost
    assert row.last_text == await last_line(sup.session(info.id))
    if info.phase != "stopped":
        assert row.budget == await expected_budget(sup, info)


async def last_line(session: Session) -> str | None:
    """Return the last line that the agent said, from all its records."""
    said = ""
    for record in await records(session, "agent_text"):
        said += str(record.body["text"]) if record.body["continues"] else f"\n{record.body['text']}"
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    return lines[-1][:200].rstrip() if lines else None


async def expected_budget(sup: Supervisor, info: Info) -> TightestBudget | None:
    """Return the tightest budget, from what `info` says of the session and its ancestors."""
    found: list[TightestBudget] = []
    above: Info | None = info
    while above is not None:
        state = await sup._parts.registry.row(above.id)
        for name in ("turns", "tokens", "cost", "wall_seconds"):
            allowed = None if state.limits is None else getattr(state.limits, name)
            if allowed is not None:
                used = round(getattr(above.spent, name), 9)
                found.append(TightestBudget(above.id, name, used, allowed))
        parent = None if above.parent is None else sup.session(above.parent)
        above = None if parent is None else await parent.info()
    return max(found, key=lambda one: one.share, default=None)


def _is_news(info: Info) -> bool:
    return not info.archived and bool(info.badge == "failed" or info.attention)


@pytest.mark.parametrize("seed", range(10))
async def test_rows_are_the_truth_after_any_operations(
    sup: Supervisor, fake_agent: FakeAgent, nursery: trio.Nursery, seed: int
) -> None:
    chance = random.Random(seed)
    user, reader = RandomUser(sup, fake_agent, chance), RowReader()
    await user._create()
    nursery.start_soon(reader.follow, sup, random.Random(seed))
    for _ in range(OPERATIONS):
        await user.act()
    await fake_agent.finish_all()
    fake_agent.finish_open_runs()
    await trio.sleep(QUIET_SECONDS)
    await fake_agent.finish_all()
    await trio.sleep(QUIET_SECONDS)

    infos = {info.id: info for info in await sup.list()}
    shown = {one for one, info in infos.items() if info.phase != "stopped"}
    shown |= {one for one, info in infos.items() if _is_news(info)}
    assert shown <= reader.rows.keys() <= infos.keys()
    for session_id, row in reader.rows.items():
        await check_row(sup, row, infos[SessionId(session_id)])
