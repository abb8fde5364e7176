"""Agents that are async functions in our own process.

Such an agent can only be asked to stop: its scope is cancelled, and if it will not have that, the
turn is over without it. Its task is then a zombie, listed until it ends, and its session begins no
other turn. Code that cannot be trusted to end belongs into a process.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, Literal, TypeAlias

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import ConfigError, OutputTooLarge, shown
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.session import (
    Agent,
    Capabilities,
    Decision,
    Failure,
    LadderStep,
    Outcome,
)

from .course import Course
from .plain import plain_text
from .port import Hindrance, Office, Workshop
from .turn import INSIDE, Turn, is_cancellation

AgentFunction: TypeAlias = Callable[[Turn], Awaitable[str | None]]

MAX_ERROR_LETTERS: Final = 2000

CAPABILITIES = Capabilities(steering="boundary", cancels_calls=True, ladder=("ask",))
ATTACHED = Agent(CAPABILITIES)


class AgentDied(Exception):
    """Raised inside an agent that plays a process which dies in the middle of its turn."""


@attrs.frozen
class PythonAgent:
    """An agent that is an async function; `@supervisor.agent("name")` makes one."""

    name: str
    function: AgentFunction
    runs_process: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(
                f"the name of an agent is {shown(self.name)}", hint="give it some text"
            )
        if not _is_async(self.function):
            raise ConfigError(
                f"agent {shown(self.name)} is {shown(self.function)}, which is no async function",
                hint="write `async def`, with one parameter for the turn",
            )

    def make_driver(self, office: Office, workshop: Workshop) -> PythonDriver:
        """A driver for one session."""
        return PythonDriver(self, office, workshop)


def agent(name: str) -> Callable[[AgentFunction], PythonAgent]:
    """Make an agent of an async function that takes a `Turn` and returns its final text."""
    return lambda function: PythonAgent(name, function)


def _is_async(function: object) -> bool:
    if not callable(function):
        return False
    # An object with an `async def __call__` is as good as a function.
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


class PythonDriver:
    """See `port.Driver`."""

    __slots__ = ("_agent", "_office", "_run", "_workshop")

    def __init__(self, agent: PythonAgent, office: Office, workshop: Workshop) -> None:
        self._agent = agent
        self._office = office
        self._workshop = workshop
        self._run: _Run | None = None

    def start(self) -> None:
        self._office.report_surely(ev.AgentAttached(agent=ATTACHED, **self._office.stamp()))

    def start_turn(self, order: StartTurn) -> None:
        self._run = _Run(self._agent, order, self._office, self._workshop)
        self._workshop.start_soon(self._run.run, name=order.turn)

    def adopt_turn(self, order: AdoptTurn) -> None:
        raise AssertionError(f"{order.turn} was begun by an agent that begins none")

    def offer_steering(self, offer: OfferSteering) -> None:
        run = self._running(offer.turn)
        if run is not None:
            run.course.offer(offer.input, offer.text)

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        run = self._running(turn)
        if run is not None:
            run.course.withdraw(input_id)

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
            run.course.cancel_call(call)

    def end_background(self) -> None:
        """It has nothing that we know of: what a turn starts ends with it."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        if self._run is not None:
            self._run.course.answer(request, decision)

    def close(self) -> None:
        self._office.report_surely(ev.AgentClosed(**self._office.stamp()))

    def hindrance(self) -> Hindrance | None:
        return None

    def drop(self) -> None:
        if self._run is not None and not self._run.ended:
            self._run.cancel("its session's actor is gone")
            self._run.abandon()

    def _running(self, turn: TurnId) -> _Run | None:
        return self._run if self._run is not None and self._run.turn.id == turn else None


