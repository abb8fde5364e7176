"""What the tests of a session's life share: where it stands, and an agent that is slow to come."""

from __future__ import annotations

import trio

from supervisor import Phase, Restart, Session, Supervisor
from supervisor.core import events as ev
from supervisor.core.session import Agent, Capabilities, Failure
from supervisor.drivers.port import Office, Workshop

REST_SECONDS = 60.0
NEVER = Restart(policy="never")


def is_in_memory(sup: Supervisor, session: Session) -> bool:
    return sup._house.tree.find_seat(session.id) is not None


async def phase_of(session: Session) -> Phase:
    return (await session.info()).phase


async def texts_of(session: Session) -> list[str]:
    return [message.text for message in await session.transcript()]


async def come_to(session: Session, state: str) -> None:
    """Bring an idle session of `scripted` there."""
    match state:
        case "running":
            await session.send("sleep 1000")
        case "stopped":
            await session.stop()
        case "suspended":
            await trio.sleep(2 * REST_SECONDS)


class Understudies:
    """Agents that come up, fail and leave when the test says so; they play no turns."""

    name = "slow"
    runs_process = False

    def __init__(self) -> None:
        self.office: Office | None = None
        self.waits = True
        self.failure: Failure | None = None

    def make_driver(self, office: Office, workshop: Workshop) -> Understudies:
        self.office = office
        return self

    def start(self) -> None:
        if not self.waits:
            self.come_up()

    def come_up(self) -> None:
        assert self.office is not None
        stamp = self.office.stamp()
        if self.failure is not None:
            self.office.report_surely(ev.AgentStartFailed(failure=self.failure, **stamp))
        else:
            self.office.report_surely(ev.AgentAttached(agent=Agent(Capabilities()), **stamp))

    def leave(self, failure: Failure | None = None) -> None:
        assert self.office is not None
        self.office.report_surely(ev.AgentExited(failure=failure, **self.office.stamp()))

    def close(self) -> None:
        assert self.office is not None
        self.office.report_surely(ev.AgentClosed(**self.office.stamp()))

    def start_turn(self, order: object) -> None: ...
    def adopt_turn(self, order: object) -> None: ...
    def offer_steering(self, offer: object) -> None: ...
    def withdraw_steering(self, turn: object, input_id: object) -> None: ...
    def cancel_turn(self, turn: object, step: object) -> None: ...
    def abandon_turn(self, turn: object) -> None: ...
    def cancel_call(self, turn: object, call: object) -> None: ...
    def end_background(self) -> None: ...
    def answer(self, request: object, decision: object) -> None: ...
    def hindrance(self) -> None: ...
    def drop(self) -> None: ...
