"""What records say, as figures. Each is looked at once, when it is durable.

Rule 1: looking at a record never fails and never waits.
Rule 2: what is remembered between two records is bounded: an input that is never settled here is
        forgotten, the oldest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from .counting import Metrics

Body: TypeAlias = Mapping[str, Any]
MAX_REMEMBERED: Final = 100_000


class RecordMeter:
    """Fed with every record that was written."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # When each was accepted, or its interrupt begun.
        self._inputs: OrderedDict[str, float] = OrderedDict()
        self._turns: OrderedDict[str, float] = OrderedDict()
        self._takes: Mapping[str, Callable[[Body, float, str], None]] = {
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

    def take(self, kind: str, body: Body, *, at: float, agent: str) -> None:
        """A record of a session of that agent was written."""
        self._metrics.records.labels(kind).inc()
        take = self._takes.get(kind)
        if take is not None:
            take(body, at, agent)

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
        if turn is None:
            self._metrics.interrupts.labels(str(body.get("scope"))).inc()
        elif turn not in self._turns:  # each step of the ladder says it again
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
    if len(stamps) > MAX_REMEMBERED:
        stamps.popitem(last=False)


def _amount(body: Body, name: str) -> float:
    """A counter only grows: an agent that takes something back has used nothing."""
    value = body.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
