"""Metrics of Prometheus: counters, histograms and gauges, with name, unit and help.

The current state is read when scraped, and never kept.

Rule 1: names begin with `understudy_`, units are seconds and bytes, and labels have few values:
        fixed words and the names of configured agents, never ids.
Rule 2: each record is counted once, when it is durable; counting never fails and never waits.
Rule 3: memory between two records is bounded: an input that is never settled is forgotten, the
        oldest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from trio_util import periodic


@attrs.frozen(kw_only=True)
class MetricsSnapshot:
    """The current figures of a supervisor, read when Prometheus scrapes."""

    version: str = ""
    phases: Mapping[str, int] = attrs.field(factory=dict)
    running_turns: int = 0
    waiting_inputs: int = 0
    waiting_permissions: int = 0
    # Messages in mailboxes, by actor; all sessions together are one.
    mailboxes: Mapping[str, int] = attrs.field(factory=dict)
    agent_processes: int = 0
    zombies: int = 0
    streams: int = 0
    store_degraded: bool = False
    store_read_only: bool = False
    # Writes, by where they wait.
    store_waiting: Mapping[str, int] = attrs.field(factory=dict)
    store_waiting_bytes: int = 0
    store_wait_seconds: float = 0.0
    output_pending_bytes: int = 0
    output_waiting: int = 0
    store_bytes: Mapping[str, int] = attrs.field(factory=dict)
    connections: int = 0
    connections_taken: int = 0
    connections_refused: int = 0
    events_dropped: int = 0


class SnapshotCollector(Collector):
    """Collector that converts a snapshot into metrics on each scrape."""

    def __init__(self, look: Callable[[], MetricsSnapshot]) -> None:
        self._take_snapshot = look

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics with empty values, for registration."""
        yield from _metrics(MetricsSnapshot())

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        yield from _metrics(self._take_snapshot())


def _metrics(now: MetricsSnapshot) -> Iterator[Metric]:
    yield _gauge_by_label("sessions", "Sessions, by phase.", "phase", now.phases)
    yield _gauge("turns_running", "Running turns.", now.running_turns)
    yield _gauge("inputs_waiting", "Inputs waiting for their turn.", now.waiting_inputs)
    yield _gauge(
        "permissions_waiting", "Permission requests without an answer.", now.waiting_permissions
    )
    yield _gauge_by_label(
        "mailbox_messages", "Messages waiting in mailboxes.", "actor", now.mailboxes
    )
    yield _gauge("agent_processes", "Running agent processes.", now.agent_processes)
    yield _gauge("zombies", "Tasks of ended turns that have not ended.", now.zombies)
    yield _gauge("streams", "Streams and long waits over HTTP.", now.streams)
    yield _gauge("store_degraded", "1 while the store cannot write.", now.store_degraded)
    yield _gauge("store_read_only", "1 if the store was opened read-only.", now.store_read_only)
    yield _gauge_by_label(
        "store_waiting", "Writes waiting for the store.", "where", now.store_waiting
    )
    yield _gauge("store_waiting_bytes", "Bytes in waiting writes.", now.store_waiting_bytes)
    yield _gauge("store_wait_seconds", "Age of the oldest waiting write.", now.store_wait_seconds)
    yield _gauge(
        "output_pending_bytes", "Output of agents not yet durable.", now.output_pending_bytes
    )
    yield _gauge(
        "output_waiting", "Sessions whose agent waits to write output.", now.output_waiting
    )
    yield _gauge_by_label("store_bytes", "Sizes of the store's files.", "file", now.store_bytes)
    yield _gauge("connections", "Open connections.", now.connections)
    yield _counter("connections_taken", "Connections accepted.", now.connections_taken)
    yield _counter("connections_refused", "Connections refused.", now.connections_refused)
    yield _counter(
        "observer_events_dropped", "Events dropped for observer hooks.", now.events_dropped
    )
    yield _gauge_by_label("build_info", "The running version.", "version", {now.version: 1})


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"understudy_{name}", text, value=float(value))


