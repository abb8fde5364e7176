"""Views of all sessions: trees, statistics, pages of a list, retention rules, introspection.

A page starts after a stored number, so sessions created or deleted in between do not shift it.

`Introspection` shows a supervisor's internals to metrics and health checks; it changes nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import attrs
import trio

from actors import Ask, Ref
from supervisor.core.errors import StoreDegraded
from supervisor.core.facts import AnyRecord
from supervisor.core.ids import SessionId
from supervisor.core.info import Info, Node
from supervisor.core.state import Phase, Usage
from supervisor.core.validation import check_integer, check_seconds
from supervisor.sessions.admission import Admission
from supervisor.sessions.instruments import Instruments
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.services import Services
from supervisor.sessions.shutdown import longest_ladder_seconds
from supervisor.sessions.shutdown_state import ShutdownState
from supervisor.store.list_filter import Filter
from supervisor.store.pending import StoreState
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
    """Show the ancestors of a session that is not stopped, even if they are stopped."""
    parent = info.parent
    while parent is not None and parent in infos and parent not in shown:
        shown.add(parent)
        parent = infos[parent].parent


def _node(info: Info, children: tuple[Node, ...]) -> Node:
    fields = {field.name: getattr(info, field.name) for field in attrs.fields(Info)}
    return Node(**{**fields, "children": children})


async def collect_stats(parts: Parts) -> Stats:
    """Return counts and sums over all sessions; see `Supervisor.stats`."""
    services = parts.services
    totals = await services.store.totals()
    last_position = await services.store.last_position()
    return Stats(
        **attrs.asdict(totals, recurse=False),
        live=totals.sessions - totals.phases[Phase.STOPPED],
        permissions=len(services.inbox.pending()),
        zombies=len(services.tasks.zombies),
        last_position=last_position,
        store=services.health.full_state,
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
    """Return the matches after a number, and the last number if more follow, else None."""
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


@attrs.frozen
class Ping(Ask[None]):
    """Message that every actor answers with None when it has handled all earlier messages."""


@attrs.frozen(kw_only=True)
class Gauges:
    """Current figures of a supervisor; the field names are those of the metrics."""

    phases: Mapping[str, int]
    running_turns: int
    waiting_inputs: int
    waiting_permissions: int
    mailboxes: Mapping[str, int]
    agent_processes: int
    zombies: int
    store_degraded: bool
    store_read_only: bool
    store_waiting: Mapping[str, int]
    store_waiting_bytes: int
    store_wait_seconds: float
    output_pending_bytes: int
    output_waiting: int


class Introspection:
    """Figures, probes and instruments of one supervisor."""

    def __init__(self, services: Services, registry: SessionRegistry, admission: Admission) -> None:
        self._services = services
        self._registry = registry
        self._admission = admission

    @property
    def instruments(self) -> Instruments:
        """The instrumentation callbacks."""
        return self._services.instruments

    @property
    def is_closed(self) -> bool:
        """Whether the supervisor has closed; its methods raise then."""
        return self._services.is_closed

    @property
    def shutdown(self) -> ShutdownState:
        """The times of the shutdown, and whether the store answers during it."""
        return self._services.shutdown

    def longest_ladder_seconds(self) -> float:
        """Return the longest time that an interrupt of a live session can take."""
        return longest_ladder_seconds(self._registry)

    def store_state(self) -> StoreState:
        """Return the health of the store, without counting pending writes."""
        return self._services.health.state

    def running_turns(self) -> int:
        """Return the number of running turns."""
        tree = self._admission.tree
        return sum(run.turn is not None for run in tree.turn_slots.values())

    def status_line(self) -> str:
        """Return one line about sessions, turns and the store's problem."""
        problem = self.store_state().problem
        live = len(self._admission.tree.live)
        running = self.running_turns()
        turns = "1 turn runs" if running == 1 else f"{running} turns run"
        line = f"{live} session{'' if live == 1 else 's'} live, {turns}"
        return line if problem is None else f"{line}; {problem}"

    def agent_of(self, record: AnyRecord) -> str | None:
        """Return the agent of a record's session, None if that agent is not registered."""
        if record.kind == "session_created":
            name = record.body.get("agent")
        else:
            slot = self._registry.find_slot(record.session_id)
            name = None if slot is None or slot.session is None else slot.session.agent_name
        return name if isinstance(name, str) and name in self._services.agents() else None

    def epoch_of(self, session_id: SessionId) -> int | None:
        """Return the epoch of a session that has an actor; None if it has none, or has stopped."""
        slot = self._registry.find_slot(session_id)
        if slot is None or slot.log is None or slot.session is None:
            return None
        return None if slot.session.phase is Phase.STOPPED else slot.log.epoch

    async def ping(self, *, timeout_seconds: float) -> dict[str, float]:
        """Query the exit monitor and the writer; return the seconds until each answer.

        A refusal because the store is degraded is an answer.
        """
        took: dict[str, float] = {}
        actors = {"registry": self._registry.exit_monitor, "writer": self._services.writer}
        for name, actor in actors.items():
            began = trio.current_time()
            with contextlib.suppress(StoreDegraded):
                await actor.ask(Ping(), timeout_seconds=timeout_seconds)
            took[name] = trio.current_time() - began
        return took

    async def check_responsive(self, *, timeout_seconds: float) -> None:
        """Query the exit monitor, the writer and the store.

        Raise if one of them does not answer in time. A refusal because the store is degraded is an
        answer.
        """
        with trio.fail_after(timeout_seconds):
            await self.ping(timeout_seconds=timeout_seconds)
            if not self._services.health.is_degraded:
                await self._services.store.last_position()

    def gauges(self, *, sessions: int) -> Gauges:
        """Return the current figures; `sessions` is the number of stored sessions.

        Only sessions in memory are read.
        """
        tree = self._admission.tree
        awake = [slot.session for slot in self._registry.live() if slot.session is not None]
        phases = Counter([session.phase for session in awake])
        up = len(awake) - phases[Phase.STOPPED] - phases[Phase.SUSPENDED]
        phases[Phase.STOPPED] = max(0, sessions - len(tree.live))
        phases[Phase.SUSPENDED] = max(0, len(tree.live) - up)
        state = self._services.health.full_state
        tasks = self._services.tasks
        return Gauges(
            phases={str(phase): phases[phase] for phase in Phase},
            running_turns=self.running_turns(),
            waiting_inputs=sum([len(session.inputs) for session in awake if session.inputs]),
            waiting_permissions=len(self._services.inbox.pending()),
            mailboxes={
                "writer": _waiting(self._services.writer),
                "sessions": self._waiting_in_busy_sessions(),
            },
            agent_processes=tasks.process_slots.borrowed_tokens,
            zombies=len(tasks.zombies),
            store_degraded=state.degraded,
            store_read_only=state.read_only,
            store_waiting={"queued": state.waiting, "throttled": state.throttled},
            store_waiting_bytes=state.waiting_bytes,
            store_wait_seconds=state.wait_seconds,
            output_pending_bytes=self._services.output_budget.bytes + tasks.line_budget.bytes,
            output_waiting=self._services.output_budget.waiting + tasks.line_budget.waiting,
        )

    def _waiting_in_busy_sessions(self) -> int:
        """Return the number of messages that wait for sessions with a turn.

        The mailboxes of other sessions are emptied at once.
        """
        slots = [self._registry.find_slot(one) for one in self._admission.tree.turn_slots]
        return sum(
            _waiting(slot.ref) for slot in slots if slot is not None and slot.ref is not None
        )


def _waiting(actor: Ref) -> int:
    statistics = actor.statistics()
    return statistics.waiting + statistics.waiting_urgent
