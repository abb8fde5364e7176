"""The session table: for every phase and every event, the rule and the phases it may lead to.

Rule 1: a row permits an event in a phase and chooses its rule. The rule drafts facts, and
        `fold.py` applies them to the state; a phase that the row does not name is a bug.
Rule 2: every pair is a row. A late event is `ignore`, a request with a waiting caller is refused.
Rule 3: `next_phases` names every phase the rule can lead to, the same one included; a test
        compares them with the phases reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import attrs

from . import agent_events
from . import events as ev
from .rules import (
    agent_options,
    agents,
    attention,
    children,
    inputs,
    interrupts,
    mcp_calls,
    permission_requests,
    questions,
    refusals,
    restarts,
    steering,
    stopping,
    turns,
)
from .state import (
    IDLE,
    INTERRUPTING,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    SUSPENDED,
    Phase,
    SessionState,
)
from .step import Draft, Step

Rule: TypeAlias = Callable[[Draft, Any], None]


@attrs.frozen
class Row:
    """One row of the table."""

    phase: Phase
    event: type[ev.Event]
    rule: Rule
    next_phases: frozenset[Phase]


def _row(phase: Phase, event: type[ev.Event], rule: Rule, *next_phases: Phase) -> Row:
    return Row(phase, event, rule, frozenset(next_phases or (phase,)))


def _rows(phases: Iterable[Phase], event: type[ev.Event], rule: Rule) -> list[Row]:
    """Return rows whose rule does not change the phase, one for each of the phases."""
    return [_row(phase, event, rule) for phase in phases]


def _all_except(*left_out: Phase) -> list[Phase]:
    return [phase for phase in Phase if phase not in left_out]


TURN_OPEN: Final = (RUNNING, INTERRUPTING, STOPPING)  # a turn may be open
ignore: Final = refusals.ignore
# The phases after the end of a turn: the next turn, nothing to do, or the phase that was
# requested for after the turn.
_AFTER_A_TURN: Final = (RUNNING, IDLE, STOPPING, SUSPENDED)
# The phases after an agent exited: another agent, or the end, once all dependents stopped.
_END: Final = (STOPPED, STOPPING)
_RESTART: Final = (RESTARTING, *_END)

ROWS: Final[tuple[Row, ...]] = (
    # New input
    *_rows((STARTING, RESTARTING), ev.InputSubmitted, inputs.submit),
    _row(IDLE, ev.InputSubmitted, inputs.submit, IDLE, RUNNING, SUSPENDED),
    _row(RUNNING, ev.InputSubmitted, inputs.submit_while_busy, RUNNING, INTERRUPTING),
    _row(INTERRUPTING, ev.InputSubmitted, inputs.submit_while_interrupting),
    _row(SUSPENDED, ev.InputSubmitted, inputs.submit_while_suspended, SUSPENDED, RUNNING, IDLE),
    _row(STOPPING, ev.InputSubmitted, refusals.refuse_unless_live),
    _row(STOPPED, ev.InputSubmitted, inputs.resume_by_input, STOPPED, STARTING),
    # Steering. Refused while interrupting: text sent into an ending turn would be lost.
    _row(RUNNING, ev.SteeringSubmitted, inputs.steer, RUNNING, INTERRUPTING),
    *_rows(_all_except(RUNNING), ev.SteeringSubmitted, inputs.refuse_steering),
    _row(RUNNING, ev.InputPromoted, inputs.promote, RUNNING, INTERRUPTING),
    *_rows(_all_except(RUNNING), ev.InputPromoted, inputs.refuse_steering),
    *_rows(TURN_OPEN, agent_events.SteeringTaken, steering.take_steering),
    *_rows(_all_except(*TURN_OPEN), agent_events.SteeringTaken, ignore),
    *_rows(TURN_OPEN, agent_events.SteeringDeclined, steering.decline_steering),
    *_rows(_all_except(*TURN_OPEN), agent_events.SteeringDeclined, ignore),
    *_rows(TURN_OPEN, agent_events.SteeringUnanswered, steering.fail_unanswered),
    *_rows(_all_except(*TURN_OPEN), agent_events.SteeringUnanswered, ignore),
    *_rows(TURN_OPEN, agent_events.SteeringBeganTurn, turns.adopt_steered_turn),
    *_rows(_all_except(*TURN_OPEN), agent_events.SteeringBeganTurn, ignore),
    # Waiting inputs
    *_rows(_all_except(STOPPING), ev.InputEdited, inputs.edit),
    *_rows(_all_except(STOPPING), ev.InputMoved, inputs.move),
    *_rows(_all_except(STOPPING), ev.InputWithdrawn, inputs.withdraw),
    _row(STOPPING, ev.InputEdited, refusals.refuse_unless_live),
    _row(STOPPING, ev.InputMoved, refusals.refuse_unless_live),
    _row(STOPPING, ev.InputWithdrawn, refusals.refuse_unless_live),
    *_rows(Phase, agent_events.InputsExpired, inputs.expire),
    # Interrupts
    _row(RUNNING, ev.InterruptRequested, interrupts.interrupt, RUNNING, INTERRUPTING),
    _row(INTERRUPTING, ev.InterruptRequested, interrupts.interrupt),
    _row(STOPPING, ev.InterruptRequested, interrupts.interrupt_while_stopping),
    _row(IDLE, ev.InterruptRequested, interrupts.interrupt_without_turn, IDLE, RUNNING, SUSPENDED),
    _row(
        SUSPENDED,
        ev.InterruptRequested,
        interrupts.interrupt_without_turn,
        *(SUSPENDED, RUNNING, IDLE),
    ),
    *_rows(
        (STARTING, RESTARTING, STOPPED), ev.InterruptRequested, interrupts.interrupt_without_turn
    ),
    *_rows(Phase, ev.TreeInterruptRequested, interrupts.interrupt_tree),
    _row(RUNNING, ev.MemberInterruptRequested, interrupts.interrupt_member, INTERRUPTING),
    *_rows(_all_except(RUNNING), ev.MemberInterruptRequested, interrupts.interrupt_member),
    *_rows(Phase, ev.TreeInterruptEnded, interrupts.record_tree_interrupt),
    _row(
        INTERRUPTING,
        agent_events.LadderElapsed,
        interrupts.escalate,
        *(INTERRUPTING, IDLE, STOPPING, SUSPENDED, RESTARTING, STOPPED),
    ),
    _row(STOPPING, agent_events.LadderElapsed, interrupts.escalate),
    *_rows(_all_except(INTERRUPTING, STOPPING), agent_events.LadderElapsed, ignore),
    *_rows(TURN_OPEN, agent_events.CallInterruptElapsed, interrupts.call_unreachable),
    *_rows(_all_except(*TURN_OPEN), agent_events.CallInterruptElapsed, ignore),
    # Turns
    _row(RUNNING, agent_events.TurnEnded, turns.end_reported_turn, *_AFTER_A_TURN),
    _row(
        INTERRUPTING,
        agent_events.TurnEnded,
        turns.end_reported_turn,
        INTERRUPTING,
        *_AFTER_A_TURN,
        *_RESTART,
    ),
    _row(STOPPING, agent_events.TurnEnded, turns.end_reported_turn),
    *_rows(_all_except(*TURN_OPEN), agent_events.TurnEnded, ignore),
    _row(IDLE, agent_events.ZombieEnded, turns.clear_zombie, IDLE, *_AFTER_A_TURN),
    *_rows(_all_except(IDLE), agent_events.ZombieEnded, turns.clear_zombie),
    *_rows(TURN_OPEN, agent_events.CallStarted, turns.call_started),
    *_rows(_all_except(*TURN_OPEN), agent_events.CallStarted, ignore),
    *_rows(TURN_OPEN, agent_events.CallEnded, turns.call_ended),
    *_rows(_all_except(*TURN_OPEN), agent_events.CallEnded, ignore),
    *_rows(TURN_OPEN, agent_events.UsageReported, turns.report_usage),
    *_rows(_all_except(*TURN_OPEN), agent_events.UsageReported, ignore),
    # Permission requests. The agent must get an answer, so late requests are cancelled.
    _row(RUNNING, agent_events.PermissionAsked, permission_requests.ask_permission),
    *_rows(
        _all_except(RUNNING), agent_events.PermissionAsked, permission_requests.cancel_late_request
    ),
    _row(RUNNING, ev.RequestAnswered, permission_requests.answer_request),
    *_rows(_all_except(RUNNING), ev.RequestAnswered, permission_requests.refuse_answer),
    _row(RUNNING, agent_events.RequestTimedOut, permission_requests.time_out_request),
    *_rows(_all_except(RUNNING), agent_events.RequestTimedOut, ignore),
    _row(RUNNING, ev.QuestionAsked, questions.ask_question),
    *_rows(_all_except(RUNNING), ev.QuestionAsked, questions.refuse_question),
    _row(RUNNING, ev.QuestionAnswered, questions.answer_question),
    *_rows(_all_except(RUNNING), ev.QuestionAnswered, permission_requests.refuse_answer),
    *_rows(Phase, ev.RuleRemoved, permission_requests.remove_rule),
    # Children, and changes in the tree
    *_rows(
        (STARTING, IDLE, RUNNING, INTERRUPTING, RESTARTING), ev.ChildAdmitted, children.admit_child
    ),
    _row(SUSPENDED, ev.ChildAdmitted, children.admit_child, SUSPENDED, IDLE, RUNNING),
    *_rows((STOPPING, STOPPED), ev.ChildAdmitted, children.refuse_child),
    *_rows(Phase, ev.ChildRefused, children.record_refusal),
    *_rows(Phase, ev.ChildDeleted, children.record_deleted_child),
    _row(IDLE, agent_events.TreeChanged, children.recheck, *_AFTER_A_TURN),
    _row(SUSPENDED, agent_events.TreeChanged, children.recheck, SUSPENDED, IDLE, RUNNING, STOPPING),
    _row(STOPPING, agent_events.TreeChanged, children.recheck, STOPPING, STOPPED),
    *_rows(
        (STARTING, RUNNING, INTERRUPTING, RESTARTING, STOPPED),
        agent_events.TreeChanged,
        children.recheck,
    ),
    *_rows(TURN_OPEN, agent_events.NewsRead, children.mark_news_read),
    *_rows(_all_except(*TURN_OPEN), agent_events.NewsRead, ignore),
    # Progress and silence. A turn that is being interrupted is watched by its ladder.
    _row(
        RUNNING, agent_events.SilenceNoticed, turns.report_silence, RUNNING, INTERRUPTING, STOPPING
    ),
    *_rows(_all_except(RUNNING), agent_events.SilenceNoticed, ignore),
    _row(RUNNING, agent_events.ProgressMade, turns.report_progress),
    *_rows(_all_except(RUNNING), agent_events.ProgressMade, ignore),
    _row(RUNNING, agent_events.DeadlineElapsed, turns.time_out_turn, RUNNING, INTERRUPTING),
    *_rows(_all_except(RUNNING), agent_events.DeadlineElapsed, ignore),
    # The agent
    _row(STARTING, agent_events.AgentAttached, agents.attach, *_AFTER_A_TURN),
    _row(RESTARTING, agent_events.AgentAttached, agents.attach, *_AFTER_A_TURN),
    _row(RUNNING, agent_events.AgentAttached, agents.reattach, RUNNING, INTERRUPTING),
    *_rows((IDLE, INTERRUPTING), agent_events.AgentAttached, agents.reattach),
    *_rows((SUSPENDED, STOPPED), agent_events.AgentAttached, agents.close_unwanted_agent),
    _row(STOPPING, agent_events.AgentAttached, ignore),  # CloseAgent follows
    *_rows(_all_except(STOPPED), agent_events.AgentSessionNamed, agents.record_agent_session),
    _row(STOPPED, agent_events.AgentSessionNamed, ignore),
    *_rows(
        _all_except(SUSPENDED, STOPPING, STOPPED),
        agent_events.AgentChoicesReported,
        agents.record_choices,
    ),
    *_rows((SUSPENDED, STOPPING, STOPPED), agent_events.AgentChoicesReported, ignore),
    *_rows(
        _all_except(SUSPENDED, STOPPING, STOPPED),
        agent_events.OptionRefused,
        agent_options.warn_of_refused_option,
    ),
    *_rows((SUSPENDED, STOPPING, STOPPED), agent_events.OptionRefused, ignore),
    *_rows(
        _all_except(SUSPENDED, STOPPING, STOPPED),
        agent_events.AuthenticationRequested,
        agents.record_authentication,
    ),
    *_rows((SUSPENDED, STOPPING, STOPPED), agent_events.AuthenticationRequested, ignore),
    _row(STARTING, agent_events.StartFailed, agents.start_failed, *_END),
    _row(RUNNING, agent_events.StartFailed, agents.start_failed, *_END),
    _row(INTERRUPTING, agent_events.StartFailed, agents.start_failed, *_END),
    _row(RESTARTING, agent_events.StartFailed, restarts.restart_failed, *_RESTART),
    _row(STOPPING, agent_events.StartFailed, agents.exited_while_stopping),
    *_rows((IDLE, SUSPENDED, STOPPED), agent_events.StartFailed, ignore),
    _row(IDLE, agent_events.AgentExited, agents.exited_while_idle, IDLE, *_RESTART),
    _row(
        RUNNING,
        agent_events.AgentExited,
        agents.exited_while_running,
        *_RESTART,
        RUNNING,
        SUSPENDED,
    ),
    _row(
        INTERRUPTING,
        agent_events.AgentExited,
        agents.exited_while_interrupting,
        *_AFTER_A_TURN,
        *_RESTART,
    ),
    _row(STOPPING, agent_events.AgentExited, agents.exited_while_stopping),
    _row(STARTING, agent_events.AgentExited, agents.exited_while_starting, *_END),
    _row(RESTARTING, agent_events.AgentExited, restarts.exited_while_restarting, *_RESTART),
    *_rows((SUSPENDED, STOPPED), agent_events.AgentExited, ignore),
    _row(STOPPING, agent_events.AgentClosed, agents.agent_closed, STOPPING, STOPPED),
    *_rows(_all_except(STOPPING), agent_events.AgentClosed, ignore),
    _row(RESTARTING, agent_events.BackoffElapsed, restarts.restart_after_backoff),
    *_rows(_all_except(RESTARTING), agent_events.BackoffElapsed, ignore),
    # The session as a whole
    _row(STARTING, ev.StopRequested, stopping.stop, STARTING, STOPPING),
    _row(IDLE, ev.StopRequested, stopping.stop, IDLE, STOPPING),
    _row(RESTARTING, ev.StopRequested, stopping.stop, RESTARTING, STOPPING),
    _row(RUNNING, ev.StopRequested, stopping.stop_while_busy, RUNNING, STOPPING),
    _row(INTERRUPTING, ev.StopRequested, stopping.stop_while_busy, INTERRUPTING, STOPPING),
    _row(SUSPENDED, ev.StopRequested, stopping.stop_suspended, SUSPENDED, *_END),
    *_rows((STOPPING, STOPPED), ev.StopRequested, stopping.already_stopping),
    _row(STOPPED, ev.ResumeRequested, stopping.resume, STOPPED, STARTING),
    _row(STOPPING, ev.ResumeRequested, refusals.refuse_unless_live),
    *_rows(_all_except(STOPPING, STOPPED), ev.ResumeRequested, stopping.already_live),
    *_rows((IDLE, SUSPENDED, STOPPED), ev.ClearRequested, stopping.clear),
    _row(RUNNING, ev.ClearRequested, stopping.clear_while_busy, INTERRUPTING),
    _row(INTERRUPTING, ev.ClearRequested, stopping.clear_while_busy),
    *_rows((STARTING, RESTARTING), ev.ClearRequested, refusals.refuse_while_busy),
    _row(STOPPING, ev.ClearRequested, refusals.refuse_unless_live),
    _row(STOPPED, ev.ArchiveRequested, stopping.archive),
    *_rows(_all_except(STOPPED), ev.ArchiveRequested, refusals.refuse_unless_stopped),
    _row(STOPPED, ev.UnarchiveRequested, stopping.unarchive),
    *_rows(_all_except(STOPPED), ev.UnarchiveRequested, refusals.refuse_as_not_archived),
    _row(IDLE, agent_events.IdleElapsed, stopping.suspend_when_idle, IDLE, SUSPENDED),
    *_rows(_all_except(IDLE), agent_events.IdleElapsed, ignore),
    *_rows((IDLE, SUSPENDED, STOPPED), ev.MessageAppended, stopping.append_message),
    *_rows(
        (STARTING, RUNNING, INTERRUPTING, RESTARTING),
        ev.MessageAppended,
        refusals.refuse_while_busy,
    ),
    _row(STOPPING, ev.MessageAppended, refusals.refuse_unless_live),
    *_rows(Phase, ev.DetailsChanged, stopping.change_details),
    *_rows(Phase, ev.RecordsSeen, attention.mark_seen),
    *_rows(Phase, ev.ToolCalled, mcp_calls.record_call),
    # A new incarnation: the open turn is lost, and nothing else
    _row(RUNNING, agent_events.Claimed, agents.claim, *_AFTER_A_TURN),
    _row(INTERRUPTING, agent_events.Claimed, agents.claim, *_AFTER_A_TURN),
    _row(IDLE, agent_events.Claimed, agents.claim, *_AFTER_A_TURN),
    *_rows(_all_except(IDLE, RUNNING, INTERRUPTING), agent_events.Claimed, agents.claim),
    # A restart of the whole supervisor, and its shutdown
    _row(STARTING, agent_events.SupervisorRestarted, agents.recover, *_END),
    _row(RUNNING, agent_events.SupervisorRestarted, agents.recover, *_RESTART),
    _row(INTERRUPTING, agent_events.SupervisorRestarted, agents.recover, *_RESTART),
    _row(RESTARTING, agent_events.SupervisorRestarted, agents.recover),
    _row(STOPPING, agent_events.SupervisorRestarted, agents.recover, *_END),
    _row(
        IDLE, agent_events.SupervisorRestarted, agents.recover, SUSPENDED, IDLE, RUNNING, STOPPING
    ),
    _row(
        SUSPENDED,
        agent_events.SupervisorRestarted,
        agents.recover,
        SUSPENDED,
        IDLE,
        RUNNING,
        STOPPING,
    ),
    _row(STOPPED, agent_events.SupervisorRestarted, agents.recover),
    _row(IDLE, agent_events.ShutdownRequested, stopping.suspend_for_shutdown, SUSPENDED),
    _row(RESTARTING, agent_events.ShutdownRequested, stopping.suspend_for_shutdown, SUSPENDED),
    *_rows(
        (STARTING, RUNNING, INTERRUPTING),
        agent_events.ShutdownRequested,
        stopping.suspend_after_turn,
    ),
    *_rows((SUSPENDED, STOPPING, STOPPED), agent_events.ShutdownRequested, ignore),
)

_RULES: Final = {(row.phase, row.event): row.rule for row in ROWS}


def decide(session: SessionState, event: ev.Event, last_seq: int = 0) -> Step:
    """Return the step for an event. Pure and total: never raises for any phase and event.

    The facts of the step are numbered after `last_seq`.
    """
    draft = Draft(session, event, last_seq)
    _RULES[session.phase, type(event)](draft, event)
    return draft.finish()
