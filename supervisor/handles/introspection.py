"""View of a supervisor's internals for metrics and health checks; it changes nothing."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping

import attrs
import trio

from actors import Ask, Ref
from supervisor.core.errors import StoreDegraded
from supervisor.core.records import Record
from supervisor.core.state import Phase
from supervisor.sessions.admission import Admission
from supervisor.sessions.instruments import Instruments
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.services import Services
from supervisor.store.pending import StoreState


@attrs.frozen
class Ping(Ask[None]):
    """Message that every actor answers with nothing, after the messages before it."""


@attrs.frozen(kw_only=True)
class Gauges:
    """Current figures of a supervisor, by the names of the metrics."""

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
        """Whether the supervisor has closed, so that every call raises."""
        return self._services.is_closed

    async def wait_closed(self) -> None:
        """Wait until the supervisor is closed."""
        await self._services.run_state.wait_value("closed")

    def store_state(self) -> StoreState:
        """Return the health of the store, without counting what waits."""
        return self._services.health.state

    def running_turns(self) -> int:
        """Return the number of running turns."""
        tree = self._admission.tree
        return sum(run.turn is not None for run in tree.turn_slots.values())

    def status_line(self) -> str:
        """Return one line on sessions, turns and the store's problem."""
        problem = self.store_state().problem
        live = len(self._admission.tree.live)
        line = f"{live} sessions live, {self.running_turns()} turns run"
        return line if problem is None else f"{line}; {problem}"

    def agent_of(self, record: Record) -> str | None:
        """Return the agent of a record's session, if it is registered."""
        if record.kind == "session_created":
            name = record.body.get("agent")
        else:
            slot = self._registry.find_slot(record.session_id)
            name = None if slot is None or slot.session is None else slot.session.agent_name
        return name if isinstance(name, str) and name in self._services.agents() else None

    async def ping(self, *, timeout_seconds: float) -> dict[str, float]:
        """Ask the exit monitor and the writer; return the seconds that each took.

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
        """Ask the exit monitor, the writer and the store; raise if one does not answer in time.

        A refusal because the store is degraded is an answer.
        """
        with trio.fail_after(timeout_seconds):
            await self.ping(timeout_seconds=timeout_seconds)
            if not self._services.health.is_degraded:
                await self._services.store.last_position()

    def gauges(self, *, sessions: int) -> Gauges:
        """Return the current figures; `sessions` is the number of stored sessions.

        Looks at sessions in memory only.
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
        )

    def _waiting_in_busy_sessions(self) -> int:
        """Return the messages that wait for sessions with a turn; other mailboxes drain at once."""
        slots = [self._registry.find_slot(one) for one in self._admission.tree.turn_slots]
        return sum(
            _waiting(slot.ref) for slot in slots if slot is not None and slot.ref is not None
        )


def _waiting(actor: Ref) -> int:
    statistics = actor.statistics()
    return statistics.waiting + statistics.waiting_urgent
