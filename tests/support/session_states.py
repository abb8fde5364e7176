"""Queries of session states, and an agent that starts and exits when the test says so."""

from __future__ import annotations

import trio
import trio.testing

from supervisor import Phase, Restart, Session, Supervisor
from supervisor.core import agent_events
from supervisor.core.state import Agent, Capabilities, Failure
from supervisor.drivers.port import DriverContext
from supervisor.drivers.runtime import DriverRuntime

REST_SECONDS = 60.0
NEVER = Restart(policy="never")


def is_in_memory(sup: Supervisor, session: Session) -> bool:
    return sup._parts.registry.find_slot(session.id) is not None


async def phase_of(session: Session) -> Phase:
    return (await session.info()).phase


async def texts_of(session: Session) -> list[str]:
    return [message.text for message in await session.transcript()]


async def bring_to(session: Session, state: str) -> None:
    """Bring an idle session of `scripted` into this state."""
    match state:
        case "running":
            await session.send("sleep 1000")
        case "stopped":
            await session.stop()
        case "suspended":
            await trio.sleep(2 * REST_SECONDS)


class SlowStartAgent:
    """An agent kind, and its own driver, that reports starts, failures and exits on command.

    It runs no turns.
    """

    name = "slow"
    runs_process = False

    def __init__(self) -> None:
        self.context: DriverContext | None = None
        self.waits = True
        self.failure: Failure | None = None

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> SlowStartAgent:
        self.context = context
        return self

    def start(self) -> None:
        if not self.waits:
            self.report_start()

    def report_start(self) -> None:
        assert self.context is not None
        stamp = self.context.stamp()
        if self.failure is not None:
            self.context.report_eventually(agent_events.StartFailed(failure=self.failure, **stamp))
        else:
            self.context.report_eventually(
                agent_events.AgentAttached(agent=Agent(Capabilities()), **stamp)
            )

    def leave(self, failure: Failure | None = None) -> None:
        assert self.context is not None
        self.context.report_eventually(
            agent_events.AgentExited(failure=failure, **self.context.stamp())
        )

    def close(self) -> None:
        assert self.context is not None
        self.context.report_eventually(agent_events.AgentClosed(**self.context.stamp()))

    def start_turn(self, order: object) -> None: ...
    def adopt_turn(self, order: object) -> None: ...
    def offer_steering(self, offer: object) -> None: ...
    def withdraw_steering(self, turn: object, input_id: object) -> None: ...
    def cancel_turn(self, turn: object, step: object) -> None: ...
    def abandon_turn(self, turn: object) -> None: ...
    def cancel_call(self, turn: object, call: object) -> None: ...
    def stop_background_work(self) -> None: ...
    def answer(self, request: object, decision: object) -> None: ...
    def set_options(self, options: object) -> None: ...
    def blocked_on(self) -> None: ...
    def discard(self) -> None: ...


KEY = "echo:irc:ann"


async def holders(sup: Supervisor, key: str = KEY) -> list[str]:
    """The unarchived sessions that bear the key."""
    return [i.id for i in (await sup.list()).items if i.key == key and not i.archived]
