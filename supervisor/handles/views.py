"""Views of all sessions: trees, statistics, pages of a list, retention rules.

A page starts after a stored number, so sessions created or deleted in between do not shift it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.info import Info, Node
from supervisor.core.state import Phase, Usage
from supervisor.core.validation import check_integer, check_seconds
from supervisor.store.pending import StoreState
from supervisor.store.port import Filter
from supervisor.store.retention import RetentionRules

from .arguments import absolute_workspace, check_list_filters
from .parts import Parts


@attrs.frozen(kw_only=True)
class Stats:
    """Counts and sums over all sessions, the stopped ones included."""

    sessions: int
    live: int  # not stopped
    phases: Mapping[str, int]
    badges: Mapping[str, int]
    running_turns: int
    queued: int
    permissions: int  # requests that wait for a decision
    turns: int
    messages: int
    tool_calls: int
    restarts: int
    usage: Usage
    zombies: int  # tasks of ended turns that still run
    last_position: int  # of all records; `watch(after=...)` continues from it
    store: StoreState = StoreState()
    # Sessions with an unreadable row; no count above includes them. See `Session.repair`.
    damaged: tuple[SessionId, ...] = ()


async def build_tree(parts: Parts, root: SessionId | None) -> tuple[Node, ...]:
    """Return the trees with a session that is not stopped, or the tree of `root` in any phase."""
    infos = {info.id: info for info in await _all_infos(parts)}
    shown = {info.id for info in infos.values() if info.phase is not Phase.STOPPED}
    for info in list(infos.values()):
        if info.id in shown:
            _include_ancestors(info, infos, shown)
    if root is not None:
        shown.add(root)
    # Newest first: children are newer than their parents, so their nodes exist already.
    below: dict[SessionId | None, list[Node]] = {}
    for info in reversed(infos.values()):
        if info.id in shown:
            children = tuple(reversed(below.pop(info.id, ())))
            above = info.parent if info.parent in shown and info.id != root else None
            below.setdefault(above, []).append(_node(info, children))
    tops = reversed(below.get(None, ()))
    return tuple(node for node in tops if root is None or node.id == root)


def _include_ancestors(info: Info, infos: Mapping[SessionId, Info], shown: set[SessionId]) -> None:
    """Add the ancestors: a stopped session is shown while a descendant is not stopped."""
    parent = info.parent
    while parent is not None and parent in infos and parent not in shown:
        shown.add(parent)
        parent = infos[parent].parent


def _node(info: Info, children: tuple[Node, ...]) -> Node:
    fields = {field.name: getattr(info, field.name) for field in attrs.fields(Info)}
    return Node(**{**fields, "children": children})


async def collect_stats(parts: Parts) -> Stats:
    """Return counts and sums over all sessions; see `Supervisor.stats`."""
    infos = await _all_infos(parts)
    phases = Counter(str(info.phase) for info in infos)
    return Stats(
        sessions=len(infos),
        live=len(infos) - phases[Phase.STOPPED],
        phases={str(phase): phases[phase] for phase in Phase},
        badges=dict(Counter(info.badge for info in infos)),
        running_turns=sum(info.turn_id is not None for info in infos),
        queued=sum(info.queued for info in infos),
        permissions=len(parts.services.inbox.pending()),
        turns=sum(info.turns for info in infos),
        messages=sum(info.messages for info in infos),
        tool_calls=sum(info.tool_calls for info in infos),
        restarts=sum(info.restarts for info in infos),
        usage=sum((info.usage for info in infos), start=Usage()),
        zombies=len(parts.services.tasks.zombies),
        last_position=await parts.services.store.last_position(),
        store=parts.services.health.full_state,
        damaged=tuple(
            await parts.services.store.damaged(known_readable={info.id for info in infos})
        ),
    )


async def _all_infos(parts: Parts) -> list[Info]:
    async with aclosing(parts.services.store.rows()) as rows:
        return [parts.info(one.row, last_seq=one.last_seq) async for one in rows]


def make_filter(**given: Any) -> Filter:  # noqa: ANN401 - the fields of a Filter
    """Return the filter of a list; raise `ConfigError` for an invalid argument."""
    check_list_filters(given)
    if given["phase"] is not None:
        given["phase"] = Phase(given["phase"])
    given["workspace"] = absolute_workspace(given["workspace"])
    return Filter(**given)


def make_retention_rules(
    older_than_seconds: float | None, keep_last: int | None, max_bytes: int | None
) -> RetentionRules:
    """Return the rules of a cleanup; raise `ConfigError` for an invalid argument."""
    if older_than_seconds is not None:
        check_seconds("older_than_seconds", older_than_seconds)
    for name, number in (("keep_last", keep_last), ("max_bytes", max_bytes)):
        if number is not None:
            check_integer(name, number, least=0)
    return RetentionRules(
        older_than_seconds=older_than_seconds, keep_last=keep_last, max_bytes=max_bytes
    )


async def list_page(
    parts: Parts, wanted: Filter, after: int, limit: int
) -> tuple[tuple[Info, ...], int | None]:
    """Return the matches after a number, and the last number if there are more, else None."""
    items: list[Info] = []
    last = after
    found = parts.services.store.rows(after=after, matching=wanted, page_size=limit + 1)
    async with aclosing(found) as rows:
        async for stored in rows:
            if len(items) == limit:
                return tuple(items), last
            last = stored.number
            items.append(parts.info(stored.row, last_seq=stored.last_seq))
    return tuple(items), None
