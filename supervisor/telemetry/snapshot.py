"""Current state for Prometheus: read when scraped, and never kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@attrs.frozen(kw_only=True)
class MetricsSnapshot:
    """The current numbers; each is cheap to read."""

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
    store_bytes: Mapping[str, int] = attrs.field(factory=dict)
    connections: int = 0
    connections_taken: int = 0
    connections_refused: int = 0
    events_dropped: int = 0


class SnapshotCollector(Collector):
    """Collector that turns a snapshot into metrics on each scrape."""

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
