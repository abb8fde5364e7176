"""Rules for a degraded store: every event and every effect is classified here.

A new kind of either fails here until it is classified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec
import pytest

from supervisor.core import agent_events
from supervisor.core import effects as do
from supervisor.core import events as ev
from supervisor.core.degraded import cancels_pending, effect_target, grants_work, reduces_activity
from supervisor.core.ids import InputId, RequestId, TurnId
from supervisor.core.state import Decision

T = TypeVar("T")
EFFECTS = get_args(do.Effect)

# Always, or depending on their fields.
BRAKES = {
    ev.StopRequested,
    ev.InterruptRequested,
    ev.TreeInterruptRequested,
    ev.MemberInterruptRequested,
    ev.TreeInterruptEnded,
    ev.RequestAnswered,
}
NO_BRAKES = {
    # requests that start or change something
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
    ev.QuestionAsked,
    ev.QuestionAnswered,
    ev.RecordsSeen,
    ev.ToolCalled,
    ev.ChildAdmitted,
    ev.ChildDeleted,
    # events without a waiting caller
    agent_events.AgentAttached,
    agent_events.AgentSessionNamed,
    agent_events.AgentChoicesReported,
    agent_events.OptionRefused,
    agent_events.AuthenticationRequested,
    agent_events.StartFailed,
    agent_events.AgentClosed,
    agent_events.AgentExited,
    agent_events.TurnEnded,
    agent_events.ZombieEnded,
    agent_events.CallStarted,
    agent_events.CallEnded,
    agent_events.PermissionAsked,
    agent_events.SteeringTaken,
    agent_events.SteeringDeclined,
    agent_events.SteeringUnanswered,
    agent_events.SteeringBeganTurn,
    agent_events.UsageReported,
    agent_events.NewsRead,
    agent_events.ProgressMade,
    agent_events.SilenceNoticed,
    agent_events.DeadlineElapsed,
    agent_events.LadderElapsed,
    agent_events.CallInterruptElapsed,
    agent_events.InputsExpired,
    agent_events.RequestTimedOut,
    agent_events.IdleElapsed,
    agent_events.BackoffElapsed,
    agent_events.TreeChanged,
    ev.ChildRefused,
    agent_events.Claimed,
    agent_events.SupervisorRestarted,
    agent_events.ShutdownRequested,
}

ADDING: set[type[do.Effect]] = {
    do.StartAgent,
    do.StartTurn,
    do.OfferSteering,
    do.AnswerRequest,
    do.SetOptions,  # a mode of the agent may allow it more
}
# Effects that undo another one, and the effects they undo.
TAKING_BACK: Mapping[type[Any], type[Any]] = {
    do.CloseAgent: do.StartAgent,
    do.CancelTurn: do.StartTurn,
    do.WithdrawSteering: do.OfferSteering,
}
# Effects that reduce activity, or are internal.
HARMLESS: set[type[do.Effect]] = {
    do.AdoptTurn,  # it runs already
    do.AbandonTurn,
    do.CancelCall,
    do.EndBackground,
    do.StopDependents,
    do.MarkYoungest,
    do.CloseQuestion,  # the answer is a text that the agent reads
    do.SetTimer,
    do.SetRequestTimer,
    do.SetCallTimer,
    do.ClearTimer,
    do.ClearCallTimer,
}

TURN, OTHER_TURN = TurnId("turn_1"), TurnId("turn_2")
INPUT, OTHER_INPUT = InputId("in_1"), InputId("in_2")
NAMES: Mapping[str, Any] = {"turn": TURN, "input": INPUT, "decision": "reject_once", "options": {}}


def one(kind: type[T], **fields: Any) -> T:  # noqa: ANN401 - as the fields
    """Return an instance of that kind with arbitrary other fields."""
    needed = {
        field.name: NAMES.get(field.name)
        for field in msgspec.structs.fields(kind)  # type: ignore[arg-type] # all are structs
        if field.required
    }
    return kind(**{**needed, **fields})


# Events ---------------------------------------------------------------------------------------


def test_every_event_is_classified_for_a_degraded_store() -> None:
    assert set(ev.EVENTS) == BRAKES | NO_BRAKES
    assert not BRAKES & NO_BRAKES


@pytest.mark.parametrize("kind", sorted(NO_BRAKES, key=str), ids=lambda kind: kind.__name__)
def test_other_events_never_reduce_activity(kind: type[ev.Event]) -> None:
    assert not reduces_activity(one(kind))


@pytest.mark.parametrize("after_turn", [True, False])
def test_a_stop_reduces_activity(after_turn: bool) -> None:  # noqa: FBT001
    assert reduces_activity(one(ev.StopRequested, after_turn=after_turn))


@pytest.mark.parametrize("queued", ["keep", "cancel"])
def test_an_interrupt_reduces_activity(queued: str) -> None:
    assert reduces_activity(one(ev.InterruptRequested, queued=queued))


@pytest.mark.parametrize("text", ["instead", ""])
def test_an_interrupt_with_a_replacement_does_not_reduce_activity(text: str) -> None:
    event = one(ev.InterruptRequested, replacement=INPUT, replace_with=text)

    assert not reduces_activity(event)
    assert not reduces_activity(one(ev.TreeInterruptRequested, interrupt=event))


def test_an_interrupt_of_a_tree_reduces_activity() -> None:
    event = one(ev.InterruptRequested, whole=True)

    assert reduces_activity(one(ev.TreeInterruptRequested, interrupt=event))
    assert reduces_activity(one(ev.MemberInterruptRequested, queued="cancel"))
    assert reduces_activity(one(ev.TreeInterruptEnded))


@pytest.mark.parametrize("decision", get_args(Decision))
def test_only_a_rejection_reduces_activity(decision: Decision) -> None:
    event = one(ev.RequestAnswered, decision=decision)

    assert reduces_activity(event) == decision.startswith("reject")


# Effects --------------------------------------------------------------------------------------


def test_every_effect_is_classified_for_a_degraded_store() -> None:
    lists = [ADDING, set(TAKING_BACK), HARMLESS]

    assert set(EFFECTS) == set.union(*lists)
    assert len(EFFECTS) == sum(map(len, lists))


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_an_effect_grants_work_exactly_if_listed(kind: type[do.Effect]) -> None:
    effect = one(kind, decision="allow_once") if kind is do.AnswerRequest else one(kind)

    assert grants_work(effect) == (kind in ADDING)


@pytest.mark.parametrize("decision", [*get_args(Decision), "cancelled"])
def test_an_answer_grants_work_only_if_it_allows(decision: Any) -> None:  # noqa: ANN401
    effect = do.AnswerRequest(RequestId("req_1"), decision)

    assert grants_work(effect) == decision.startswith("allow")


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_an_effect_cancels_pending_exactly_if_listed(kind: type[do.Effect]) -> None:
    assert cancels_pending(one(kind)) == (kind in TAKING_BACK)


@pytest.mark.parametrize(("back", "what"), TAKING_BACK.items(), ids=lambda kind: kind.__name__)
def test_an_undone_effect_has_the_same_target(back: type[do.Effect], what: type[do.Effect]) -> None:
    assert effect_target(one(back)) == effect_target(one(what)) != ""


def test_an_effect_for_one_turn_or_input_keeps_other_effects() -> None:
    names = [
        effect_target(one(do.StartTurn)),
        effect_target(one(do.StartTurn, turn=OTHER_TURN)),
        effect_target(one(do.OfferSteering)),
        effect_target(one(do.OfferSteering, input=OTHER_INPUT)),
        effect_target(one(do.StartAgent)),
        effect_target(one(do.AnswerRequest, request=RequestId("req_1"))),
        effect_target(one(do.AnswerRequest, request=RequestId("req_2"))),
    ]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", sorted(ADDING, key=str), ids=lambda kind: kind.__name__)
def test_every_pending_effect_has_a_target(kind: type[do.Effect]) -> None:
    effect = one(kind, request=RequestId("req_1")) if kind is do.AnswerRequest else one(kind)

    assert effect_target(effect)


@pytest.mark.parametrize("kind", sorted(HARMLESS, key=str), ids=lambda kind: kind.__name__)
def test_a_harmless_effect_has_no_target(kind: type[do.Effect]) -> None:
    assert effect_target(one(kind)) == ""
