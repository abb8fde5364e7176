"""Driver of agents that are async functions in our own process.

Such an agent can only be asked to stop, by cancelling its scope. If it does not react, the turn is
abandoned: its task is a zombie, listed until it ends, and its session starts no other turn. Code
that may never end belongs into a process.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import ClassVar, Literal, TypeAlias

import attrs
import trio
from trio.lowlevel import checkpoint_if_cancelled, current_task, enable_ki_protection

from supervisor.core import agent_events
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import ConfigError, OutputTooLarge, short_repr
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.state import Agent, Capabilities, Decision, Failure, LadderStep, Outcome
from supervisor.core.text import describe_error, plain_text
from supervisor.core.validation import check_agent_name

from .port import BlockedOn, DriverContext
from .runtime import DriverRuntime, ReportedAgent
from .turn import CURRENT_SESSION, Turn, is_cancellation
from .turn_control import TurnControl

AgentFunction: TypeAlias = Callable[[Turn], Awaitable[str | None]]

CAPABILITIES = Capabilities(steering="boundary", cancels_calls=True, ladder=("ask",))

ATTACHED_AGENT = Agent(CAPABILITIES)


class AgentDied(Exception):
    """Raised by an agent to simulate the death of an agent process during a turn."""


@attrs.frozen
class PythonAgent:
    """An agent that is an async function; `@supervisor.agent("name")` returns one."""

    name: str
    function: AgentFunction
    runs_process: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        check_agent_name(self.name)
        if not _is_async(self.function):
            raise ConfigError(
                f"agent {short_repr(self.name)} is {short_repr(self.function)}, which is not an"
                " async function",
                hint="write `async def`, with one parameter for the turn",
            )

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> PythonDriver:
        """Return a new driver for one session."""
        return PythonDriver(self, context, runtime)


def agent(name: str) -> Callable[[AgentFunction], PythonAgent]:
    """Return a decorator that makes an agent of an async function.

    The function takes a `Turn` and returns its final text.
    """
    if callable(name):
        raise ConfigError("@supervisor.agent needs a name", hint='write @supervisor.agent("name")')
    check_agent_name(name)
    return lambda function: PythonAgent(name, function)


def _is_async(function: object) -> bool:
    if not callable(function):
        return False
    # An object with an `async def __call__` is accepted too.
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


class PythonDriver:
    """`port.Driver` of a Python agent."""

    __slots__ = ("_agent", "_context", "_run", "_runtime")

    def __init__(self, agent: PythonAgent, context: DriverContext, runtime: DriverRuntime) -> None:
        self._agent = agent
        self._context = context
        self._runtime = runtime
        self._run: _PythonRun | None = None

    def start(self) -> None:
        self._runtime.reported_agents[self._agent.name] = ReportedAgent(CAPABILITIES)
        self._context.report_eventually(
            agent_events.AgentAttached(agent=ATTACHED_AGENT, **self._context.stamp())
        )

    def start_turn(self, effect: StartTurn) -> None:
        self._run = _PythonRun(self._agent, effect, self._context, self._runtime)

    def adopt_turn(self, effect: AdoptTurn) -> None:
        raise AssertionError(f"turn {effect.turn} cannot be adopted: python agents start none")

    def offer_steering(self, offer: OfferSteering) -> None:
        run = self._running(offer.turn)
        if run is not None:
            run.turn_control.offer_steering(offer.input, offer.text)

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        run = self._running(turn)
        if run is not None:
            run.turn_control.withdraw_steering(input_id)

    def set_options(self, options: object) -> None:
        """Do nothing: a python agent offers no options."""

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        run = self._running(turn)
        if run is not None and step == "ask":
            run.cancel("the turn was interrupted")

    def abandon_turn(self, turn: TurnId) -> None:
        run = self._running(turn)
        if run is not None:
            run.abandon()

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        run = self._running(turn)
        if run is not None:
            run.turn_control.cancel_call(call)

    def stop_background_work(self) -> None:
        """Do nothing: a Python agent runs nothing outside its turns."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        if self._run is not None:
            self._run.turn_control.answer(request, decision)

    def close(self) -> None:
        self._context.report_eventually(agent_events.AgentClosed(**self._context.stamp()))

    def blocked_on(self) -> BlockedOn | None:
        return None

    def discard(self) -> None:
        if self._run is not None and not self._run.has_ended:
            self._run.cancel("the session's actor has ended")
            self._run.abandon()

    def _running(self, turn: TurnId) -> _PythonRun | None:
        return self._run if self._run is not None and self._run.turn.id == turn else None


