"""What brakes and what adds: every event and every effect is on one of these lists.

A new kind of either fails here until somebody has said which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import attrs
import pytest

from supervisor.core import effects as do
from supervisor.core import events as ev
from supervisor.core.brakes import adds_something, is_brake, name_of, takes_back
from supervisor.core.ids import InputId, RequestId, TurnId
from supervisor.core.session import Decision

T = TypeVar("T")
EFFECTS = get_args(do.Effect)

# Always, or as their fields say.
BRAKES = {ev.StopRequested, ev.InterruptRequested, ev.RequestAnswered}
NO_BRAKES = {
    # asked for, so that more happens, or that something is different
    ev.InputSubmitted,
    ev.SteeringSubmitted,
    ev.InputEdited,
    ev.InputMoved,
    ev.InputPromoted,
    ev.InputWithdrawn,
    ev.ResumeRequested,
    ev.ClearRequested,
    ev.ArchiveRequested,
    ev.UnarchiveRequested,
    ev.MessageAppended,
    ev.DetailsChanged,
    ev.RuleRemoved,
    ev.ChildAdmitted,
    ev.ChildDeleted,
    # news, which nobody waits to be answered
    ev.AgentAttached,
    ev.AgentSessionNamed,
    ev.AgentSurfaced,
    ev.AuthenticationAsked,
    ev.AgentStartFailed,
    ev.AgentClosed,
    ev.AgentExited,
    ev.TurnEnded,
    ev.ZombieEnded,
    ev.CallStarted,
    ev.CallEnded,
    ev.PermissionAsked,
    ev.SteeringTaken,
    ev.SteeringDeclined,
    ev.SteeringBeganTurn,
    ev.UsageReported,
    ev.NewsTaken,
    ev.ProgressMade,
    ev.SilenceNoticed,
    ev.DeadlineElapsed,
    ev.LadderElapsed,
    ev.InputsExpired,
    ev.RequestTimedOut,
    ev.IdleElapsed,
    ev.BackoffElapsed,
    ev.FamilyChanged,
    ev.ChildRefused,
    ev.Claimed,
    ev.SupervisorRestarted,
    ev.LeaveRequested,
}

ADDING = {do.StartAgent, do.StartTurn, do.OfferSteering, do.AnswerRequest}
# What takes something back, and what of the above it takes back.
TAKING_BACK: Mapping[type[Any], type[Any]] = {
    do.CloseAgent: do.StartAgent,
    do.CancelTurn: do.StartTurn,
    do.WithdrawSteering: do.OfferSteering,
}
# Reduces what happens, or is only for ourselves.
HARMLESS = {
    do.AdoptTurn,  # it runs, whatever anybody says
    do.AbandonTurn,
    do.CancelCall,
    do.EndBackground,
    do.StopDependents,
    do.CountAsYoungest,
    do.SetTimer,
    do.SetRequestTimer,
    do.ClearTimer,
}

TURN, OTHER_TURN = TurnId("turn_1"), TurnId("turn_2")
INPUT, OTHER_INPUT = InputId("in_1"), InputId("in_2")
NAMES: Mapping[str, Any] = {"turn": TURN, "input": INPUT, "decision": "reject_once"}


def one(kind: type[T], **fields: Any) -> T:  # noqa: ANN401 - as the fields
    """One of that kind, of whose other fields nobody asks."""
    needed = {
        field.name: NAMES.get(field.name)
        for field in attrs.fields(kind)  # type: ignore[arg-type] # all of them are attrs
        if field.default is attrs.NOTHING
    }
    return kind(**{**needed, **fields})


# Events ---------------------------------------------------------------------------------------


def test_every_event_is_on_one_list() -> None:
    assert set(ev.EVENTS) == BRAKES | NO_BRAKES
    assert not BRAKES & NO_BRAKES


@pytest.mark.parametrize("kind", sorted(NO_BRAKES, key=str), ids=lambda kind: kind.__name__)
def test_what_is_on_the_other_list_never_brakes(kind: type[ev.Event]) -> None:
    assert not is_brake(one(kind))


@pytest.mark.parametrize("after_turn", [True, False])
def test_a_stop_brakes_however_patient(after_turn: bool) -> None:  # noqa: FBT001
    assert is_brake(one(ev.StopRequested, after_turn=after_turn))


@pytest.mark.parametrize("queued", ["keep", "cancel"])
def test_an_interrupt_brakes_whatever_becomes_of_the_queue(queued: str) -> None:
    assert is_brake(one(ev.InterruptRequested, queued=queued))


@pytest.mark.parametrize("text", ["instead", ""])
def test_an_interrupt_with_something_instead_brakes_nothing(text: str) -> None:
    event = one(ev.InterruptRequested, replacement=INPUT, replace_with=text)

    assert not is_brake(event)


@pytest.mark.parametrize("decision", get_args(Decision))
def test_only_a_rejection_brakes(decision: Decision) -> None:
    event = one(ev.RequestAnswered, decision=decision)

    assert is_brake(event) == decision.startswith("reject")


# Effects --------------------------------------------------------------------------------------


def test_every_effect_is_on_one_list() -> None:
    lists = [ADDING, set(TAKING_BACK), HARMLESS]

    assert set(EFFECTS) == set.union(*lists)
    assert len(EFFECTS) == sum(map(len, lists))


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_an_effect_adds_something_exactly_if_its_list_says_so(kind: type[do.Effect]) -> None:
    effect = one(kind, decision="allow_once") if kind is do.AnswerRequest else one(kind)

    assert adds_something(effect) == (kind in ADDING)


@pytest.mark.parametrize("decision", [*get_args(Decision), "cancelled"])
def test_an_answer_adds_something_only_if_it_allows(decision: Any) -> None:  # noqa: ANN401
    effect = do.AnswerRequest(RequestId("req_1"), decision)

    assert adds_something(effect) == decision.startswith("allow")


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_an_effect_takes_something_back_exactly_if_its_list_says_so(kind: type[do.Effect]) -> None:
    assert takes_back(one(kind)) == (kind in TAKING_BACK)


@pytest.mark.parametrize(("back", "what"), TAKING_BACK.items(), ids=lambda kind: kind.__name__)
def test_what_is_taken_back_is_found_by_its_name(
    back: type[do.Effect], what: type[do.Effect]
) -> None:
    assert name_of(one(back)) == name_of(one(what)) != ""


def test_what_is_meant_for_one_turn_or_input_leaves_the_others() -> None:
    names = [
        name_of(one(do.StartTurn)),
        name_of(one(do.StartTurn, turn=OTHER_TURN)),
        name_of(one(do.OfferSteering)),
        name_of(one(do.OfferSteering, input=OTHER_INPUT)),
        name_of(one(do.StartAgent)),
        name_of(one(do.AnswerRequest, request=RequestId("req_1"))),
        name_of(one(do.AnswerRequest, request=RequestId("req_2"))),
    ]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", sorted(ADDING, key=str), ids=lambda kind: kind.__name__)
def test_whatever_waits_has_a_name(kind: type[do.Effect]) -> None:
    effect = one(kind, request=RequestId("req_1")) if kind is do.AnswerRequest else one(kind)

    assert name_of(effect)


@pytest.mark.parametrize("kind", sorted(HARMLESS, key=str), ids=lambda kind: kind.__name__)
def test_what_is_harmless_has_no_name_to_be_taken_back_by(kind: type[do.Effect]) -> None:
    assert name_of(one(kind)) == ""
