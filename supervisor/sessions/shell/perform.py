"""Perform: what was decided, and is durable, is done.

Rule 1: nothing here waits, and nothing here decides. What takes long is somebody else's: the
        agent's driver, a timer, the desk.
Rule 2: whatever can fail reports that as news, and the core decides about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from supervisor.core import effects as do
from supervisor.drivers.port import Driver

if TYPE_CHECKING:
    from .actor import SessionActor


def perform(actor: SessionActor, effect: do.Effect) -> None:  # noqa: C901, PLR0912 - a case for each
    """Do it, in this step."""
    alarms, staff = actor.alarms, actor.staff
    match effect:
        # The first case that fits is found by trying: so what is most frequent comes first.
        case do.SetTimer():
            alarms.set(effect.name, effect.after_seconds)
        case do.ClearTimer():
            alarms.clear(effect.name)
        case do.StartTurn():
            _begin_turn(actor, effect)
            staff.start_turn(effect)
        case do.AdoptTurn():
            _begin_turn(actor, effect)
            staff.tell(lambda driver: driver.adopt_turn(effect))
        case do.StartAgent():
            staff.bring_up()
        case do.CloseAgent():
            staff.close()
        case do.OfferSteering():
            staff.offer(effect)
        case do.WithdrawSteering():
            staff.withdraw(effect)
        case do.CancelTurn(turn, step):
            staff.cancel_preparation()
            staff.tell(lambda driver: driver.cancel_turn(turn, step))
        case do.AbandonTurn(turn):
            staff.tell(lambda driver: driver.abandon_turn(turn))
        case do.CancelCall(turn, call):
            staff.tell(lambda driver: driver.cancel_call(turn, call))
        case do.EndBackground():
            staff.tell(_end_background)
        case do.AnswerRequest():
            _answer(actor, effect)
        case do.CountAsYoungest(child):
            actor.seat.house.desk.ledger.count_as_youngest(child)
        case do.StopDependents():
            actor.seat.house.desk.stop_dependents(actor.seat.id)
        case do.SetRequestTimer(request, after_seconds):
            alarms.set(request, after_seconds)
        case _:
            assert_never(effect)


def _begin_turn(actor: SessionActor, effect: do.StartTurn | do.AdoptTurn) -> None:
    actor.log.begin_turn(effect.turn, max_bytes=actor.session.terms.max_turn_bytes)


def _answer(actor: SessionActor, effect: do.AnswerRequest) -> None:
    actor.seat.progressed()
    actor.alarms.clear(effect.request)
    actor.staff.tell(lambda driver: driver.answer(effect.request, effect.decision))


def _end_background(driver: Driver) -> None:
    driver.end_background()
