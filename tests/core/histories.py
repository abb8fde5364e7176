"""Random histories for the core: events that fit, nearly fit, or do not fit at all.

Half of what a session is told names something that is really there; the other half is late, early,
or about someone else. Nobody is held to anything: drivers and callers say what they like.
"""

# ruff: noqa: N802 - the makers of events bear the names of what they make

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from supervisor.core import events as ev
from supervisor.core.errors import SpawnRefused
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.limits import Limits, Restart
from supervisor.core.permissions import MODES, Permissions
from supervisor.core.session import (
    Agent,
    Capabilities,
    Failure,
    Lineage,
    Phase,
    Session,
    Spending,
    Terms,
    Usage,
)
from supervisor.core.table import decide
from supervisor.core.tree.situation import ALONE, Shortage, Situation

T = TypeVar("T")

# What a session in that phase is told more often, so that histories get somewhere.
LIKELY: dict[Phase, tuple[type[ev.Event], ...]] = {
    Phase.STARTING: (ev.AgentAttached, ev.InputSubmitted),
    Phase.IDLE: (
        ev.InputSubmitted,
        ev.InputSubmitted,
        ev.IdleElapsed,
        ev.ZombieEnded,
        ev.FamilyChanged,
        ev.SupervisorRestarted,
    ),
    Phase.RUNNING: (
        ev.TurnEnded,
        ev.InputSubmitted,
        ev.StopRequested,
        ev.InterruptRequested,
        ev.SteeringSubmitted,
        ev.SteeringTaken,
        ev.SteeringDeclined,
        ev.SteeringBeganTurn,
        ev.CallStarted,
        ev.PermissionAsked,
        ev.RequestAnswered,
        ev.AgentExited,
        ev.SilenceNoticed,
        ev.ProgressMade,
        ev.InputPromoted,
    ),
    Phase.INTERRUPTING: (
        ev.LadderElapsed,
        ev.TurnEnded,
        ev.StopRequested,
        ev.AgentExited,
        ev.Claimed,
    ),
    Phase.RESTARTING: (
        ev.InputSubmitted,
        ev.AgentAttached,
        ev.AgentAttached,
        ev.AgentStartFailed,
        ev.AgentExited,
    ),
    Phase.SUSPENDED: (
        ev.InputSubmitted,
        ev.InputSubmitted,
        ev.FamilyChanged,
        ev.ChildAdmitted,
        ev.SupervisorRestarted,
    ),
    Phase.STOPPING: (ev.AgentClosed, ev.FamilyChanged, ev.LadderElapsed, ev.TurnEnded),
    Phase.STOPPED: (ev.ResumeRequested, ev.InputSubmitted, ev.UnarchiveRequested),
}

LIKELINESS = 0.4
MOSTLY = (True, True, True, False)
ALONENESS = 0.7

# What would otherwise end so many histories that the others get nowhere.
RARE = (ev.SupervisorRestarted, ev.LeaveRequested, ev.Claimed)

# For a session that is rather alone in the world; and what keeps others from where they would go.
SHORTAGE = Shortage("tokens", 120, 100, SessionId("s_root"))
REFUSAL = SpawnRefused("full", hint="wait", limit="max_children", used=5, allowed=5)

LADDERS: list[tuple[Any, ...]] = [("ask",), ("ask", "close", "terminate", "kill")]


