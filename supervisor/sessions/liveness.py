"""Measurement of silence, its evidence, and the events of session timers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.ids import CallId, RequestId, SessionId
from supervisor.core.liveness import SilenceCheck, check_silence, stall_limit
from supervisor.core.state import SessionState, Silence
from supervisor.drivers.guarded_runtime import PASSED_ON, refuse_awaitable
from supervisor.drivers.port import BlockedOn

from .clock import ActiveClock
from .services import Services
from .slot import SessionSlot
from .timers import CALL_TIMER

FindSlot: TypeAlias = Callable[[SessionId], SessionSlot | None]

# Extra silence allowed to a session for each step to the awaited one: the deepest is handled first,
# and the sum stays within the documented tolerance.
STEP_MARGIN: Final = 0.015

MAX_MARGIN: Final = 0.09

logger = logging.getLogger("supervisor")


@attrs.frozen
class Evidence:
    """The reason why a turn makes no progress: a model, a tool, a person, or another session."""

    waits_for: str
    detail: str | None = None


class Liveness:
    """Measures silence across sessions that wait for each other."""

    __slots__ = ("_find_slot", "_services")

    def __init__(self, services: Services, find_slot: FindSlot) -> None:
        self._services = services
        self._find_slot = find_slot

    def silence_event(self, slot: SessionSlot) -> agent_events.SilenceNoticed | None:
        """Return the event for a silent turn; None if it is not silent, or was reported already."""
        level = self.silence_level(slot)
        session, log = slot.session, slot.log
        if level is None or session is None or session.turn is None or log is None:
            return None
        if log.turn_buffer is not None:
            log.turn_buffer.is_reported_silent = True
        evidence = find_evidence(slot)
        seconds = self.silent_seconds(slot)
        stamp = self._services.stamp()
        return agent_events.SilenceNoticed(
            turn=session.turn.id,
            level=level,
            waits_for=evidence.waits_for,
            detail=evidence.detail,
            since=stamp["at"] - seconds,
            seconds=seconds,
            **stamp,
        )

    def silence_level(self, slot: SessionSlot) -> Silence | None:
        """Return the level to report for the session's turn now, or None."""
        check = self._measure(slot)
        return None if check is None else check.level

    def seconds_until_next_check(self, slot: SessionSlot) -> float | None:
        """Return the seconds until the level may rise; None if only progress can change it."""
        check = self._measure(slot)
        return None if check is None else check.next_check_seconds

    def silent_seconds(self, slot: SessionSlot) -> float:
        """Return the seconds since the last progress of the turn or of a session it awaits."""
        now = self._services.active_clock.now()
        since = _last_progress(slot, now)
        for other, _ in self._awaited_slots(slot):
            since = max(since, _last_progress(other, now))
        return 0.0 if since == -math.inf else now - since

    def timer_event(self, name: str, slot: SessionSlot) -> ev.Event | None:  # noqa: PLR0911 - one return per timer
        """Return the event of a session timer that is due; None if the timer is outdated."""
        stamp = self._services.stamp
        match name:
            case "silence":
                return self.silence_event(slot)
            case "ladder" | "deadline":
                return self._turn_timer_event(name, slot)
            case "suspend":
                return agent_events.IdleElapsed(**stamp())
            case "backoff":
                return agent_events.BackoffElapsed(**stamp())
            case "expiry":
                return agent_events.InputsExpired(**stamp())
            case _ if name.startswith(CALL_TIMER):
                return self._turn_timer_event(name, slot)
            case _:
                return agent_events.RequestTimedOut(request=RequestId(name), **stamp())

    def _turn_timer_event(self, name: str, slot: SessionSlot) -> ev.Event | None:
        turn = slot.session.turn if slot.session is not None else None
        stamp = self._services.stamp
        if turn is None:
            return None
        if name == "ladder":
            if turn.step is None:
                return None
            return agent_events.LadderElapsed(turn=turn.id, step=turn.step, **stamp())
        if name == "deadline":
            return agent_events.DeadlineElapsed(turn=turn.id, **stamp())
        call = CallId(name.removeprefix(CALL_TIMER))
        return agent_events.CallInterruptElapsed(turn=turn.id, call=call, **stamp())

    def _measure(self, slot: SessionSlot) -> SilenceCheck | None:
        if slot.session is None:
            return None
        patience = 0.0
        for other, distance in self._awaited_slots(slot):
            session = other.session
            if session is not None and session.turn is not None:
                # An awaited session is checked first; an action on its silence is progress here.
                limit = stall_limit(session.terms, session.turn)
                patience = max(patience, limit * (1.0 + min(STEP_MARGIN * distance, MAX_MARGIN)))
        return check_silence(slot.session, self.silent_seconds(slot), patience=patience)

    def _awaited_slots(self, slot: SessionSlot) -> Iterator[tuple[SessionSlot, int]]:
        """Yield each slot that the session awaits, directly or not, with its distance."""
        seen = {slot.id}
        waiting = [(session_id, 1) for session_id in slot.progress.awaited_sessions or ()]
        for session_id, distance in waiting:  # grows during the loop
            other = self._find_slot(session_id)
            if session_id not in seen and other is not None:
                seen.add(session_id)
                further = other.progress.awaited_sessions or ()
                waiting += [(one, distance + 1) for one in further]
                yield other, distance


