"""Rules for events of a turn: calls, usage, end, silence. Events of another turn are ignored.

Each level of silence is reported, and acted on, once per silence.
"""

from __future__ import annotations

from supervisor.core.agent_events import (
    CallEnded,
    CallStarted,
    DeadlineElapsed,
    ProgressMade,
    SilenceNoticed,
    SteeringBeganTurn,
    SteeringTaken,
    TurnEnded,
    UsageReported,
    ZombieEnded,
)
from supervisor.core.effects import AdoptTurn, SetTimer
from supervisor.core.liveness import first_check_seconds
from supervisor.core.state import Failure, OpenTurn, Phase
from supervisor.core.step import Draft
from supervisor.core.text import TurnOutput

from .input_queue import settle_input
from .ladder import begin_interrupt
from .steering import note_steered
from .stopping import begin_stopping
from .turn_flow import begin_turn, continue_after_turn, end_call, end_turn, start_next_turn


def _is_of_other_turn(
    draft: Draft, event: CallStarted | CallEnded | TurnEnded | UsageReported | SteeringTaken
) -> bool:
    return draft.state.turn is None or draft.state.turn.id != event.turn


def call_started(draft: Draft, event: CallStarted) -> None:
    """Record the start of a tool call."""
    if not _is_of_other_turn(draft, event):
        draft.note(
            "tool_call",
            call_id=event.call,
            name=event.name,
            input=event.input,
            cancellable=event.cancellable,
        )


def call_ended(draft: Draft, event: CallEnded) -> None:
    """Record the end of a tool call, unless the end is recorded already."""
    turn = draft.state.turn
    if turn is None or _is_of_other_turn(draft, event):
        return
    call = turn.find_call(event.call)
    if call is not None:
        end_call(draft, call, event.outcome, event.result)


def report_usage(draft: Draft, event: UsageReported) -> None:
    """Record the usage of the turn, and how much of the context is used."""
    if not _is_of_other_turn(draft, event):
        context = event.context
        draft.note(
            "usage",
            input_tokens=event.usage.input_tokens,
            output_tokens=event.usage.output_tokens,
            cost=event.usage.cost,
            **({} if context is None else {"context_used": context.used}),
            **({} if context is None or context.size is None else {"context_size": context.size}),
        )


def end_reported_turn(draft: Draft, event: TurnEnded) -> None:
    """End the turn and continue with the next input."""
    if _is_of_other_turn(draft, event):
        return
    ended = end_turn(
        draft,
        event.outcome,
        stop_reason=event.stop_reason,
        output=TurnOutput(event.text or "", event.messages, event.truncated),
        error=event.error,
    )
    continue_after_turn(draft, ended)


def adopt_steered_turn(draft: Draft, event: SteeringBeganTurn) -> None:
    """End the old turn and adopt the turn that the agent started from steered input."""
    session = draft.state
    waiting = session.find_input(event.input)
    if session.turn is None or session.turn.id != event.turn or waiting is None:
        return
    about_to_end = session.stopping is not None or session.leaving or draft.tree_view.shutting_down
    if (
        about_to_end
        or session.phase is not Phase.RUNNING
        or draft.tree_view.exhausted_budget is not None
    ):
        # No other turn may start. What the agent does now ends with this turn.
        note_steered(draft, waiting)
        return
    settle_input(draft, waiting, "delivered")
    end_turn(draft, "completed", stop_reason="end_turn", output=event.output)
    begin_turn(draft, waiting)
    draft.do(AdoptTurn(draft.event.fresh, waiting.id, waiting.text))


def clear_zombie(draft: Draft, event: ZombieEnded) -> None:
    """Allow the session to start turns again, because the task of an abandoned turn has ended."""
    if draft.state.zombie == event.turn:
        draft.note("session_changed", zombie=None)
        start_next_turn(draft)


def report_silence(draft: Draft, event: SilenceNoticed) -> None:
    """Record the silence; if the turn is stalled, act as the session's `on_stall` says."""
    turn = _named_turn(draft, event)
    if turn is None or turn.silence in ("stalled", event.level):
        return
    detail = event.detail
    draft.note(
        event.level,
        waits_for=event.waits_for,
        detail=detail,
        since=event.since,
        seconds=event.seconds,
    )
    if event.level == "quiet" or turn.step is not None:
        return
    match draft.state.terms.on_stall:
        case "notify":
            pass
        case "interrupt":
            draft.note("session_changed", verdict="stalled")
            begin_interrupt(draft, reason="stalled")
        case "restart":
            draft.note("session_changed", verdict="restart")
            begin_interrupt(draft, reason="stalled")
        case "stop":
            shown = event.waits_for if detail is None else f"{event.waits_for} {detail}"
            text = f"no progress for {event.seconds:.0f} s, waiting for {shown}"
            begin_stopping(draft, "stalled", text, failure=Failure("timeout", text))
            begin_interrupt(draft, reason="stalled")


def report_progress(draft: Draft, event: ProgressMade) -> None:
    """Record that a silent turn made progress."""
    turn = _named_turn(draft, event)
    if turn is not None and turn.silence is not None:
        draft.note("progress_resumed", was=turn.silence)
        draft.do(SetTimer("silence", first_check_seconds(draft.state.terms)))


def time_out_turn(draft: Draft, event: DeadlineElapsed) -> None:
    """Interrupt the turn, because its deadline elapsed."""
    turn = _named_turn(draft, event)
    if turn is not None and turn.step is None:
        draft.note("session_changed", verdict="timed_out")
        begin_interrupt(draft, reason="deadline")


def _named_turn(
    draft: Draft, event: SilenceNoticed | ProgressMade | DeadlineElapsed
) -> OpenTurn | None:
    turn = draft.state.turn
    return turn if turn is not None and turn.id == event.turn else None
