"""Rules for interrupts: only the named target ends, by a ladder whose last step always works.

Rule 1: an interrupt whose target has ended, or never existed, changes nothing and reports that;
        it can never end the next turn, because it names its target. Queued inputs belong to the
        session, so the scopes session and tree cancel them on request also without a turn. A
        replacement of whatever runs now is accepted also if nothing runs.
Rule 2: a call gets the seconds of the ladder's first step to end, then it is unreachable: only its
        own cancel scope or process may be ended.
Rule 3: a replacement of the turn is accepted in the same step, so it is durable before the turn is
        cancelled.
"""

from __future__ import annotations

from supervisor.core.agent_events import CallInterruptElapsed, LadderElapsed
from supervisor.core.effects import (
    AbandonTurn,
    CancelCall,
    ClearCallTimer,
    EndBackground,
    SetCallTimer,
)
from supervisor.core.errors import SessionNotActive
from supervisor.core.events import (
    InterruptRequested,
    MemberInterruptRequested,
    TreeInterruptEnded,
    TreeInterruptRequested,
)
from supervisor.core.receipts import InterruptReport
from supervisor.core.state import OpenCall, Phase
from supervisor.core.step import Draft, InterruptPending
from supervisor.core.tree.tree_interrupt import TreeInterrupt

from .input_queue import accept_input, cancel_queue
from .ladder import begin_interrupt, ladder_steps, take_step
from .refusals import budget_problem, queue_problem, refuse_any, text_problem
from .steering import fail_handed
from .turn_flow import continue_after_turn, end_turn, start_next_turn


def interrupt(draft: Draft, event: InterruptRequested) -> None:
    """Interrupt the open turn or a call in it, if that is the target; else report no target."""
    turn = draft.state.turn
    if turn is None or (event.turn is not None and event.turn != turn.id):
        report_no_target(draft, event)
    elif event.call is not None:
        _interrupt_call(draft, event)
    elif not _replacement_refused(draft, event):
        _accept_replacement(draft, event)
        begin_interrupt(draft, reason=event.reason)
        _end_background(draft, event)
        draft.accept(InterruptPending(turn.id))


def interrupt_without_turn(draft: Draft, event: InterruptRequested) -> None:
    """Run the replacement at once, if there is one; report that nothing was hit."""
    if not _replaces_current(event):
        report_no_target(draft, event)
    elif draft.state.phase is Phase.STOPPED:
        draft.refuse(_inactive_problem(draft))
    elif not _replacement_refused(draft, event):
        # While all child slots of its parent are taken, the input waits, and so does the session.
        if draft.state.phase is Phase.SUSPENDED and not draft.tree_view.child_slots_full:
            draft.note("session_resumed", woken=True)
        _accept_replacement(draft, event)
        _end_background(draft, event)
        start_next_turn(draft)
        draft.accept(InterruptReport("turn", input_id=event.replacement))


def _replaces_current(event: InterruptRequested) -> bool:
    """Return True if a text replaces whatever runs now, and not a turn that is named."""
    return event.replace_with is not None and event.turn is None


def interrupt_tree(draft: Draft, event: TreeInterruptRequested) -> None:
    """Reply with the levels of the tree; refuse if the replacement would be refused at the end."""
    if event.interrupt.replace_with is not None:
        if draft.state.phase in (Phase.STOPPING, Phase.STOPPED):
            draft.refuse(_inactive_problem(draft))
            return
        if _replacement_refused(draft, event.interrupt):
            return
    draft.accept(TreeInterrupt(draft.tree_view.levels))


def interrupt_member(draft: Draft, event: MemberInterruptRequested) -> None:
    """Interrupt the open turn and the agent's background work; cancel the queue if requested.

    Without an open turn, only queued inputs and background work are cancelled.
    """
    session = draft.state
    turn = session.turn
    if session.phase is not Phase.STOPPING:
        if event.queued == "cancel":
            _cancel_waiting(draft)
        if turn is not None:
            begin_interrupt(draft, reason=event.reason)
        if session.agent is not None:
            draft.do(EndBackground())
    draft.accept(InterruptReport("tree") if turn is None else InterruptPending(turn.id))


def record_tree_interrupt(draft: Draft, event: TreeInterruptEnded) -> None:
    """Record the outcome of a tree interrupt, unless it matched no turn."""
    report = event.report
    hit = report.matched or report.already_over or report.unreachable
    if hit and not draft.state.archived:  # read-only
        draft.note(
            "interrupted",
            scope="tree",
            reason=event.reason,
            step=report.ladder_step,
            matched=report.matched,
            stopped=report.stopped,
            already_over=report.already_over,
            unreachable=report.unreachable,
        )
    draft.accept()


