"""The instruments: everything that is counted and measured, with its name, its unit and its help.

Rule 1: names begin with `understudy_`, units are seconds and bytes, and labels have few values:
        words of ours, and the names of configured agents. Never an id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from .picture import Picture, PictureCollector

# From what an echo takes to what a person still waits for, and beyond.
_TURN_SECONDS: Final = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_WAIT_SECONDS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1800.0)
_QUICK_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_BATCH: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)
_LADDER_SECONDS: Final = (0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0)


class Metrics:
    """One for a process; `render` gives all of it as Prometheus reads it."""

    def __init__(self, look: Callable[[], Picture]) -> None:
        # When each series began is of no use, and as long as all the rest.
        disable_created_metrics()  # type: ignore[no-untyped-call] # it has no types
        self._registry = CollectorRegistry()
        count, measure = self._counter, self._histogram
        self.sessions_created = count("sessions_created", "Sessions made.", "agent")
        self.sessions_stopped = count("sessions_stopped", "Sessions stopped.", "reason")
        self.turns = count("turns", "Turns that have ended.", "agent", "outcome")
        self.turn_seconds = measure(
            "turn_seconds", "For how long turns ran.", _TURN_SECONDS, "outcome"
        )
        self.inputs_accepted = count("inputs_accepted", "Inputs accepted.")
        self.inputs = count("inputs", "Inputs settled.", "outcome")
        self.input_wait_seconds = measure(
            "input_wait_seconds", "From accepting an input to its turn.", _WAIT_SECONDS
        )
        self.tool_calls = count("tool_calls", "Tool calls that have ended.", "outcome")
        self.permissions = count("permissions", "Questions answered.", "decision")
        self.interrupts = count("interrupts", "Interrupts that were begun.", "scope")
        self.interrupt_seconds = measure(
            "interrupt_seconds", "From interrupting a turn to its end.", _LADDER_SECONDS
        )
        self.stalls = count("stalls", "Turns that made no progress for too long.")
        self.agent_restarts = count("agent_restarts", "Agents started again.", "agent")
        self.spawns = count("spawns", "Children begun.")
        self.spawns_refused = count("spawns_refused", "Children not admitted.", "limit")
        self.tokens = count("tokens", "Tokens used.", "agent", "direction")
        self.cost = count("cost", "Cost, in the unit that agents report.", "agent")
        self.records = count("records", "Records written.", "kind")
        self._measure_the_house()
        self._registry.register(PictureCollector(look))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def _measure_the_house(self) -> None:
        """What is everybody's: the store, mailboxes, the loop."""
        measure = self._histogram
        self.commit_seconds = measure("commit_seconds", "For a commit.", _QUICK_SECONDS)
        self.commit_writes = measure("commit_writes", "Writes in one commit.", _BATCH)
        self.mailbox_wait_seconds = measure(
            "mailbox_wait_seconds",
            "Until an actor answers a question that asks nothing.",
            _QUICK_SECONDS,
            "actor",
        )
        self.loop_lag_seconds = measure(
            "loop_lag_seconds", "By how much the loop was late.", _QUICK_SECONDS
        )

    def render(self) -> bytes:
        """All of it, as text."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"understudy_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(
            f"understudy_{name}", text, labels, buckets=buckets, registry=self._registry
        )
