"""How it is now: looked at when Prometheus asks, and never kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@attrs.frozen(kw_only=True)
class Picture:
    """One look; every number in it is cheap to have."""

    version: str = ""
    phases: Mapping[str, int] = attrs.field(factory=dict)
    running_turns: int = 0
    waiting_inputs: int = 0
    waiting_permissions: int = 0
    # Messages in mailboxes, by whose: of one actor, or of all sessions together.
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


class PictureCollector(Collector):
    """Makes figures of a picture, whenever somebody asks for them."""

    def __init__(self, look: Callable[[], Picture]) -> None:
        self._look = look

    def describe(self) -> Iterator[Metric]:
        """Which figures there are; without looking, for nobody has asked yet."""
        yield from _figures(Picture())

    def collect(self) -> Iterator[Metric]:
        """The figures of now."""
        yield from _figures(self._look())


def _figures(now: Picture) -> Iterator[Metric]:
    yield _by("sessions", "Sessions, by phase.", "phase", now.phases)
    yield _one("turns_running", "Turns that run.", now.running_turns)
    yield _one("inputs_waiting", "Inputs that wait for their turn.", now.waiting_inputs)
    yield _one("permissions_waiting", "Questions nobody answered yet.", now.waiting_permissions)
    yield _by("mailbox_messages", "Messages that wait in mailboxes.", "actor", now.mailboxes)
    yield _one("agent_processes", "Agents that are processes.", now.agent_processes)
    yield _one("zombies", "Tasks of turns that are over, and will not end.", now.zombies)
    yield _one("streams", "Streams and long waits over HTTP.", now.streams)
    yield _one("store_degraded", "Whether the store cannot write.", now.store_degraded)
    yield _one("store_read_only", "Whether nothing starts, for good.", now.store_read_only)
    yield _by("store_waiting", "Writes on their way to the store.", "where", now.store_waiting)
    yield _one("store_waiting_bytes", "How much text they bring.", now.store_waiting_bytes)
    yield _one("store_wait_seconds", "How long the first has waited.", now.store_wait_seconds)
    yield _by("store_bytes", "Sizes of the store's files.", "file", now.store_bytes)
    yield _one("connections", "Connections that are open.", now.connections)
    yield _total("connections_taken", "Connections that were taken.", now.connections_taken)
    yield _total("connections_refused", "Connections too many.", now.connections_refused)
    yield _total("observer_events_dropped", "Events too many for hooks.", now.events_dropped)
    yield _by("build_info", "Which version it is.", "version", {now.version: 1})


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"understudy_{name}", text, value=float(value))


def _by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"understudy_{name}", text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], float(value))
    return family


def _total(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"understudy_{name}", text, value=float(value))