def _gauge_by_label(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"understudy_{name}", text, labels=[label])
    for label_value, value in values.items():
        family.add_metric([label_value], float(value))
    return family


def _counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"understudy_{name}", text, value=float(value))


# From the duration of an echo to that of a long task.
_TURN_SECONDS: Final = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)

_WAIT_SECONDS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1800.0)

_QUICK_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

_BATCH: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)

_LADDER_SECONDS: Final = (0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0)


class Metrics:
    """The metrics of one process; `render` returns them in the Prometheus text format."""

    def __init__(self, look: Callable[[], MetricsSnapshot]) -> None:
        # The creation time of each series is not useful, and as long as all the rest.
        disable_created_metrics()  # type: ignore[no-untyped-call] # the function is untyped
        self._registry = CollectorRegistry()
        count, measure = self._counter, self._histogram
        self.sessions_created = count("sessions_created", "Sessions created.", "agent")
        self.sessions_stopped = count("sessions_stopped", "Sessions stopped.", "reason")
        self.turns = count("turns", "Turns ended.", "agent", "outcome")
        self.turn_seconds = measure("turn_seconds", "Duration of turns.", _TURN_SECONDS, "outcome")
        self.inputs_accepted = count("inputs_accepted", "Inputs accepted.")
        self.inputs = count("inputs", "Inputs settled.", "outcome")
        self.input_wait_seconds = measure(
            "input_wait_seconds", "Time from accepting an input to its turn.", _WAIT_SECONDS
        )
        self.tool_calls = count("tool_calls", "Tool calls ended.", "outcome")
        self.permissions = count("permissions", "Permission requests answered.", "decision")
        self.interrupts = count("interrupts", "Interrupts started.", "scope")
        self.interrupt_seconds = measure(
            "interrupt_seconds", "Time from interrupting a turn to its end.", _LADDER_SECONDS
        )
        self.stalls = count("stalls", "Turns that stalled.")
        self.agent_restarts = count("agent_restarts", "Agent restarts.", "agent")
        self.spawns = count("spawns", "Children started.")
        self.spawns_refused = count("spawns_refused", "Children not admitted.", "limit")
        self.tokens = count("tokens", "Tokens used.", "agent", "direction")
        self.cost = count("cost", "Cost, in the unit that agents report.", "agent")
        self.records = count("records", "Records written.", "kind")
        self._add_runtime_metrics()
        self._registry.register(SnapshotCollector(look))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def _add_runtime_metrics(self) -> None:
        """Add the metrics of the store, the mailboxes and the loop."""
        measure = self._histogram
        self.commit_seconds = measure("commit_seconds", "Duration of a commit.", _QUICK_SECONDS)
        self.commit_writes = measure("commit_writes", "Writes in one commit.", _BATCH)
        self.mailbox_wait_seconds = measure(
            "mailbox_wait_seconds",
            "Time until an actor answers an empty ask.",
            _QUICK_SECONDS,
            "actor",
        )
        self.loop_lag_seconds = measure(
            "loop_lag_seconds", "Lag of the event loop.", _QUICK_SECONDS
        )

    def render(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"understudy_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(
            f"understudy_{name}", text, labels, buckets=buckets, registry=self._registry
        )


Body: TypeAlias = Mapping[str, Any]

MAX_OPEN_STAMPS: Final = 100_000


