"""Performs effects, after their step is durable.

Rule 1: no function waits, and none decides. Long work belongs to the driver, a timer or
        admission.
Rule 2: an effect that can fail reports its failure as an event, and the core decides about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import assert_never

from supervisor.core import effects as do
from supervisor.core.agent_options import OptionValue
from supervisor.drivers.port import Driver

from .admission import Admission
from .agent_runner import AgentRunner
from .session_timers import SessionTimers
from .slot import SessionSlot
from .timers import call_timer


class Performer:
    """Performs the effects of one incarnation."""

    __slots__ = ("_admission", "_runner", "_slot", "_timers")

    def __init__(
        self,
        slot: SessionSlot,
        *,
        timers: SessionTimers,
        runner: AgentRunner,
        admission: Admission,
    ) -> None:
        self._slot = slot
        self._timers = timers
        self._runner = runner
        self._admission = admission

    def perform(self, effect: do.Effect) -> None:  # noqa: C901, PLR0912 - one case per effect
        """Perform the effect, without waiting."""
        # Every turn has these two: as the first cases below they would take twice the bytecodes.
        if isinstance(effect, do.SetTimer):
            self._timers.set(effect.name, effect.after_seconds)
            return
        if isinstance(effect, do.StartTurn):
            self._runner.start_turn(effect)
            return
        runner = self._runner
        match effect:
            case do.ClearTimer():
                self._timers.clear(effect.name)
            case do.AdoptTurn():
                runner.adopt_turn(effect)
            case do.StartAgent():
                runner.start_agent()
            case do.CloseAgent():
                runner.close_agent()
            case do.OfferSteering():
                runner.offer_steering(effect)
            case do.WithdrawSteering():
                runner.withdraw_steering(effect)
            case do.CancelTurn(turn, step):
                runner.cancel_turn_hooks()
                runner.call_driver(lambda driver: driver.cancel_turn(turn, step))
            case do.AbandonTurn(turn):
                runner.call_driver(lambda driver: driver.abandon_turn(turn))
            case do.CancelCall(turn, call):
                runner.call_driver(lambda driver: driver.cancel_call(turn, call))
            case do.EndBackground():
                runner.call_driver(_end_background)
            case do.AnswerRequest() | do.CloseQuestion():
                self._close_request(effect)
            case do.SetOptions(options):
                runner.call_driver(partial(_set_options, options))
            case do.MarkYoungest(child):
                self._admission.tree.mark_youngest(child)
            case do.StopDependents():
                self._admission.stop_dependents(self._slot.id)
            case do.SetRequestTimer() | do.SetCallTimer() | do.ClearCallTimer():
                self._change_timer(effect)
            case _:
                assert_never(effect)

    def _change_timer(
        self, effect: do.SetRequestTimer | do.SetCallTimer | do.ClearCallTimer
    ) -> None:
        """Set or clear the timer of one request or call."""
        match effect:
            case do.SetRequestTimer(request, after_seconds):
                self._timers.set(request, after_seconds)
            case do.SetCallTimer(call, after_seconds):
                self._timers.set(call_timer(call), after_seconds)
            case do.ClearCallTimer(call):
                self._timers.clear(call_timer(call))

    def _close_request(self, effect: do.AnswerRequest | do.CloseQuestion) -> None:
        self._slot.mark_progress()
        self._timers.clear(effect.request)
        if isinstance(effect, do.AnswerRequest):
            request, decision = effect.request, effect.decision
            self._runner.call_driver(lambda driver: driver.answer(request, decision))


def _set_options(options: Mapping[str, OptionValue], driver: Driver) -> object:
    return driver.set_options(options)  # type: ignore[func-returns-value] # of another author


def _end_background(driver: Driver) -> object:
    return driver.stop_background_work()  # type: ignore[func-returns-value] # of another author