class _Run:
    """A turn, run by a task of its own."""

    __slots__ = (
        "_abandoned",
        "_agent",
        "_answer",
        "_cancelled",
        "_failure",
        "_office",
        "_scope",
        "_workshop",
        "course",
        "ended",
        "turn",
    )

    def __init__(
        self, agent: PythonAgent, order: StartTurn, office: Office, workshop: Workshop
    ) -> None:
        self._agent = agent
        self._office = office
        self._workshop = workshop
        self.course = Course(order.turn, office)
        self.turn = Turn(order, self.course, closing=workshop.closing)
        # Why it was cancelled, if it was; and what cancels it, once it runs.
        self._cancelled: str | None = None
        self._scope: trio.CancelScope | None = None
        self._abandoned = False
        self._answer: object = None
        self._failure: BaseException | None = None
        self.ended = False

    def cancel(self, reason: str) -> None:
        """Ask the agent to end."""
        self._cancelled = reason
        if self._scope is not None:
            self._scope.cancel(reason=reason)

    def abandon(self) -> None:
        """The turn is over, though its task is not; or was not, when that was decided."""
        self.course.end()
        if self.ended:
            self._report_end_of_zombie()
        elif not self._abandoned:
            self._abandoned = True
            self._workshop.zombies[self.turn.id] = f"{self._agent.name} in {self.turn.session_id}"

    # Ctrl-C is meant for the program, and waits for its main task: it must not pass for a failure
    # of whichever agent was running when it came.
    @enable_ki_protection
    async def run(self) -> None:
        """Run the agent, and report what came of it; whatever it raises is its turn's failure."""
        try:
            report = await self._outcome()
        finally:
            self.ended = True
            self.course.end()
            self._workshop.zombies.pop(self.turn.id, None)
        if self._abandoned:
            self._report_end_of_zombie()
        else:
            self._office.report_surely(report)

    def _report_end_of_zombie(self) -> None:
        self._office.report_surely(ev.ZombieEnded(turn=self.turn.id, **self._office.stamp()))

    async def _outcome(self) -> ev.TurnEnded | ev.AgentExited:
        try:
            # In a task of its own: an agent that leaves a nursery open ruins the task it runs in,
            # and trio tells the nursery around that. Only this one.
            async with trio.open_nursery() as cell:
                self._scope = cell.cancel_scope
                if self._cancelled is not None:
                    self._scope.cancel(reason=self._cancelled)
                cell.start_soon(self._call, name=self._agent.name)
        except BaseException as error:  # noqa: BLE001 - also a Cancelled: of ours, or from anywhere
            self._failure = self._failure or error
        failure, answer = self._failure, self._answer
        if isinstance(failure, AgentDied):
            return ev.AgentExited(
                failure=Failure("process_exit", str(failure)), **self._office.stamp()
            )
        if failure is not None:
            interrupted = self._cancelled is not None
            return self._ended(
                "interrupted" if interrupted else "failed", error=shown_error(failure)
            )
        if self._scope is not None and self._scope.cancelled_caught:
            return self._ended("interrupted", stop_reason="cancelled")
        if answer is not None and not isinstance(answer, str):
            return self._ended(
                "failed", error=f"it returned {type(answer).__name__}, which is no text"
            )
        return self._completed(answer)

    @enable_ki_protection
    async def _call(self) -> None:
        """Call the agent's function, and keep what comes of it."""
        INSIDE.set(self.turn.session_id)
        try:
            self.turn.history = await self._office.history(self.turn.id)
            await self._office.load_news()
            self._answer = await self._agent.function(self.turn)
        except BaseException as error:
            # A Cancelled that nobody around us has sent is one that it kept from somewhere else.
            if is_cancellation(error) and trio.current_effective_deadline() == -math.inf:
                raise
            self._failure = error

    def _completed(self, answer: str | None) -> ev.TurnEnded:
        """The end as it should be; what was returned and not said is said now."""
        text = None if answer is None else plain_text(answer)
        if text and text != self._office.said(self.turn.id):
            try:
                self._office.write_text(self.turn.id, "agent_text", text, continues=False)
            except OutputTooLarge as error:
                return self._ended("failed", error=shown_error(error))
        return self._ended("completed", stop_reason="end_turn", text=text)

    def _ended(
        self,
        outcome: Outcome,
        *,
        stop_reason: str | None = None,
        text: str | None = None,
        error: str | None = None,
    ) -> ev.TurnEnded:
        return ev.TurnEnded(
            turn=self.turn.id,
            outcome=outcome,
            stop_reason=stop_reason,
            text=text,
            error=error,
            **self._office.stamp(),
        )


def shown_error(error: BaseException) -> str:
    """What went wrong, in one line: the type, and what it says, without the rest of the story."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 - whatever an agent's error does when it is shown
        said = "which cannot be shown"
    name = type(error).__name__
    first_line = said.strip().partition("\n")[0]
    return plain_text(f"{name}: {first_line}" if first_line else name)[:MAX_ERROR_LETTERS]
