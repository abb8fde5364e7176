"""News from a turn: its calls, its spending, its end. Late news of another turn is dropped."""

from __future__ import annotations

from supervisor.core.events import (
    CallEnded,
    CallStarted,
    Said,
    SteeringTaken,
    TurnEnded,
    UsageReported,
    ZombieEnded,
)
from supervisor.core.step import Draft

from .after import go_on
from .flow import end_turn, start_next


def _is_late(
    draft: Draft, event: CallStarted | CallEnded | TurnEnded | UsageReported | SteeringTaken
) -> bool:
    return draft.session.turn is None or draft.session.turn.id != event.turn


def call_started(draft: Draft, event: CallStarted) -> None:
    """A tool call began."""
    if not _is_late(draft, event):
        draft.note(
            "tool_call",
            call_id=event.call,
            name=event.name,
            input=event.input,
            cancellable=event.cancellable,
        )


def call_ended(draft: Draft, event: CallEnded) -> None:
    """A tool call is over; if it is not open, somebody closed it before."""
    turn = draft.session.turn
    if turn is None or _is_late(draft, event):
        return
    call = next((call for call in turn.calls if call.id == event.call), None)
    if call is not None:
        draft.note(
            "tool_ended",
            call_id=call.id,
            name=call.name,
            outcome=event.outcome,
            result=event.result,
        )


def report_usage(draft: Draft, event: UsageReported) -> None:
    """The turn has spent something."""
    if not _is_late(draft, event):
        draft.note(
            "usage",
            input_tokens=event.usage.input_tokens,
            output_tokens=event.usage.output_tokens,
            cost=event.usage.cost,
        )


def finish(draft: Draft, event: TurnEnded) -> None:
    """The turn is over: close it, and go on with what waits."""
    if _is_late(draft, event):
        return
    ended = end_turn(
        draft,
        event.outcome,
        stop_reason=event.stop_reason,
        said=Said(event.text or "", event.messages),
        error=event.error,
    )
    go_on(draft, ended)


def bury_zombie(draft: Draft, event: ZombieEnded) -> None:
    """The task of an abandoned turn has ended at last, so another turn may begin."""
    if draft.session.zombie == event.turn:
        draft.note("session_changed", zombie=None)
        start_next(draft)
