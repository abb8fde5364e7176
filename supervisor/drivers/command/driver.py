"""Driver of agents that are a command.

Rule 1: no process exists between turns. The agent is attached as soon as it is started, and a
        process that dies fails only its own turn.
Rule 2: the ladder is SIGINT, as Ctrl-C sends it, SIGTERM, SIGKILL. Closing the input is not a step,
        because the input is closed once the prompt was sent.
"""

# The port documents its methods.
# ruff: noqa: D102

from __future__ import annotations

from typing import Final, Literal

from supervisor.core import agent_events
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.state import Agent, Capabilities, Decision, LadderStep
from supervisor.drivers.port import BlockedOn, DriverContext, DriverRuntime

from .run import CommandRun
from .template import CommandTemplate

LADDER: Final[tuple[LadderStep, ...]] = ("ask", "terminate", "kill")


class CommandDriver:
    """`port.Driver` of a command."""

    def __init__(
        self, template: CommandTemplate, context: DriverContext, runtime: DriverRuntime
    ) -> None:
        self._template = template
        self._context = context
        self._runtime = runtime
        self._run: CommandRun | None = None

    def start(self) -> None:
        capabilities = Capabilities(
            steering="none",
            cancels_calls=False,
            loads_sessions=self._template.keeps_conversations,
            ladder=LADDER,
        )
        agent = Agent(capabilities, self._context.agent_session_id)
        self._context.report_eventually(
            agent_events.AgentAttached(agent=agent, **self._context.stamp())
        )

    def start_turn(self, effect: StartTurn) -> None:
        self._run = CommandRun(self._template, effect, self._context, self._runtime)
        self._runtime.start_soon(self._run.run, name=effect.turn)

    def adopt_turn(self, effect: AdoptTurn) -> None:
        """Do nothing: a command starts no turn by itself."""

    def offer_steering(self, offer: OfferSteering) -> None:
        """Do nothing: a command takes no steering."""

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        """Do nothing: a command takes no steering."""

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        run = self._running(turn)
        if run is not None:
            run.take_ladder_step(step)

    def abandon_turn(self, turn: TurnId) -> None:
        run = self._running(turn)
        if run is not None:
            run.abandon()

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        """Do nothing: a command reports no tool calls."""

    def stop_background_work(self) -> None:
        """Do nothing: all processes of a command end with its turn."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """Do nothing: a command makes no permission requests."""

    def blocked_on(self) -> BlockedOn | None:
        return None if self._run is None or self._run.is_over else self._run.blocked_on()

    def close(self) -> None:
        run = self._run
        if run is None or run.is_over or run.is_abandoned:
            self._report_closed()
        else:
            run.close(within_seconds=self._context.ladder.terminate_seconds)
            self._runtime.start_soon(self._close_after, run)

    def discard(self) -> None:
        if self._run is not None and not self._run.is_over:
            self._run.abandon()
            self._run.close(within_seconds=0.0)

    async def _close_after(self, run: CommandRun) -> None:
        await run.finished.wait()
        self._report_closed()

    def _report_closed(self) -> None:
        self._context.report_eventually(agent_events.AgentClosed(**self._context.stamp()))

    def _running(self, turn: TurnId) -> CommandRun | None:
        return self._run if self._run is not None and self._run.turn == turn else None
