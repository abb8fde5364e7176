"""A session that is told one thing after the other, without anybody around it."""

# ruff: noqa: ANN401 - the words of an event are passed on as they are

from __future__ import annotations

from typing import Any

from supervisor.core import events as ev
from supervisor.core.errors import SupervisorError
from supervisor.core.events import Event
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.receipts import Receipt
from supervisor.core.session import Agent, Capabilities, Session
from supervisor.core.step import Accepted, Refused, Step
from supervisor.core.table import decide


class Play:
    """A session that is told one thing after the other; keeps all the records and wishes."""

    def __init__(self, **capabilities: Any) -> None:
        self.session = Session(id=SessionId("s_1"), agent_name="agent")
        self.now = 0.0
        self.told = 0
        self.kinds: list[str] = []
        self.settled: dict[str, str] = {}
        self.last = Step(self.session)
        self._agent = Agent(Capabilities(**capabilities))

    def tell(self, kind: type[Event], **words: Any) -> Step:
        self.told += 1
        step = decide(self.session, kind(at=self.now, fresh=TurnId(f"turn_{self.told}"), **words))
        self.session, self.last = step.session, step
        self.kinds += [fact.kind for fact in step.facts]
        for fact in step.facts:
            if fact.kind == "input_settled":
                self.settled[fact.body["input_id"]] = fact.body["outcome"]
        return step

    def attach(self) -> Play:
        self.tell(ev.AgentAttached, agent=self._agent)
        return self

    def send(self, name: str, **words: Any) -> Receipt:
        step = self.tell(ev.InputSubmitted, input=name, text=f"text of {name}", **words)
        assert isinstance(step.reply, Accepted)
        assert isinstance(step.reply.value, Receipt)
        return step.reply.value

    def end_turn(self) -> Step:
        assert self.session.turn is not None
        return self.tell(ev.TurnEnded, turn=self.session.turn.id, outcome="completed")

    def refusal(self) -> SupervisorError:
        assert isinstance(self.last.reply, Refused)
        return self.last.reply.error

    @property
    def queue(self) -> list[str]:
        return [waiting.id for waiting in self.session.inputs]

    @property
    def running(self) -> str | None:
        return self.session.turn.input_id if self.session.turn else None


def idle(**capabilities: Any) -> Play:
    return Play(**capabilities).attach()


def busy(**capabilities: Any) -> Play:
    play = idle(**capabilities)
    play.send("first")
    return play