class _PythonRun:
    """One turn, which runs in its own task from its creation on."""

    __slots__ = (
        "_agent",
        "_context",
        "_is_abandoned",
        "_nursery",
        "_runtime",
        "has_ended",
        "turn",
        "turn_control",
    )

    def __init__(
        self, agent: PythonAgent, effect: StartTurn, context: DriverContext, runtime: DriverRuntime
    ) -> None:
        self._agent = agent
        self._context = context
        self._runtime = runtime
        self.turn_control = TurnControl(effect.turn, context)
        self.turn = Turn(effect, self.turn_control, closing=runtime.shutdown_started)
        self._is_abandoned = False
        self.has_ended = False
        self._nursery = runtime.agent_nurseries.start_soon(self.run, self.fail, name=agent.name)

    def cancel(self, reason: str) -> None:
        """Cancel the agent, unless it has ended: then another agent may use its nursery."""
        if not self.has_ended:
            self._nursery.cancel(reason)

    def abandon(self) -> None:
        """Treat the turn as over although its task may still run; report the zombie's end."""
        self.turn_control.end()
        if self.has_ended:
            self._report_zombie_end()
        elif not self._is_abandoned:
            self._is_abandoned = True
            owner = f"{self._agent.name} in {self.turn.session_id}"
            self._runtime.add_zombie(self.turn.id, owner)

    # Ctrl-C is for the program and is raised in its main task. Without the protection it could be
    # raised in an agent and look like a failure of that agent.
    @enable_ki_protection
    async def run(self) -> None:
        """Run the agent and report the end of the turn.

        An exception of the agent fails the turn.
        """
        turn = self.turn
        CURRENT_SESSION.set(turn.session_id)
        answer: object = None
        failure: BaseException | None = None
        try:
            turn.history = await self._context.prepare_turn(turn.id)
            # A read of the store does not notice a cancellation, and the turn may be over by now.
            await checkpoint_if_cancelled()
            answer = await self._agent.function(turn)
        except BaseException as error:  # noqa: BLE001 - also a Cancelled, ours or a foreign one
            failure = error
        if current_task().child_nurseries:
            return  # the agent left a nursery open: the nursery around this task calls `fail`
        if failure is None and isinstance(answer, str):
            self._end(self._completed(answer))
        else:
            self._end(self._report(answer, failure))
        self._runtime.agent_nurseries.release(self._nursery)

    def fail(self, error: BaseException) -> None:
        """Report the failure of an agent that has corrupted its task, or was never run."""
        if not self.has_ended:
            self._end(self._report(None, error))

    def _end(self, report: agent_events.TurnEnded | agent_events.AgentExited) -> None:
        self.has_ended = True
        self.turn_control.end()
        if self._is_abandoned:
            self._runtime.remove_zombie(self.turn.id)
            self._report_zombie_end()
        else:
            self._context.report_eventually(report)

    def _report_zombie_end(self) -> None:
        self._context.report_eventually(
            agent_events.ZombieEnded(turn=self.turn.id, **self._context.stamp())
        )

    def _report(
        self, answer: object, failure: BaseException | None
    ) -> agent_events.TurnEnded | agent_events.AgentExited:
        """Return the event for the end of the turn."""
        if failure is not None:
            if isinstance(failure, AgentDied):
                return agent_events.AgentExited(
                    failure=Failure("process_exit", str(failure)), **self._context.stamp()
                )
            if self._nursery.cancel_reason is None:
                return self._ended("failed", error=describe_error(failure))
            # While no scope around us is cancelled, a Cancelled was kept by the agent.
            if is_cancellation(failure) and trio.current_effective_deadline() == -math.inf:
                return self._ended("interrupted", "cancelled")
            return self._ended("interrupted", error=describe_error(failure))
        if answer is not None and not isinstance(answer, str):
            return self._ended(
                "failed", error=f"the agent returned {type(answer).__name__}, which is not text"
            )
        return self._completed(answer)

    def _completed(self, answer: str | None) -> agent_events.TurnEnded:
        """Return the end of a completed turn.

        Write the returned text if the turn has no such text.
        """
        text = None if answer is None else plain_text(answer)
        if text:
            try:
                self._context.write_answer(self.turn.id, text)
            except OutputTooLarge as error:
                return self._ended("failed", error=describe_error(error))
        return self._ended("completed", "end_turn", text=text)

    def _ended(
        self,
        outcome: Outcome,
        stop_reason: str | None = None,
        *,
        text: str | None = None,
        error: str | None = None,
    ) -> agent_events.TurnEnded:
        stamp = self._context.stamp()
        return agent_events.TurnEnded(
            turn=self.turn.id,
            outcome=outcome,
            stop_reason=stop_reason,
            text=text,
            error=error,
            at=stamp["at"],
            steady_at=stamp["steady_at"],
            fresh=stamp["fresh"],
        )
