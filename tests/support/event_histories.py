"""Random event histories for the core: events that fit, nearly fit, or do not fit at all.

Half of the events name something that exists; the other half are late, early, or about
something else. Drivers and callers are not assumed to behave.
"""
# ruff: noqa: N802 - the makers of events have the names of their events

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from supervisor.core import agent_events, text
from supervisor.core import events as ev
from supervisor.core.agent_options import AgentOption
from supervisor.core.errors import SpawnRefused
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.limits import Limits, Lineage, Restart, Terms
from supervisor.core.permissions import MODES, Permissions
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import (
    Agent,
    Capabilities,
    ContextUse,
    Failure,
    Phase,
    SessionState,
    Spending,
    Usage,
)
from supervisor.core.table import decide
from supervisor.core.tree.admission import EMPTY_TREE_VIEW, TreeView
from supervisor.core.tree.node import ExhaustedBudget

T = TypeVar("T")

# Events that are more likely in that phase, so that histories make progress.
LIKELY: dict[Phase, tuple[type[ev.Event], ...]] = {
    Phase.STARTING: (agent_events.AgentAttached, ev.InputSubmitted),
    Phase.IDLE: (
        ev.InputSubmitted,
        ev.InputSubmitted,
        agent_events.IdleElapsed,
        agent_events.ZombieEnded,
        agent_events.TreeChanged,
        agent_events.SupervisorRestarted,
    ),
    Phase.RUNNING: (
        agent_events.TurnEnded,
        ev.InputSubmitted,
        ev.StopRequested,
        ev.InterruptRequested,
        ev.SteeringSubmitted,
        agent_events.SteeringTaken,
        agent_events.SteeringDeclined,
        agent_events.SteeringBeganTurn,
        agent_events.CallStarted,
        agent_events.PermissionAsked,
        ev.RequestAnswered,
        ev.QuestionAsked,
        agent_events.AgentExited,
        agent_events.SilenceNoticed,
        agent_events.ProgressMade,
        ev.InputPromoted,
    ),
    Phase.INTERRUPTING: (
        agent_events.LadderElapsed,
        agent_events.TurnEnded,
        ev.StopRequested,
        agent_events.AgentExited,
        agent_events.Claimed,
    ),
    Phase.RESTARTING: (
        ev.InputSubmitted,
        agent_events.AgentAttached,
        agent_events.AgentAttached,
        agent_events.StartFailed,
        agent_events.AgentExited,
    ),
    Phase.SUSPENDED: (
        ev.InputSubmitted,
        ev.InputSubmitted,
        agent_events.TreeChanged,
        ev.ChildAdmitted,
        agent_events.SupervisorRestarted,
        agent_events.SupervisorRestarted,
    ),
    Phase.STOPPING: (
        agent_events.AgentClosed,
        agent_events.TreeChanged,
        agent_events.LadderElapsed,
        agent_events.TurnEnded,
    ),
    Phase.STOPPED: (ev.ResumeRequested, ev.InputSubmitted, ev.UnarchiveRequested),
}

LIKELINESS = 0.4
MOSTLY = (True, True, True, False)
ALONENESS = 0.7

# Events that would otherwise end too many histories early.
RARE = (agent_events.SupervisorRestarted, agent_events.ShutdownRequested, agent_events.Claimed)

# Mostly the tree is empty; these are obstacles in the other cases.
SHORTAGE = ExhaustedBudget("tokens", 120, 100, SessionId("s_root"))
REFUSAL = SpawnRefused("full", hint="wait", limit="max_children", used=5, allowed=5)

LADDERS: list[tuple[Any, ...]] = [("ask",), ("ask", "close", "terminate", "kill")]