def interrupt_while_stopping(draft: Draft, event: InterruptRequested) -> None:
    """Let the caller wait for the interrupt in progress: the stop also ends all calls."""
    turn = draft.state.turn
    call = turn.find_call(event.call) if turn is not None else None
    no_call = event.call is not None and call is None
    if _replaces_current(event):
        draft.refuse(_inactive_problem(draft))
    elif turn is None or event.turn not in (None, turn.id) or no_call:
        report_no_target(draft, event)
    elif call is not None:
        _ask_call(draft, call, event.reason)
        draft.accept(InterruptPending(turn.id, call.id))
    elif event.replace_with is not None:
        draft.refuse(_inactive_problem(draft))
    else:
        draft.accept(InterruptPending(turn.id, event.call))


def _inactive_problem(draft: Draft) -> SessionNotActive:
    hint = "send the text, which resumes it"
    if draft.state.phase is Phase.STOPPING:
        hint = f"wait until it is stopped, then {hint}"
    elif draft.state.archived:
        hint = f"unarchive it, then {hint}"
    return SessionNotActive(f"session {draft.state.id} is {draft.state.phase}", hint=hint)


def report_no_target(draft: Draft, event: InterruptRequested) -> None:
    """Report that no running turn or call matches the target.

    A request for the whole session cancels queued inputs if it says so, except while stopping.
    """
    session = draft.state
    if event.whole and event.queued == "cancel" and session.phase is not Phase.STOPPING:
        _cancel_waiting(draft)
    _end_background(draft, event)
    named = event.turn is not None or event.call is not None
    scope = "tool_call" if event.call is not None else "turn"
    another_runs = draft.state.turn is not None and event.turn is not None
    draft.accept(InterruptReport(scope, already_over=int(named), stale=int(another_runs)))


def _cancel_waiting(draft: Draft) -> None:
    """Cancel the queue, unless there is neither a turn nor an input: then nothing changes."""
    if draft.state.turn is not None or draft.state.inputs:
        cancel_queue(draft)


def _end_background(draft: Draft, event: InterruptRequested) -> None:
    if event.whole and draft.state.agent is not None:
        draft.do(EndBackground())


def _interrupt_call(draft: Draft, event: InterruptRequested) -> None:
    turn = draft.state.turn
    assert turn is not None
    call = turn.find_call(event.call)
    if call is None:
        draft.accept(InterruptReport("tool_call", already_over=1))
    elif not call.cancellable:
        if call.interrupt is None:  # recorded once
            _note_call_interrupt(draft, call, reason=event.reason, unreachable=True)
        draft.accept(InterruptReport("tool_call", matched=1, unreachable=1))
    else:
        if _ask_call(draft, call, event.reason):
            draft.do(CancelCall(turn.id, call.id))
        draft.accept(InterruptPending(turn.id, call.id))


def _ask_call(draft: Draft, call: OpenCall, reason: str | None) -> bool:
    """Record that a call was asked to end, and set its timer.

    Return False if it was asked before.
    """
    if call.interrupt == "asked":
        return False
    _note_call_interrupt(draft, call, reason=reason, unreachable=False)
    ladder = draft.state.terms.ladder
    draft.do(SetCallTimer(call.id, ladder.ask_seconds))
    return True


def call_unreachable(draft: Draft, event: CallInterruptElapsed) -> None:
    """Record that a call is unreachable, because it did not end in time; its turn continues."""
    turn = draft.state.turn
    if turn is None or turn.id != event.turn:
        return
    call = turn.find_call(event.call)
    if call is not None and call.interrupt == "asked":
        _note_call_interrupt(draft, call, reason=None, unreachable=True)
        draft.do(ClearCallTimer(call.id))


def _note_call_interrupt(
    draft: Draft, call: OpenCall, *, reason: str | None, unreachable: bool
) -> None:
    draft.note(
        "interrupted",
        scope="tool_call",
        call_id=call.id,
        reason=reason,
        step=None,
        unreachable=int(unreachable),
    )


def _replacement_refused(draft: Draft, event: InterruptRequested) -> bool:
    if event.replace_with is None:
        return False
    full = queue_problem(draft.state) if event.queued == "keep" else None
    return refuse_any(
        draft, text_problem(draft.state, event.replace_with), budget_problem(draft), full
    )


def _accept_replacement(draft: Draft, event: InterruptRequested) -> None:
    if event.queued == "cancel":
        _cancel_waiting(draft)
    if event.replace_with is not None:
        assert event.replacement is not None
        accept_input(
            draft,
            event.replacement,
            event.replace_with,
            when_busy="interrupt",
            source=event.source,
            expires_at=event.replacement_expires_at,
            replacement=True,
        )


def escalate(draft: Draft, event: LadderElapsed) -> None:
    """Take the next step of the ladder, or abandon the turn after the last one."""
    session = draft.state
    turn = session.turn
    if turn is None or turn.id != event.turn or turn.step != event.step:
        return
    steps = ladder_steps(session)
    index = steps.index(event.step) + 1 if event.step in steps else len(steps)
    if index < len(steps):
        take_step(draft, steps[index], None)
        return
    draft.do(AbandonTurn(turn.id))
    fail_handed(draft)  # the driver reports nothing more about an abandoned turn
    ended = end_turn(
        draft, "interrupted", stop_reason="cancelled", output=event.output, zombie=True
    )
    continue_after_turn(draft, ended)