class Chance:
    """Makes sessions and events by a seed."""

    def __init__(self, seed: int | random.Random) -> None:
        self._random = random.Random(seed) if isinstance(seed, int) else seed
        self._count = 0
        self.now = 1000.0

    def one_of(self, *choices: T) -> T:
        return self._random.choice(choices)

    def maybe(self) -> bool:
        return self._random.random() < 0.5

    def new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    def session(self) -> Session:
        terms = Terms(
            queue_cap=self.one_of(1, 3, 10),
            steer_fallback=self.one_of("queue", "interrupt"),
            restart=Restart(
                policy=self.one_of("never", "on_crash", "always"), max_restarts=self.one_of(0, 2)
            ),
            on_stall=self.one_of("notify", "interrupt", "restart", "stop"),
            turn_deadline_seconds=self.one_of(None, 60.0),
        )
        permissions = Permissions(tools=self.one_of(None, ["bash"]), mode=self.one_of(None, *MODES))
        below = Lineage(SessionId("s_root"), SessionId("s_root"), depth=1, input=InputId("in_1"))
        return Session(
            id=SessionId("s_1"),
            agent_name="agent",
            terms=terms,
            permissions=permissions,
            lineage=self.one_of(Lineage(), below),
        )

    def situation(self) -> Situation:
        """Mostly nobody is there; else everything at once may be in the way."""
        if self._random.random() < ALONENESS:
            return ALONE
        return Situation(
            dependents=self.one_of(0, 1, 3),
            has_company=self.maybe(),
            no_turn=self.maybe(),
            no_place=self.maybe(),
            leaving=self.maybe() and self.maybe(),
            has_younger=self.maybe(),
            parent_lives=self.one_of(*MOSTLY),
            shortage=self.one_of(None, None, SHORTAGE),
            refusal=self.one_of(None, REFUSAL),
            ran_seconds=self.one_of(None, 1.5),
        )

    def event(self, session: Session) -> ev.Event:
        self.now += self.one_of(0.0, 0.5, 40.0)
        likely = LIKELY.get(session.phase, ()) if self._random.random() < LIKELINESS else ()
        kind = self.one_of(*(likely or ev.EVENTS))
        if kind in RARE and self.maybe():
            kind = self.one_of(*ev.EVENTS)
        if session.turn is not None and session.turn.requests and self.maybe():
            kind = ev.RequestAnswered
        make: Callable[[Session], dict[str, Any]] | None = getattr(self, f"_{kind.__name__}", None)
        given = make(session) if make is not None else {}
        fresh = TurnId(self.new("turn"))
        return kind(at=self.now, fresh=fresh, situation=self.situation(), **given)

    # What the events bring, by the names of their classes --------------------------------

    def _turn(self, session: Session) -> TurnId:
        there = [session.turn.id] * 4 if session.turn else []
        undead = [session.zombie] if session.zombie else []
        return self.one_of(*there, *undead, TurnId("turn_of_old"))

    def _input(self, session: Session) -> InputId:
        return self.one_of(*(w.id for w in session.inputs), InputId("in_nobody"))

    def _text(self) -> str:
        return self.one_of("hello", "a\nb", "x" * 40, "  ", "\ud800", "y" * 70000, "ok", "go on")

    def _expiry(self) -> float | None:
        return self.one_of(None, None, self.now + 30.0, self.now + 90.0, self.now)

    def _InputSubmitted(self, _: Session) -> dict[str, Any]:
        return {
            "input": InputId(self.new("in")),
            "text": self._text(),
            "when_busy": self.one_of("queue", "steer", "interrupt", "reject"),
            "expires_at": self._expiry(),
            "if_stopped": self.one_of("resume", "resume", "reject"),
            "queued": self.one_of("keep", "keep", "cancel"),
        }

    def _SteeringSubmitted(self, _: Session) -> dict[str, Any]:
        return {
            "input": InputId(self.new("in")),
            "text": self._text(),
            "expires_at": self._expiry(),
        }

    def _InterruptRequested(self, session: Session) -> dict[str, Any]:
        calls = [call.id for call in session.turn.calls] if session.turn else []
        replaced = self.maybe()
        return {
            "turn": self.one_of(None, self._turn(session)),
            "call": self.one_of(None, None, CallId("call_gone"), *calls),
            "replacement": InputId(self.new("in")) if replaced else None,
            "replace_with": self._text() if replaced else None,
            "queued": self.one_of("keep", "cancel"),
        }

    def _InputEdited(self, session: Session) -> dict[str, Any]:
        return {"input": self._input(session), "text": self._text()}

    def _InputMoved(self, session: Session) -> dict[str, Any]:
        return {"input": self._input(session), "position": self.one_of(-1, 0, 1, 2, 99)}

    def _InputPromoted(self, session: Session) -> dict[str, Any]:
        return {"input": self._input(session)}

    def _InputWithdrawn(self, session: Session) -> dict[str, Any]:
        return {"input": self._input(session)}

    def _StopRequested(self, _: Session) -> dict[str, Any]:
        return {
            "cause": self.one_of("user", "ttl_expired", "stalled", "budget", "parent_stopped"),
            "after_turn": self.maybe(),
        }

    def _MessageAppended(self, _: Session) -> dict[str, Any]:
        return {"role": self.one_of("user", "agent"), "text": self._text()}

    def _DetailsChanged(self, _: Session) -> dict[str, Any]:
        return {
            "title": self.one_of(None, "a title"),
            "tags": self.one_of(None, ("a", "b")),
            "custom": self.one_of(None, {"k": "v"}),
            "limits": self.one_of(None, Limits(turns=5)),
        }

    def _request(self, session: Session) -> RequestId:
        there = [request.id for request in session.turn.requests] if session.turn else []
        return self.one_of(*there, *there, RequestId("req_gone"))

    def _RequestAnswered(self, session: Session) -> dict[str, Any]:
        decision = self.one_of("allow_once", "allow_always", "reject_once", "reject_always")
        return {"request": self._request(session), "decision": decision}

    def _RequestTimedOut(self, session: Session) -> dict[str, Any]:
        return {"request": self._request(session)}

    def _RuleRemoved(self, session: Session) -> dict[str, Any]:
        return {"rule": self.one_of(*(r.id for r in session.rules), RequestId("req_gone"))}

    def _AgentAttached(self, _: Session) -> dict[str, Any]:
        able = Capabilities(
            steering=self.one_of("native", "boundary", "none"), ladder=self.one_of(*LADDERS)
        )
        return {"agent": Agent(able, session_id=self.one_of(None, "theirs"), pid=7)}

    def _AgentStartFailed(self, _: Session) -> dict[str, Any]:
        return {"failure": Failure("startup", "no such file")}

    def _AgentExited(self, _: Session) -> dict[str, Any]:
        return {"failure": self.one_of(None, Failure("process_exit", "1")), "jitter": 0.25}

    def _TurnEnded(self, session: Session) -> dict[str, Any]:
        outcome = self.one_of("completed", "failed", "interrupted", "timed_out")
        return {"turn": self._turn(session), "outcome": outcome, "text": "done", "messages": 1}

    def _ZombieEnded(self, session: Session) -> dict[str, Any]:
        return {"turn": self._turn(session)}

    def _CallStarted(self, session: Session) -> dict[str, Any]:
        call = CallId(self.new("call"))
        return {
            "turn": self._turn(session),
            "call": call,
            "name": "bash",
            "cancellable": self.maybe(),
        }

    def _CallEnded(self, session: Session) -> dict[str, Any]:
        calls = [call.id for call in session.turn.calls] if session.turn else []
        call = self.one_of(*calls, CallId("call_gone"))
        return {"turn": self._turn(session), "call": call, "outcome": "completed"}

    def _PermissionAsked(self, session: Session) -> dict[str, Any]:
        return {
            "turn": self._turn(session),
            "request": RequestId(self.new("req")),
            "tool": self.one_of("bash", "edit"),
            "question": "may I?",
            "kind": self.one_of(None, "read", "edit"),
            "inside_workspace": self.maybe(),
            "options": self.one_of(
                ("allow_once", "allow_always", "reject_once", "reject_always"),
                ("allow_once", "reject_once"),
            ),
        }

    def _SteeringTaken(self, session: Session) -> dict[str, Any]:
        some = tuple(w.id for w in session.inputs if self.maybe())
        return {"turn": self._turn(session), "inputs": (*some, InputId("in_nobody"))}

    def _SteeringDeclined(self, session: Session) -> dict[str, Any]:
        return self._SteeringTaken(session)

    def _SteeringBeganTurn(self, session: Session) -> dict[str, Any]:
        offered = [waiting.id for waiting in session.inputs if waiting.status != "queued"]
        return {
            "turn": self._turn(session),
            "input": self.one_of(*offered, InputId("in_nobody")),
            "said": ev.Said("so far", 1),
        }

    def _AgentSessionNamed(self, _: Session) -> dict[str, Any]:
        return {"session_id": self.new("theirs")}

    def _AgentSurfaced(self, _: Session) -> dict[str, Any]:
        return {"choices": {"modes": ["plan", "code"]}}

    def _AuthenticationAsked(self, _: Session) -> dict[str, Any]:
        return {"method": self.one_of(None, "login")}

    def _UsageReported(self, session: Session) -> dict[str, Any]:
        return {"turn": self._turn(session), "usage": Usage(10, 5, 0.25)}

    def _LadderElapsed(self, session: Session) -> dict[str, Any]:
        step = session.turn.step if session.turn else None
        return {"turn": self._turn(session), "step": step or "ask"}

    def _child(self) -> dict[str, Any]:
        names = {"name": self.one_of(None, "bob"), "role": "worker"}
        return {"child": SessionId("s_9"), "agent": "agent", **names}

    def _ChildAdmitted(self, _: Session) -> dict[str, Any]:
        return {**self._child(), "text": self._text()}

    def _ChildDeleted(self, _: Session) -> dict[str, Any]:
        return {"child": SessionId("s_9"), "spent": Spending(2, 30, 0.5, 1.0), "spawns": 1}

    def _ChildRefused(self, _: Session) -> dict[str, Any]:
        return {"agent": "agent", "limit": "max_children", "used": 5, "allowed": 5, "detail": "no"}

    def _FamilyChanged(self, _: Session) -> dict[str, Any]:
        news = [
            ev.ChildNews(
                **self._child(),
                what=what,
                on_end=self.one_of("tell", "wake"),
                outcome="completed",
                text=self.one_of("", "done", "z" * 1900),
                reason="completed" if what == "over" else None,
                failed=self.maybe(),
                was_done=self.maybe(),
            )
            for what in self.one_of((), ("done",), ("over",), ("started",), ("done", "over"))
        ]
        return {"input": InputId(self.new("in")), "news": tuple(news)}

    def _NewsTaken(self, session: Session) -> dict[str, Any]:
        return {"turn": self._turn(session), "read": session.family.news}

    def _ProgressMade(self, session: Session) -> dict[str, Any]:
        return {"turn": self._turn(session)}

    def _DeadlineElapsed(self, session: Session) -> dict[str, Any]:
        return {"turn": self._turn(session)}

    def _SilenceNoticed(self, session: Session) -> dict[str, Any]:
        return {
            "turn": self._turn(session),
            "level": self.one_of("quiet", "stalled", "stalled"),
            "waits_for": self.one_of("model", "tool"),
            "detail": self.one_of(None, "bash"),
            "since": self.now - 300.0,
            "seconds": 300.0,
        }

    def _Claimed(self, session: Session) -> dict[str, Any]:
        return {"epoch": session.epoch + 1, "undead": self.maybe()}

    def _SupervisorRestarted(self, session: Session) -> dict[str, Any]:
        return {"epoch": session.epoch + 1}


def history(seed: int | random.Random, length: int) -> Iterator[tuple[Session, ev.Event]]:
    """Pairs of a session and what it is told next, each the outcome of the one before."""
    chance = Chance(seed)
    session = chance.session()
    for _ in range(length):
        event = chance.event(session)
        yield session, event
        session = decide(session, event).session