class RecordMeter:
    """Counts written records and the times between them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # When each input was accepted, or each turn's interrupt started.
        self._inputs: OrderedDict[str, float] = OrderedDict()
        self._turns: OrderedDict[str, float] = OrderedDict()
        self._counters: Mapping[str, Callable[[Body, float, str], None]] = {
            "session_created": self._created,
            "session_stopped": self._stopped,
            "input_accepted": self._accepted,
            "input_settled": self._settled,
            "turn_ended": self._turn_ended,
            "tool_ended": self._tool_ended,
            "permission_answered": self._answered,
            "interrupted": self._interrupted,
            "stalled": self._stalled,
            "agent_restarting": self._restarting,
            "child_started": self._child_started,
            "spawn_refused": self._refused,
            "usage": self._used,
        }

    def count(self, kind: str, body: Body, *, at: float, agent: str) -> None:
        """Count a written record of a session of that agent."""
        self._metrics.records.labels(kind).inc()
        counter = self._counters.get(kind)
        if counter is not None:
            counter(body, at, agent)

    def _created(self, _: Body, __: float, agent: str) -> None:
        self._metrics.sessions_created.labels(agent).inc()

    def _stopped(self, body: Body, _: float, __: str) -> None:
        self._metrics.sessions_stopped.labels(str(body.get("reason"))).inc()

    def _accepted(self, body: Body, at: float, _: str) -> None:
        self._metrics.inputs_accepted.inc()
        _remember(self._inputs, str(body.get("input_id")), at)

    def _settled(self, body: Body, at: float, _: str) -> None:
        outcome = str(body.get("outcome"))
        self._metrics.inputs.labels(outcome).inc()
        accepted_at = self._inputs.pop(str(body.get("input_id")), None)
        if accepted_at is not None and outcome == "delivered":
            self._metrics.input_wait_seconds.observe(max(0.0, at - accepted_at))

    def _turn_ended(self, body: Body, at: float, agent: str) -> None:
        outcome = str(body.get("outcome"))
        self._metrics.turns.labels(agent, outcome).inc()
        seconds = body.get("seconds")
        if isinstance(seconds, int | float):
            self._metrics.turn_seconds.labels(outcome).observe(seconds)
        begun_at = self._turns.pop(str(body.get("turn_id")), None)
        if begun_at is not None:
            self._metrics.interrupt_seconds.observe(max(0.0, at - begun_at))

    def _tool_ended(self, body: Body, _: float, __: str) -> None:
        self._metrics.tool_calls.labels(str(body.get("outcome"))).inc()

    def _answered(self, body: Body, _: float, __: str) -> None:
        self._metrics.permissions.labels(str(body.get("decision"))).inc()

    def _interrupted(self, body: Body, at: float, _: str) -> None:
        turn = body.get("turn_id")
        if body.get("scope") == "tool_call" and body.get("unreachable"):
            return  # the second record of an interrupt, or a call that cannot be interrupted
        if turn is None:
            self._metrics.interrupts.labels(str(body.get("scope"))).inc()
        elif turn not in self._turns:  # each ladder step is recorded again
            self._metrics.interrupts.labels(str(body.get("scope"))).inc()
            _remember(self._turns, str(turn), at)

    def _stalled(self, _: Body, __: float, ___: str) -> None:
        self._metrics.stalls.inc()

    def _restarting(self, _: Body, __: float, agent: str) -> None:
        self._metrics.agent_restarts.labels(agent).inc()

    def _child_started(self, body: Body, _: float, __: str) -> None:
        if not body.get("resumed"):
            self._metrics.spawns.inc()

    def _refused(self, body: Body, _: float, __: str) -> None:
        self._metrics.spawns_refused.labels(str(body.get("limit"))).inc()

    def _used(self, body: Body, _: float, agent: str) -> None:
        self._metrics.tokens.labels(agent, "input").inc(_amount(body, "input_tokens"))
        self._metrics.tokens.labels(agent, "output").inc(_amount(body, "output_tokens"))
        self._metrics.cost.labels(agent).inc(_amount(body, "cost"))


def _remember(stamps: OrderedDict[str, float], name: str, at: float) -> None:
    stamps[name] = at
    if len(stamps) > MAX_OPEN_STAMPS:
        stamps.popitem(last=False)


def _amount(body: Body, name: str) -> float:
    """Return the number in a field; 0 if it is negative, because a counter only grows."""
    value = body.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


INTERVAL_SECONDS: Final = 0.25


async def measure_lag(observe: Callable[[float], None]) -> None:
    """Observe the lag of the loop four times a second, until cancelled."""
    async for _, since_last in periodic(INTERVAL_SECONDS):
        if since_last is not None:
            observe(max(0.0, since_last - INTERVAL_SECONDS))
