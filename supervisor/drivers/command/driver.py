"""Drives an agent that is a command; see `port.Driver`.

Rule 1: between turns there is nothing: it is up as soon as it is asked to be, and a process that
        dies fails its own turn, and nothing else.
Rule 2: it can be interrupted (SIGINT, as Ctrl-C does it), told to end, and killed. Closing its
        input is no step: that is closed when it has its prompt.
"""

# What each method of a port does is said there.
# ruff: noqa: D102

from __future__ import annotations

from typing import Final, Literal

from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.session import Agent, Capabilities, Decision, LadderStep
from supervisor.drivers.port import Hindrance, Office, Workshop

from .agent import CommandAgent
from .run import Run

LADDER: Final[tuple[LadderStep, ...]] = ("ask", "terminate", "kill")


class CommandDriver:
    """One command, at work for one session."""

    def __init__(self, agent: CommandAgent, office: Office, workshop: Workshop) -> None:
        self._agent = agent
        self._office = office
        self._workshop = workshop
        self._run: Run | None = None

    def start(self) -> None:
        able = Capabilities(
            steering="none",
            cancels_calls=False,
            loads_sessions=self._agent.keeps_conversations,
            ladder=LADDER,
        )
        agent = Agent(able, self._office.agent_session_id)
        self._office.report_surely(ev.AgentAttached(agent=agent, **self._office.stamp()))

    def start_turn(self, order: StartTurn) -> None:
        self._run = Run(self._agent, order, self._office, self._workshop)
        self._workshop.start_soon(self._run.run, name=order.turn)

    def adopt_turn(self, order: AdoptTurn) -> None:
        """It begins none by itself."""

    def offer_steering(self, offer: OfferSteering) -> None:
        """It hears nothing while it runs."""

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        """It was not given."""

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        run = self._running(turn)
        if run is not None:
            run.take_step(step)

    def abandon_turn(self, turn: TurnId) -> None:
        run = self._running(turn)
        if run is not None:
            run.abandon()

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        """What it calls is its own affair."""

    def end_background(self) -> None:
        """Nothing of it outlives its turn."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """It asks nothing."""

    def hindrance(self) -> Hindrance | None:
        return None if self._run is None or self._run.is_over else self._run.hindrance()

    def close(self) -> None:
        run = self._run
        if run is None or run.is_over or run.is_abandoned:
            self._report_closed()
        else:
            run.let_go(within_seconds=self._office.ladder.terminate_seconds)
            self._workshop.start_soon(self._close_after, run)

    def drop(self) -> None:
        if self._run is not None and not self._run.is_over:
            self._run.abandon()
            self._run.let_go(within_seconds=0.0)

    async def _close_after(self, run: Run) -> None:
        await run.when_over.wait()
        self._report_closed()

    def _report_closed(self) -> None:
        self._office.report_surely(ev.AgentClosed(**self._office.stamp()))

    def _running(self, turn: TurnId) -> Run | None:
        return self._run if self._run is not None and self._run.turn == turn else None
