"""All sessions at once: the tree they stand in, and what they come to together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.info import Info, Node
from supervisor.core.session import Phase, Usage
from supervisor.store.writer.health import StoreState

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


@attrs.frozen(kw_only=True)
class Stats:
    """What all sessions come to, the stopped ones included."""

    sessions: int
    live: int  # not stopped
    phases: Mapping[str, int]
    badges: Mapping[str, int]
    running_turns: int
    queued: int
    permissions: int  # requests that wait for somebody
    turns: int
    messages: int
    tool_calls: int
    restarts: int
    usage: Usage
    zombies: int  # tasks of turns that are over, and will not end
    last_position: int  # of all records: `watch(after=...)` goes on from there
    store: StoreState = StoreState()
    # Sessions whose rows cannot be read, and which are counted nowhere above: see `repair`.
    damaged: tuple[SessionId, ...] = ()


async def tree_of(house: House, root: SessionId | None) -> tuple[Node, ...]:
    """Every tree that has somebody alive in it, or the one below `root`, however it is."""
    infos = {info.id: info for info in await _all(house)}
    shown = {info.id for info in infos.values() if info.phase is not Phase.STOPPED}
    for info in list(infos.values()):
        if info.id in shown:
            _show_those_above(info, infos, shown)
    if root is not None:
        shown.add(root)
    # The last made first: children are made after their parents, so their nodes are there.
    below: dict[SessionId | None, list[Node]] = {}
    for info in reversed(infos.values()):
        if info.id in shown:
            children = tuple(reversed(below.pop(info.id, ())))
            above = info.parent if info.parent in shown and info.id != root else None
            below.setdefault(above, []).append(_node(info, children))
    tops = reversed(below.get(None, ()))
    return tuple(node for node in tops if root is None or node.id == root)


def _show_those_above(info: Info, infos: Mapping[SessionId, Info], shown: set[SessionId]) -> None:
    """One that is over is shown as long as somebody below it is not."""
    parent = info.parent
    while parent is not None and parent in infos and parent not in shown:
        shown.add(parent)
        parent = infos[parent].parent


def _node(info: Info, children: tuple[Node, ...]) -> Node:
    fields = {field.name: getattr(info, field.name) for field in attrs.fields(Info)}
    return Node(**{**fields, "children": children})


async def stats_of(house: House) -> Stats:
    """See `Supervisor.stats`."""
    infos = await _all(house)
    phases = Counter(str(info.phase) for info in infos)
    return Stats(
        sessions=len(infos),
        live=len(infos) - phases[Phase.STOPPED],
        phases={str(phase): phases[phase] for phase in Phase},
        badges=dict(Counter(info.badge for info in infos)),
        running_turns=sum(info.turn_id is not None for info in infos),
        queued=sum(info.queued for info in infos),
        permissions=len(house.inbox.waiting()),
        turns=sum(info.turns for info in infos),
        messages=sum(info.messages for info in infos),
        tool_calls=sum(info.tool_calls for info in infos),
        restarts=sum(info.restarts for info in infos),
        usage=sum((info.usage for info in infos), start=Usage()),
        zombies=len(house.workshop.zombies),
        last_position=await house.store.last_position(),
        store=house.health.state_with_load,
        damaged=tuple(await house.store.damaged(besides={info.id for info in infos})),
    )


async def _all(house: House) -> list[Info]:
    async with aclosing(house.store.rows()) as rows:
        return [house.desk.info(one.row, last_seq=one.last_seq) async for one in rows]
