"""What tests of families ask and count."""

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
from supervisor.core.tree.ledger import Ledger
from tests.sessions.cast import Deed, Player, Scene, records
from tests.sessions.lives import phase_of

AsyncTask: TypeAlias = Callable[[], Awaitable[object]]

# Room for all that a test may want.
WIDE: Final = Limits(
    max_children=10_000, max_descendants=10_000, max_spawns=10_000, max_depth=10_000
)
# Asks about everything but reading.
NARROW: Final = Permissions(mode="approve_reads")
# The settings for silence.
QUIET, STALLED, TOOL = 120.0, 300.0, 900.0


async def _multiply(turn: Turn) -> None:
    with contextlib.suppress(SpawnRefused):
        while True:
            await turn.spawn("brood", "multiply")


# Has as many of its kind below it as it may.
brood: Final = PythonAgent("brood", _multiply)


def ledger_of(sup: Supervisor) -> Ledger:
    return sup._house.desk.ledger


async def refusal(work: Awaitable[object]) -> SpawnRefused:
    """The refusal that this comes to; what to do about it is always said."""
    with pytest.raises(SpawnRefused) as caught:
        await work
    assert caught.value.hint
    return caught.value


async def ends(parent: Session) -> list[Record]:
    """What the parent's records say of the ends of children themselves, not of their errands."""
    return [one for one in await records(parent, "child_ended") if one.body["reason"] is not None]


async def order_of_ends(sup: Supervisor) -> list[str]:
    """The ids of all sessions that have stopped, in the order of the commits."""
    found = await sup._house.store.all_records(after=0, limit=100_000)
    return [record.session_id for _, record in found if record.kind == "session_stopped"]


async def everybody(sup: Supervisor) -> list[Info]:
    return list((await sup.list(limit=10_000)).items)


async def refuse_false_books(sup: Supervisor) -> None:
    """The desk's counts are the truth, counted again from the rows."""
    ledger, infos = ledger_of(sup), await everybody(sup)
    live = [info for info in infos if info.phase != "stopped"]
    assert ledger.live == {info.id for info in live}
    assert set(ledger.turns) == {info.id for info in live if info.turn_id is not None}
    for info in infos:
        children = [one for one in live if one.parent == info.id]
        member = ledger.find(info.id)
        if member is None:
            assert not children
            continue
        assert set(member.children) == {one.id for one in children}
        assert member.up == sum(one.phase != "suspended" for one in children)
        assert member.descendants == len(_below(info.id, live))
        assert member.running == sum(
            one.turn_id is not None for one in (info, *_below(info.id, infos))
        )


def _below(above: str, infos: list[Info]) -> list[Info]:
    parents: dict[str, Any] = {info.id: info.parent for info in infos}

    def is_below(one: Info) -> bool:
        at = one.parent
        while at is not None:
            if at == above:
                return True
            at = parents.get(at)
        return False

    return [one for one in infos if is_below(one)]


async def all_at_once(*work: AsyncTask) -> list[object]:
    """Do all of it at the same time; gives what each came to, errors too, in the same order."""
    results: list[object] = [None] * len(work)

    async def do(place: int, task: AsyncTask) -> None:
        try:
            results[place] = await task()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            results[place] = error

    async with trio.open_nursery() as nursery:
        for place, task in enumerate(work):
            nursery.start_soon(do, place, task)
    return results


async def begin(session: Session, player: Player, text: str = "go") -> Scene:
    """The session's turn on that text."""
    await session.send(text)
    return await player.next_scene()


async def make_suspended(parent: Session, kid: Player) -> Session:
    """A child that has done its errand and is suspended."""
    child = await parent.spawn("kid", "errand", suspend_after_seconds=1.0)
    (await kid.next_scene()).finish()
    await trio.sleep(5.0)
    assert await phase_of(child) == "suspended"
    return child


async def spawn_many(parent: Session, count: int) -> Counter[str]:
    return outcome_of(await all_at_once(*[partial(parent.spawn, "kid", "x")] * count))


def outcome_of(results: list[object]) -> Counter[str]:
    """How many got a child, and which limit kept the others from one."""
    return Counter(
        one.limit if isinstance(one, SpawnRefused) else type(one).__name__ for one in results
    )


async def reason_of(session: Session) -> str | None:
    return (await session.info()).stop_reason


async def ask(scene: Scene, tool: str = "bash") -> Deed[bool]:
    """Have the agent ask, and wait until everybody knows."""
    deed = scene.begin(scene.turn.ask(f"may I use {tool}?", tool=tool))
    await settle()
    return deed


async def silences(session: Session) -> list[str]:
    """What was said of its silence, in order."""
    return [one.kind for one in await records(session, "quiet", "stalled", "progress_resumed")]


async def only(session: Session, kind: str) -> Record:
    (found,) = await records(session, kind)
    return found
