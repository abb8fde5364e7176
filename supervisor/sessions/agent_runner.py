"""Owner of the driver of a session's agent.

A driver may be of another author. If one of its methods raises, the agent has failed: the session
is told so, the driver is discarded, and nothing else is affected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from actors import Ref
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn, WithdrawSteering
from supervisor.core.state import Failure, SessionState
from supervisor.core.text import describe_error
from supervisor.drivers.guarded_runtime import PASSED_ON, GuardedRuntime, refuse_awaitable
from supervisor.drivers.port import AgentKind, Driver
from supervisor.drivers.python import PythonAgent, PythonDriver
from supervisor.drivers.runtime import DriverRuntime

from .driver_context import DriverReport, MakeContext, SessionDriverContext
from .driver_timers import CLOSE_MARGIN_SECONDS, START_SECONDS, DriverTimers
from .hooks.blocking import BlockingHooks
from .log import Log
from .services import Services
from .slot import SessionSlot
from .tasks import DriverCall
from .turn_hooks import TurnHooks

logger = logging.getLogger("supervisor")

# Reports that change what the runner knows of a driver.
_DRIVER_EVENTS: Final = frozenset(
    {
        agent_events.AgentAttached,
        agent_events.AgentClosed,
        agent_events.AgentExited,
        agent_events.StartFailed,
        agent_events.ZombieEnded,
    }
)


def _start(driver: Driver) -> object:
    return driver.start()  # type: ignore[func-returns-value] # of another author


def _discard(driver: Driver) -> None:
    try:
        refuse_awaitable(driver.discard())  # type: ignore[func-returns-value] # as `_start`
    except PASSED_ON:
        raise
    except BaseException:
        logger.exception("a driver failed to cancel its work")


class AgentRunner:
    """Starts, calls and closes the drivers of one incarnation."""

    __slots__ = (
        "_closing",
        "_context",
        "_driver",
        "_failed",
        "_hooks",
        "_log",
        "_make_context",
        "_ref",
        "_services",
        "_slot",
        "_state",
        "_timers",
        "_turn_hooks",
    )

    def __init__(
        self,
        slot: SessionSlot,
        services: Services,
        log: Log,
        ref: Ref,
        state: Callable[[], SessionState],
        *,
        hooks: BlockingHooks,
        make_context: MakeContext,
    ) -> None:
        self._slot = slot
        self._services = services
        self._log = log
        self._ref = ref
        self._state = state
        self._hooks = hooks
        self._make_context = make_context
        # Invariant: the current driver, from StartAgent until its agent exits or is closed.
        self._driver: Driver | None = None
        self._context: SessionDriverContext | None = None
        # The current driver, if one of its methods has raised: it is not called any more.
        self._failed: Driver | None = None
        # Contexts of drivers that are closing and have not reported AgentClosed.
        self._closing: tuple[SessionDriverContext, ...] = ()
        # Bounds of starts and closes that their drivers have not reported.
        self._timers = DriverTimers(services.timers)
        # Hooks that a turn waits for before its driver receives it.
        self._turn_hooks: TurnHooks | None = None

    @property
    def has_no_agent(self) -> bool:
        """True if there is neither a current nor a closing driver."""
        return self._driver is None and not self._closing

    # Start ----------------------------------------------------------------------------------

    def start_agent(self) -> None:
        """Start an agent, unless one is starting or running."""
        if self._driver is not None:
            return
        services = self._services
        name = self._state().agent_name
        kind = services.agents().get(name)
        if kind is None:
            failure = Failure("startup", f"unknown agent {name!r}")
            self._report(agent_events.StartFailed(failure=failure, **services.stamp()))
            return
        context = self._new_context()
        try:
            driver = kind.make_driver(context, self._runtime_of(kind, context))
            if not isinstance(driver, PythonDriver):  # a Python driver is never blocked
                self._slot.progress.blocked_on = driver.blocked_on
            hash(driver)  # the start limiter keeps it in a set
        except PASSED_ON:
            raise
        except BaseException as error:
            logger.exception("agent %s has no driver for session %s", name, self._slot.id)
            self._report(self._failure_event(error))
            return
        self._driver, self._context = driver, context
        if kind.runs_process:
            self.call_driver(_start)  # it waits for a start slot by itself
        else:
            services.start_limiter.start(driver, partial(self._start_bounded, context))

    def _start_bounded(self, context: SessionDriverContext, driver: Driver) -> None:
        """Start the driver, which holds a start slot until it reports or its time is over."""
        if not isinstance(driver, PythonDriver):  # a Python driver reports at once
            self._timers.set(context, START_SECONDS, partial(self._on_start_overdue, driver))
        self._call_if_current(_start, driver)

    def _on_start_overdue(self, driver: Driver, context: SessionDriverContext) -> None:
        if driver is not self._driver or driver is self._failed:
            return
        logger.error("driver of session %s did not report its start", self._slot.id)
        failure = Failure("startup", f"its driver reported no start within {START_SECONDS:g} s")
        self._discard_failed(
            driver, context, agent_events.StartFailed(failure=failure, **self._services.stamp())
        )

    def _runtime_of(self, kind: AgentKind, context: SessionDriverContext) -> DriverRuntime:
        if type(kind) is PythonAgent:
            return self._services.tasks  # its driver starts tasks only in agent nurseries
        return GuardedRuntime(self._services.tasks, partial(self._on_task_failure, context))

    def accept_report(self, report: DriverReport) -> bool:
        """Update the driver by its report; return False if the session must not handle it.

        The driver is the current one or one that is closing.
        """
        context, kind = report.context, type(report.event)
        if kind not in _DRIVER_EVENTS:
            return not context.is_closed
        if kind is agent_events.AgentClosed:
            return self._remove_closed(context)
        if kind is agent_events.ZombieEnded:
            return True
        if context.is_closed:
            return False
        if kind is agent_events.AgentAttached:
            if context is self._context:
                self._timers.drop(context)
                self._release_start_slot()
        else:
            self._detach(context)
        return True

    def _release_start_slot(self) -> None:
        """Release the start slot of an agent that has reported its start."""
        if self._driver is not None:
            self._services.start_limiter.release(self._driver)

    # Turns ----------------------------------------------------------------------------------

    def call_driver(self, order: DriverCall) -> None:
        """Call the driver, if there is one; if it waits to start, after the start.

        If it raises, report that its agent has failed, and discard it.
        """
        driver = self._driver
        if driver is None or driver is self._failed:
            return
        starts = self._services.start_limiter
        if starts.is_waiting(driver):
            starts.call_after_start(driver, partial(self._call_if_current, order))
            return
        try:
            refuse_awaitable(order(driver))
        except PASSED_ON:
            raise
        except BaseException as error:
            logger.exception("driver of session %s failed", self._slot.id)
            assert self._context is not None
            self._fail(driver, self._context, error)

    def _call_if_current(self, order: DriverCall, driver: Driver) -> None:
        """Call the driver, unless it was dropped while the call waited for its start."""
        if driver is self._driver:
            self.call_driver(order)

    def _on_task_failure(self, context: SessionDriverContext, error: BaseException) -> None:
        """Report that the agent of a driver has failed, because one of its tasks raised."""
        logger.error("task of the driver of session %s failed", self._slot.id, exc_info=error)
        if context in self._closing:  # it may not report its end any more
            context.report_eventually(agent_events.AgentClosed(**self._services.stamp()))
        elif context is self._context and self._driver is not None and self._failed is None:
            self._fail(self._driver, context, error)

    def _fail(self, driver: Driver, context: SessionDriverContext, error: BaseException) -> None:
        self._discard_failed(driver, context, self._failure_event(error))

    def _discard_failed(
        self, driver: Driver, context: SessionDriverContext, event: ev.Event
    ) -> None:
        self._failed = driver
        context.report_eventually(event)
        _discard(driver)

    def _failure_event(self, error: BaseException) -> ev.Event:
        """Return the event for a driver that raised: the start has failed, or the agent exited."""
        session = self._state()
        problem = f"its driver raised {describe_error(error)}"
        if session.agent is None and session.turn is not None:
            failure = Failure("startup", problem)
            return agent_events.StartFailed(failure=failure, **self._services.stamp())
        failure = Failure("startup" if session.agent is None else "unknown", problem)
        return agent_events.AgentExited(failure=failure, **self._services.stamp())

    def adopt_turn(self, effect: AdoptTurn) -> None:
        """Open the log for a turn that the agent started by itself, and tell the driver its id."""
        self._log.begin_turn(effect.turn, max_bytes=self._state().terms.max_turn_bytes)
        self.call_driver(lambda driver: driver.adopt_turn(effect))

    def start_turn(self, order: StartTurn) -> None:
        """Open the log for a turn, and pass it to the driver, now or after the hooks before it."""
        self._log.begin_turn(order.turn, max_bytes=self._state().terms.max_turn_bytes)
        if self._driver is None:
            self.start_agent()
        if not self._services.hooks.has_turn_hooks:
            self.call_driver(lambda driver: driver.start_turn(order))
            return
        if self._context is None:
            return  # the agent is unknown, and that is reported
        preparation = TurnHooks(self._state(), order, self._context, self.call_driver)
        self._turn_hooks = preparation
        self._slot.progress.is_asking_hooks = True
        self._services.tasks.start_soon(self._run_turn_hooks, preparation)

    async def _run_turn_hooks(self, preparation: TurnHooks) -> None:
        try:
            await preparation.run(self._hooks)
        finally:
            if self._turn_hooks is preparation:
                self._turn_hooks = None
                self._slot.progress.is_asking_hooks = False

    def offer_steering(self, offer: OfferSteering) -> None:
        """Offer steering to the turn, which may not have started yet."""
        if self._turn_hooks is not None:
            self._turn_hooks.offer_steering(offer)
        else:
            self.call_driver(lambda driver: driver.offer_steering(offer))

    def withdraw_steering(self, effect: WithdrawSteering) -> None:
        """Withdraw steering from the turn."""
        if self._turn_hooks is not None:
            self._turn_hooks.withdraw_steering(effect.input)
        self.call_driver(lambda driver: driver.withdraw_steering(effect.turn, effect.input))

    def cancel_turn_hooks(self) -> None:
        """Cancel the hooks before a turn, so that it does not start."""
        if self._turn_hooks is not None:
            self._turn_hooks.cancel()

    # Going ----------------------------------------------------------------------------------

    def close_agent(self) -> None:
        """Close the agent; the driver reports AgentClosed when all its processes have ended."""
        driver, context = self._driver, self._context
        if driver is None or context is None:
            if not self._closing:
                self._report_closed()
            return
        is_gone = self._services.start_limiter.cancel(driver) or driver is self._failed
        self._detach(context)
        if is_gone:
            self._report_closed()
            return
        self._closing += (context,)
        seconds = self._state().terms.ladder.total_seconds + CLOSE_MARGIN_SECONDS
        self._timers.set(context, seconds, partial(self._on_close_overdue, driver))
        try:
            refuse_awaitable(driver.close())  # type: ignore[func-returns-value] # as `_start`
        except PASSED_ON:
            raise
        except BaseException:
            logger.exception("driver of session %s failed to close", self._slot.id)
            _discard(driver)
            context.report_eventually(agent_events.AgentClosed(**self._services.stamp()))

    def _on_close_overdue(self, driver: Driver, context: SessionDriverContext) -> None:
        """Treat the agent as closed although its driver has not reported that."""
        logger.error("driver of session %s did not report its close", self._slot.id)
        _discard(driver)
        context.report_eventually(agent_events.AgentClosed(**self._services.stamp()))

    def _detach(self, context: SessionDriverContext) -> None:
        """Drop the driver of an agent that has exited or is closing."""
        context.is_closed = True
        self._timers.drop(context)
        if context is self._context and self._driver is not None:
            self._services.start_limiter.cancel(self._driver)
            self._slot.progress.blocked_on = None
            self._driver = self._context = self._failed = None

    def _remove_closed(self, context: SessionDriverContext) -> bool:
        """Drop a closed driver; return True if it was the last closing one."""
        if context not in self._closing:
            return False
        self._timers.drop(context)
        self._closing = tuple(one for one in self._closing if one is not context)
        return not self._closing

    def drop(self) -> None:
        """Discard the driver, because the incarnation has ended."""
        self.cancel_turn_hooks()
        self._timers.drop_all()
        driver, context = self._driver, self._context
        self._slot.progress.blocked_on = None
        if driver is not None and context is not None:
            context.is_closed = True
            if not self._services.start_limiter.cancel(driver) and driver is not self._failed:
                _discard(driver)

    def _report_closed(self) -> None:
        self._report(agent_events.AgentClosed(**self._services.stamp()))

    def _report(self, event: ev.Event) -> None:
        """Send the actor an event as a driver would."""
        context = self._new_context()
        if type(event) is agent_events.AgentClosed:
            self._closing += (context,)
        context.report_eventually(event)

    def _new_context(self) -> SessionDriverContext:
        return self._make_context(self._slot, self._log, self._ref, self._state)
