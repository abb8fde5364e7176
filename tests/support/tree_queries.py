"""Queries and checks for tests of session trees."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Info,
    Limits,
    Permissions,
    PythonAgent,
    Record,
    Session,
    SpawnRefused,
    Supervisor,
    Turn,
)
from supervisor.core.tree.tree import SessionTree

from .fake_agents import AgentAction, AgentRun, FakeAgent, records
from .session_states import phase_of

AsyncTask: TypeAlias = Callable[[], Awaitable[object]]

# Limits that no test reaches.
WIDE: Final = Limits(
    max_children=10_000, max_descendants=10_000, max_spawns=10_000, max_depth=10_000
)
# Permission requests for everything except reads.
NARROW: Final = Permissions(mode="approve_reads")
# Default silence limits in seconds.
QUIET, STALLED, TOOL = 120.0, 300.0, 900.0


async def _spawn_until_refused(turn: Turn) -> None:
    with contextlib.suppress(SpawnRefused):
        while True:
            await turn.spawn("spawner", "spawn")


# Spawns children of its own kind until a limit refuses.
spawner: Final = PythonAgent("spawner", _spawn_until_refused)


def tree_of(sup: Supervisor) -> SessionTree:
    return sup._parts.admission.tree


async def refusal(work: Awaitable[object]) -> SpawnRefused:
    """Return the `SpawnRefused` that this raises; check that it has a hint."""
    with pytest.raises(SpawnRefused) as caught:
        await work
    assert caught.value.hint
    return caught.value


async def ends(parent: Session) -> list[Record]:
    """Return the parent's records of children that stopped, not of tasks that ended."""
    return [one for one in await records(parent, "child_ended") if one.body["reason"] is not None]


async def order_of_ends(sup: Supervisor) -> list[str]:
    """Return the ids of all stopped sessions, in commit order."""
    found = await sup._services.store.all_records(after=0, limit=100_000)
    return [record.session_id for _, record in found if record.kind == "session_stopped"]


async def all_infos(sup: Supervisor) -> list[Info]:
    return list((await sup.list(limit=10_000)).items)


async def check_tree_counts(sup: Supervisor) -> None:
    """Check the counters of the session tree against counts made from the rows."""
    tree, infos = tree_of(sup), await all_infos(sup)
    live = [info for info in infos if info.phase != "stopped"]
    assert tree.live == {info.id for info in live}
    assert set(tree.turn_slots) == {info.id for info in live if info.turn_id is not None}
    for info in infos:
        children = [one for one in live if one.parent == info.id]
        node = tree.find(info.id)
        if node is None:
            assert not children
            continue
        assert set(node.children) == {one.id for one in children}
        assert node.active_children == sum(one.phase != "suspended" for one in children)
        assert node.descendant_count == len(_descendants(info.id, live))
        assert node.running_turns == sum(
            one.turn_id is not None for one in (info, *_descendants(info.id, infos))
        )


def _descendants(ancestor: str, infos: list[Info]) -> list[Info]:
    parents: dict[str, Any] = {info.id: info.parent for info in infos}

    def is_descendant(one: Info) -> bool:
        at = one.parent
        while at is not None:
            if at == ancestor:
                return True
            at = parents.get(at)
        return False

    return [one for one in infos if is_descendant(one)]


async def all_at_once(*work: AsyncTask) -> list[object]:
    """Run all tasks concurrently; return their results or errors, in the same order."""
    results: list[object] = [None] * len(work)

    async def do(place: int, task: AsyncTask) -> None:
        try:
            results[place] = await task()
        except Exception as error:  # noqa: BLE001 - checked by the test
            results[place] = error

    async with trio.open_nursery() as nursery:
        for place, task in enumerate(work):
            nursery.start_soon(do, place, task)
    return results


async def begin(session: Session, fake_agent: FakeAgent, text: str = "go") -> AgentRun:
    """Send a text and return the turn it starts."""
    await session.send(text)
    return await fake_agent.next_run()


async def make_suspended(parent: Session, child_agent: FakeAgent) -> Session:
    """Return a suspended child that has finished its task."""
    child = await parent.spawn("child-agent", "errand", suspend_after_seconds=1.0)
    (await child_agent.next_run()).finish()
    await trio.sleep(5.0)
    assert await phase_of(child) == "suspended"
    return child


async def spawn_many(parent: Session, count: int) -> Counter[str]:
    return outcome_of(await all_at_once(*[partial(parent.spawn, "child-agent", "x")] * count))


def outcome_of(results: list[object]) -> Counter[str]:
    """Count the results: by limit for refusals, by type for the rest."""
    return Counter(
        one.limit if isinstance(one, SpawnRefused) else type(one).__name__ for one in results
    )


async def reason_of(session: Session) -> str | None:
    return (await session.info()).stop_reason


async def ask(run: AgentRun, tool: str = "bash") -> AgentAction[bool]:
    """Begin a permission request; return when the session has recorded it."""
    action = run.begin(run.turn.ask(f"may I use {tool}?", tool=tool))
    await settle()
    return action


async def silence_records(session: Session) -> list[str]:
    """Return the kinds of the session's silence records, in order."""
    return [one.kind for one in await records(session, "quiet", "stalled", "progress_resumed")]


async def only(session: Session, kind: str) -> Record:
    (found,) = await records(session, kind)
    return found