def own_silent_seconds(active_clock: ActiveClock, slot: SessionSlot) -> float:
    """Return the seconds since the last progress of the session's own turn."""
    output = slot.log.turn_buffer if slot.log is not None else None
    return 0.0 if output is None else active_clock.now() - output.progress_at


def _last_progress(slot: SessionSlot, now: float) -> float:
    """Return the time of the turn's last progress; `now` if it waits for a person or the store."""
    session = slot.session
    if session is None or session.turn is None or slot.log is None or slot.log.turn_buffer is None:
        return slot.progress.turn_ended_at
    if session.turn.requests or session.waits_for_auth or slot.log.is_agent_waiting:
        return now
    return max(slot.progress.turn_ended_at, slot.log.turn_buffer.progress_at)


def login_hint(session: SessionState) -> str | None:
    """Return the hint for an agent that waits for a login; None if the agent does not wait."""
    method = session.remembered.auth if session.remembered is not None else None
    if method is None:
        return None
    return f"the agent waits for a login by {method!r}: log in where it asks"


def process_problem(slot: SessionSlot | None) -> str | None:
    """Return the problem of the agent's process, also between turns; None if it has none."""
    blocked_on = _blocked_on(slot) if slot is not None else None
    return (
        blocked_on.detail if blocked_on is not None and blocked_on.waits_for == "process" else None
    )


def find_evidence(slot: SessionSlot) -> Evidence:  # noqa: PLR0911 - one return per kind of evidence
    """Return the reason why the session's turn waits."""
    turn = slot.session.turn if slot.session is not None else None
    if turn is None:
        return Evidence("input")
    if turn.step is not None:
        return Evidence("end", f"of the turn, asked for by {turn.step}")
    if slot.progress.is_asking_hooks:
        return Evidence("hook")
    blocked_on = _blocked_on(slot)
    if blocked_on is not None:
        return Evidence(blocked_on.waits_for, blocked_on.detail)
    if turn.requests:
        return Evidence("person", turn.requests[0].question)
    if slot.session is not None and slot.session.waits_for_auth:
        return Evidence("person", login_hint(slot.session))
    if slot.progress.awaited_sessions:
        return Evidence("child", slot.progress.awaited_sessions[-1])
    if turn.calls:
        return Evidence("tool", turn.calls[-1].name)
    return Evidence("model")


def _blocked_on(slot: SessionSlot) -> BlockedOn | None:
    blocked_on = slot.progress.blocked_on
    if blocked_on is None:
        return None
    try:
        return _checked(blocked_on())
    except PASSED_ON:
        raise
    except BaseException:
        logger.exception("driver of session %s failed to say what it waits for", slot.id)
        return None


def _checked(said: object) -> BlockedOn | None:
    """Return what a driver said, which may be of another author; raise TypeError."""
    refuse_awaitable(said)
    if said is None:
        return None
    if not isinstance(said, BlockedOn):
        raise TypeError(f"blocked_on() returned {type(said).__name__}, not BlockedOn or None")
    if not isinstance(said.waits_for, str) or not isinstance(said.detail, str):
        raise TypeError("blocked_on() returned a BlockedOn with a field that is not a string")
    return said
