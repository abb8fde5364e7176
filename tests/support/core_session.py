"""A driver of the core for tests: feeds events to one session."""
# ruff: noqa: ANN401 - the fields of an event are passed on as they are

from __future__ import annotations

from typing import Any

import attrs

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.errors import (
    SupervisorError,
)
from supervisor.core.events import Event
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.limits import Terms
from supervisor.core.receipts import Receipt
from supervisor.core.state import Agent, Capabilities, Failure, Phase, SessionState
from supervisor.core.step import Accepted, Refused, Step
from supervisor.core.table import decide
from supervisor.core.tree.admission import TreeView
from supervisor.core.tree.node import ExhaustedBudget


class CoreSession:
    """A session that gets one event after the other; keeps the record kinds and the last step."""

    def __init__(self, **capabilities: Any) -> None:
        self.session = SessionState(id=SessionId("s_1"), agent_name="agent")
        self.now = 0.0
        self.told = 0
        self.kinds: list[str] = []
        self.settled: dict[str, str] = {}
        self.last = Step(self.session)
        self._agent = Agent(Capabilities(**capabilities))

    def tell(self, kind: type[Event], **words: Any) -> Step:
        self.told += 1
        event = kind(at=self.now, fresh=TurnId(f"turn_{self.told}"), **words)
        step = decide(self.session, event, len(self.kinds))
        self.session, self.last = step.state, step
        self.kinds += [fact.kind for fact in step.facts]
        for fact in step.facts:
            if fact.kind == "input_settled":
                self.settled[fact.body["input_id"]] = fact.body["outcome"]
        return step

    def attach(self) -> CoreSession:
        self.tell(agent_events.AgentAttached, agent=self._agent)
        return self

    def send(self, name: str, **words: Any) -> Receipt:
        step = self.tell(ev.InputSubmitted, input=name, text=f"text of {name}", **words)
        assert isinstance(step.reply, Accepted)
        assert isinstance(step.reply.value, Receipt)
        return step.reply.value

    def end_turn(self) -> Step:
        assert self.session.turn is not None
        return self.tell(agent_events.TurnEnded, turn=self.session.turn.id, outcome="completed")

    def refusal(self) -> SupervisorError:
        assert isinstance(self.last.reply, Refused)
        return self.last.reply.error

    @property
    def queue(self) -> list[str]:
        return [waiting.id for waiting in self.session.inputs]

    @property
    def running(self) -> str | None:
        return self.session.turn.input_id if self.session.turn else None


def idle(**capabilities: Any) -> CoreSession:
    return CoreSession(**capabilities).attach()


def busy(**capabilities: Any) -> CoreSession:
    play = idle(**capabilities)
    play.send("first")
    return play


TURN = TurnId("turn_2")  # the first turn: the agent attaches with event 1


def with_terms(play: CoreSession, **terms: Any) -> CoreSession:
    play.session = attrs.evolve(play.session, terms=Terms(**terms))
    return play


def phase_of(play: CoreSession) -> Phase:
    return play.session.phase


def bodies(play: CoreSession, kind: str) -> list[dict[str, Any]]:
    return [dict(fact.body) for fact in play.last.facts if fact.kind == kind]


EXHAUSTED = TreeView(exhausted_budget=ExhaustedBudget("tokens", 120, 100, SessionId("s_root")))
NO_CHILD_SLOT = TreeView(child_slots_full=True)
NO_TURN_SLOT = TreeView(turn_slots_full=True)
TWO_CHILDREN = TreeView(dependents=2, has_active_children=True)


def news(
    what: agent_events.NewsKind = "done", child: str = "s_9", **words: Any
) -> agent_events.ChildNews:
    words.setdefault("on_end", "wake")
    words.setdefault("outcome", "completed")
    words.setdefault("reason", "completed" if what == "over" else None)
    return agent_events.ChildNews(
        kind=what, child=SessionId(child), agent="tester", name=None, role="worker", **words
    )


def recheck(play: CoreSession, *heard: agent_events.ChildNews, **words: Any) -> None:
    play.tell(agent_events.TreeChanged, input=InputId(f"news_{play.told}"), news=heard, **words)


def admit(play: CoreSession, text: str = "go", **words: Any) -> None:
    play.tell(ev.ChildAdmitted, child="s_9", agent="tester", text=text, **words)


def suspended() -> CoreSession:
    play = idle()
    play.tell(agent_events.IdleElapsed)
    assert play.session.phase is Phase.SUSPENDED
    return play


CRASH = Failure("process_exit", "killed by signal 9")