class Chance:
    """Generator of sessions and events from a seed."""

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

    def session(self) -> SessionState:
        terms = Terms(
            queue_cap=self.one_of(1, 3, 10),
            steer_fallback=self.one_of("queue", "interrupt"),
            restart=Restart(
                policy=self.one_of("never", "on_crash", "always"), max_restarts=self.one_of(0, 2)
            ),
            on_stall=self.one_of("notify", "interrupt", "restart", "stop"),
            turn_deadline_seconds=self.one_of(None, 60.0),
            permission_timeout_seconds=self.one_of(None, 60.0),
        )
        permissions = Permissions(tools=self.one_of(None, ["bash"]), mode=self.one_of(None, *MODES))
        below = Lineage(SessionId("s_root"), SessionId("s_root"), depth=1, input=InputId("in_1"))
        return SessionState(
            id=SessionId("s_1"),
            agent_name="agent",
            terms=terms,
            permissions=permissions,
            lineage=self.one_of(Lineage(), below),
        )

    def tree_view(self) -> TreeView:
        """Return a tree view: mostly empty, else with any obstacles at once."""
        if self._random.random() < ALONENESS:
            return EMPTY_TREE_VIEW
        return TreeView(
            dependents=self.one_of(0, 1, 3),
            has_active_children=self.maybe(),
            turn_slots_full=self.maybe(),
            child_slots_full=self.maybe(),
            shutting_down=self.maybe() and self.maybe(),
            has_younger_sibling=self.maybe(),
            is_parent_live=self.one_of(*MOSTLY),
            exhausted_budget=self.one_of(None, None, SHORTAGE),
            refusal=self.one_of(None, REFUSAL),
            ran_seconds=self.one_of(None, 1.5),
        )

    def event(self, session: SessionState) -> ev.Event:
        self.now += self.one_of(0.0, 0.5, 40.0)
        likely = LIKELY.get(session.phase, ()) if self._random.random() < LIKELINESS else ()
        kind = self.one_of(*(likely or ev.EVENTS))
        if kind in RARE and self.maybe():
            kind = self.one_of(*ev.EVENTS)
        if session.turn is not None and session.turn.requests and self.maybe():
            kind = ev.QuestionAnswered if self.maybe() else ev.RequestAnswered
            kind = agent_events.RequestTimedOut if self.maybe() else kind
        make: Callable[[SessionState], dict[str, Any]] | None = getattr(
            self, f"_{kind.__name__}", None
        )
        fields = make(session) if make is not None else {}
        fresh = TurnId(self.new("turn"))
        return kind(at=self.now, fresh=fresh, tree_view=self.tree_view(), **fields)

    # The fields of the events, by the names of their classes ------------------------------

    def _turn(self, session: SessionState) -> TurnId:
        there = [session.turn.id] * 4 if session.turn else []
        undead = [session.zombie] if session.zombie else []
        return self.one_of(*there, *undead, TurnId("turn_of_old"))

    def _input(self, session: SessionState) -> InputId:
        return self.one_of(*(w.id for w in session.inputs), InputId("in_unknown"))

    def _text(self) -> str:
        return self.one_of("hello", "a\nb", "x" * 40, "  ", "\ud800", "y" * 70000, "ok", "go on")

    def _expiry(self) -> float | None:
        return self.one_of(None, None, self.now + 30.0, self.now + 90.0, self.now)

    def _InputSubmitted(self, _: SessionState) -> dict[str, Any]:
        text = self._text()
        return {
            "input": InputId(self.new("in")),
            "text": text,
            # Not drawn: each draw more makes the rest of a history another one.
            "trace": {"baggage": "a=b"} if len(text) % 2 else None,
            "when_busy": self.one_of("queue", "steer", "interrupt", "reject"),
            "expires_at": self._expiry(),
            "if_stopped": self.one_of("resume", "resume", "reject"),
            "queued": self.one_of("keep", "keep", "cancel"),
        }

    def _SteeringSubmitted(self, _: SessionState) -> dict[str, Any]:
        return {
            "input": InputId(self.new("in")),
            "text": self._text(),
            "expires_at": self._expiry(),
        }

    def _InterruptRequested(self, session: SessionState) -> dict[str, Any]:
        calls = [call.id for call in session.turn.calls] if session.turn else []
        replaced = self.maybe()
        turn = self.one_of(None, self._turn(session))
        call = self.one_of(None, None, CallId("call_gone"), *calls)
        return {
            "turn": turn,
            "call": call,
            "whole": turn is None and call is None and self.maybe(),
            "replacement": InputId(self.new("in")) if replaced else None,
            "replace_with": self._text() if replaced else None,
            "queued": self.one_of("keep", "cancel"),
        }

    def _TreeInterruptRequested(self, session: SessionState) -> dict[str, Any]:
        fields = self._InterruptRequested(session) | {"turn": None, "call": None, "whole": True}
        fresh = TurnId(self.new("turn"))
        return {"interrupt": ev.InterruptRequested(at=self.now, fresh=fresh, **fields)}

    def _MemberInterruptRequested(self, _: SessionState) -> dict[str, Any]:
        return {"reason": self.one_of(None, "enough"), "queued": self.one_of("keep", "cancel")}

    def _TreeInterruptEnded(self, _: SessionState) -> dict[str, Any]:
        hit = InterruptReport("tree", matched=2, stopped=1, unreachable=1, ladder_step="ask")
        return {"report": self.one_of(hit, InterruptReport("tree"))}

    def _InputEdited(self, session: SessionState) -> dict[str, Any]:
        return {"input": self._input(session), "text": self._text()}

    def _InputMoved(self, session: SessionState) -> dict[str, Any]:
        return {"input": self._input(session), "position": self.one_of(-1, 0, 1, 2, 99)}

    def _InputPromoted(self, session: SessionState) -> dict[str, Any]:
        return {"input": self._input(session)}

    def _InputWithdrawn(self, session: SessionState) -> dict[str, Any]:
        return {"input": self._input(session)}

    def _StopRequested(self, _: SessionState) -> dict[str, Any]:
        return {
            "cause": self.one_of("user", "ttl_expired", "stalled", "budget", "parent_stopped"),
            "after_turn": self.maybe(),
        }

    def _MessageAppended(self, _: SessionState) -> dict[str, Any]:
        return {"role": self.one_of("user", "agent"), "text": self._text()}

    def _DetailsChanged(self, session: SessionState) -> dict[str, Any]:
        return {
            # Its own, because a store refuses a name that another session holds.
            "name": self.one_of(None, f"name of {session.id}"),
            "title": self.one_of(None, "a title"),
            "tags": self.one_of(None, ("a", "b")),
            "custom": self.one_of(None, {"k": "v"}),
            "limits": self.one_of(None, Limits(turns=5)),
            "options": self.one_of(None, {"model": "large"}, {"brief": True}, {"model": None}),
            "mcp_servers": (None, (), ("files",))[session.accepted % 3],  # not drawn, as above
        }

    def _RecordsSeen(self, session: SessionState) -> dict[str, Any]:
        ended = 0 if session.last_turn is None else session.last_turn[-1]
        shown = [item.seq for item in session.attention]
        return {"seq": self.one_of(0, session.seen_seq, ended, ended + 1, *shown)}

    def _ToolCalled(self, session: SessionState) -> dict[str, Any]:
        return {
            "caller": session.id,
            "tool": self.one_of("spawn", "wait"),
            "outcome": self.one_of("ok", "spawn_refused"),
            "target": self.one_of(None, session.id),
            "seconds": 0.5,
            "refused": self.one_of(0, 3),
        }

    def _request(self, session: SessionState) -> RequestId:
        there = [request.id for request in session.turn.requests] if session.turn else []
        return self.one_of(*there, *there, RequestId("req_gone"))

    def _RequestAnswered(self, session: SessionState) -> dict[str, Any]:
        decision = self.one_of("allow_once", "allow_always", "reject_once", "reject_always")
        return {"request": self._request(session), "decision": decision}

    def _QuestionAsked(self, session: SessionState) -> dict[str, Any]:
        return {
            "turn": self._turn(session),
            "question_id": RequestId(self.new("req")),
            "question": self.one_of(self._text(), "which one?"),
            "choices": self.one_of((), ("this", "that"), ("a",) * 30, ("x" * 2_000,), (" ",)),
        }

    def _QuestionAnswered(self, session: SessionState) -> dict[str, Any]:
        return {"request": self._request(session), "text": self._text()}

    def _RequestTimedOut(self, session: SessionState) -> dict[str, Any]:
        return {"request": self._request(session)}

    def _RuleRemoved(self, session: SessionState) -> dict[str, Any]:
        return {"rule": self.one_of(*(r.id for r in session.rules), RequestId("req_gone"))}

    def _AgentAttached(self, _: SessionState) -> dict[str, Any]:
        able = Capabilities(
            steering=self.one_of("native", "boundary", "none"), ladder=self.one_of(*LADDERS)
        )
        return {
            "agent": Agent(able, session_id=self.one_of(None, "theirs"), pid=7),
            "options": self._offer(),
        }

    def _offer(self) -> tuple[AgentOption, ...]:
        current = self.one_of("small", "large")
        model = AgentOption(id="model", name="Model", current=current, values=("small", "large"))
        return self.one_of((), (model,))

    def _OptionRefused(self, _: SessionState) -> dict[str, Any]:
        return {"option": "model", "value": "large", "problem": "not today"}

    def _StartFailed(self, _: SessionState) -> dict[str, Any]:
        return {"failure": Failure("startup", "no such file")}

    def _AgentExited(self, _: SessionState) -> dict[str, Any]:
        return {"failure": self.one_of(None, Failure("process_exit", "1")), "jitter": 0.25}

    def _TurnEnded(self, session: SessionState) -> dict[str, Any]:
        outcome = self.one_of("completed", "failed", "interrupted", "timed_out")
        return {"turn": self._turn(session), "outcome": outcome, "text": "done", "messages": 1}

    def _ZombieEnded(self, session: SessionState) -> dict[str, Any]:
        return {"turn": self._turn(session)}

    def _CallStarted(self, session: SessionState) -> dict[str, Any]:
        call = CallId(self.new("call"))
        return {
            "turn": self._turn(session),
            "call": call,
            "name": "bash",
            "cancellable": self.maybe(),
        }

    def _CallEnded(self, session: SessionState) -> dict[str, Any]:
        calls = [call.id for call in session.turn.calls] if session.turn else []
        call = self.one_of(*calls, CallId("call_gone"))
        return {"turn": self._turn(session), "call": call, "outcome": "completed"}

    def _CallInterruptElapsed(self, session: SessionState) -> dict[str, Any]:
        calls = [call.id for call in session.turn.calls] if session.turn else []
        return {"turn": self._turn(session), "call": self.one_of(*calls, CallId("call_gone"))}

    def _PermissionAsked(self, session: SessionState) -> dict[str, Any]:
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

    def _SteeringTaken(self, session: SessionState) -> dict[str, Any]:
        some = tuple(w.id for w in session.inputs if self.maybe())
        return {"turn": self._turn(session), "inputs": (*some, InputId("in_unknown"))}

    def _SteeringDeclined(self, session: SessionState) -> dict[str, Any]:
        return self._SteeringTaken(session)

    def _SteeringUnanswered(self, session: SessionState) -> dict[str, Any]:
        return self._SteeringTaken(session)

    def _SteeringBeganTurn(self, session: SessionState) -> dict[str, Any]:
        offered = [waiting.id for waiting in session.inputs if waiting.status != "queued"]
        return {
            "turn": self._turn(session),
            "input": self.one_of(*offered, InputId("in_unknown")),
            "output": text.TurnOutput("so far", 1),
        }

    def _AgentSessionNamed(self, _: SessionState) -> dict[str, Any]:
        return {"session_id": self.new("theirs")}

    def _AgentChoicesReported(self, _: SessionState) -> dict[str, Any]:
        return {
            "choices": {"modes": ["plan", "code"]},
            "options": self.one_of(None, self._offer()),
        }

    def _AuthenticationRequested(self, _: SessionState) -> dict[str, Any]:
        return {"method": self.one_of(None, "login")}

    def _UsageReported(self, session: SessionState) -> dict[str, Any]:
        context = self.one_of(None, ContextUse(9_000), ContextUse(500, 200_000))
        return {"turn": self._turn(session), "usage": Usage(10, 5, 0.25), "context": context}

    def _LadderElapsed(self, session: SessionState) -> dict[str, Any]:
        step = session.turn.step if session.turn else None
        return {"turn": self._turn(session), "step": step or "ask"}

    def _child(self) -> dict[str, Any]:
        names = {"name": self.one_of(None, "bob"), "role": "worker"}
        return {"child": SessionId("s_9"), "agent": "agent", **names}

    def _ChildAdmitted(self, _: SessionState) -> dict[str, Any]:
        return {**self._child(), "text": self._text()}

    def _ChildDeleted(self, _: SessionState) -> dict[str, Any]:
        return {"child": SessionId("s_9"), "spent": Spending(2, 30, 0.5, 1.0), "spawns": 1}

    def _ChildRefused(self, _: SessionState) -> dict[str, Any]:
        return {"agent": "agent", "limit": "max_children", "used": 5, "allowed": 5, "detail": "no"}

    def _TreeChanged(self, _: SessionState) -> dict[str, Any]:
        news = [
            agent_events.ChildNews(
                **self._child(),
                kind=what,
                on_end=self.one_of("tell", "wake"),
                outcome="completed",
                text=self.one_of("", "done", "z" * 1900),
                reason="completed" if what == "over" else None,
                failed=self.maybe(),
                was_reported_done=self.maybe(),
            )
            for what in self.one_of((), ("done",), ("over",), ("started",), ("done", "over"))
        ]
        return {"input": InputId(self.new("in")), "news": tuple(news)}

    def _NewsRead(self, session: SessionState) -> dict[str, Any]:
        return {"turn": self._turn(session), "read": session.family.news}

    def _ProgressMade(self, session: SessionState) -> dict[str, Any]:
        return {"turn": self._turn(session)}

    def _DeadlineElapsed(self, session: SessionState) -> dict[str, Any]:
        return {"turn": self._turn(session)}

    def _SilenceNoticed(self, session: SessionState) -> dict[str, Any]:
        return {
            "turn": self._turn(session),
            "level": self.one_of("quiet", "stalled", "stalled"),
            "waits_for": self.one_of("model", "tool"),
            "detail": self.one_of(None, "bash"),
            "since": self.now - 300.0,
            "seconds": 300.0,
        }

    def _Claimed(self, session: SessionState) -> dict[str, Any]:
        return {"epoch": session.epoch + 1, "left_zombie": self.maybe()}

    def _SupervisorRestarted(self, session: SessionState) -> dict[str, Any]:
        return {"epoch": session.epoch + 1}


def history(seed: int | random.Random, length: int) -> Iterator[tuple[SessionState, ev.Event]]:
    """Yield pairs of a session and its next event, each session the result of the previous pair."""
    chance = Chance(seed)
    session = chance.session()
    for _ in range(length):
        event = chance.event(session)
        yield session, event
        session = decide(session, event).state
