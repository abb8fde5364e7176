"""The table: for every phase and every event, which rule decides and where it may lead.

Rule 1: everything that changes a session's phase is a row in this file.
Rule 2: every pair is a row. Late news is `ignore`, a question that someone waits on is refused.
Rule 3: `becomes` names every phase the rule can lead to, staying included; a test walks them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import attrs

from . import events as ev
from .rules import (
    agents,
    family,
    inputs,
    interrupts,
    liveness,
    requests,
    steering,
    stopping,
    turns,
)
from .session import Phase, Session
from .step import Draft, Step

Rule: TypeAlias = Callable[[Draft, Any], None]

STARTING, IDLE, RUNNING = Phase.STARTING, Phase.IDLE, Phase.RUNNING
INTERRUPTING, RESTARTING, SUSPENDED = Phase.INTERRUPTING, Phase.RESTARTING, Phase.SUSPENDED
STOPPING, STOPPED = Phase.STOPPING, Phase.STOPPED


@attrs.frozen
class Row:
    """One line of the table."""

    when: Phase
    told: type[ev.Event]
    rule: Rule
    becomes: frozenset[Phase]


def _row(when: Phase, told: type[ev.Event], rule: Rule, *becomes: Phase) -> Row:
    return Row(when, told, rule, frozenset(becomes or (when,)))


def _rows(phases: Iterable[Phase], told: type[ev.Event], rule: Rule) -> list[Row]:
    """Rows that stay where they are."""
    return [_row(phase, told, rule) for phase in phases]


def _but(*left_out: Phase) -> list[Phase]:
    return [phase for phase in Phase if phase not in left_out]


OPEN: Final = (RUNNING, INTERRUPTING, STOPPING)  # a turn may be open
ignore: Final = stopping.ignore
# Where the end of a turn leads: on to the next, to nothing to do, or to where the session was told
# to go when it is over.
_AFTER_A_TURN: Final = (RUNNING, IDLE, STOPPING, SUSPENDED)
# Where the death of an agent leads: to another one, or to the end, once all below it have ended.
_END: Final = (STOPPED, STOPPING)
_RESTART: Final = (RESTARTING, *_END)

ROWS: Final[tuple[Row, ...]] = (
    # New input
    *_rows((STARTING, RESTARTING), ev.InputSubmitted, inputs.submit),
    _row(IDLE, ev.InputSubmitted, inputs.submit, IDLE, RUNNING, SUSPENDED),
    _row(RUNNING, ev.InputSubmitted, inputs.submit_while_busy, RUNNING, INTERRUPTING),
    _row(INTERRUPTING, ev.InputSubmitted, inputs.submit_while_interrupting),
    _row(SUSPENDED, ev.InputSubmitted, inputs.wake, SUSPENDED, RUNNING, IDLE),
    _row(STOPPING, ev.InputSubmitted, stopping.refuse_unless_live),
    _row(STOPPED, ev.InputSubmitted, inputs.resume_by_input, STOPPED, STARTING),
    # Guidance. Refused while interrupting: text sent into a dying turn would be lost.
    _row(RUNNING, ev.SteeringSubmitted, inputs.steer, RUNNING, INTERRUPTING),
    *_rows(_but(RUNNING), ev.SteeringSubmitted, inputs.refuse_steering),
    _row(RUNNING, ev.InputPromoted, inputs.promote, RUNNING, INTERRUPTING),
    *_rows(_but(RUNNING), ev.InputPromoted, inputs.refuse_steering),
    *_rows(OPEN, ev.SteeringTaken, steering.take_steering),
    *_rows(_but(*OPEN), ev.SteeringTaken, ignore),
    *_rows(OPEN, ev.SteeringDeclined, steering.decline_steering),
    *_rows(_but(*OPEN), ev.SteeringDeclined, ignore),
    *_rows(OPEN, ev.SteeringBeganTurn, steering.begin_with_steering),
    *_rows(_but(*OPEN), ev.SteeringBeganTurn, ignore),
    # What waits
    *_rows(_but(STOPPING), ev.InputEdited, inputs.edit),
    *_rows(_but(STOPPING), ev.InputMoved, inputs.move),
    *_rows(_but(STOPPING), ev.InputWithdrawn, inputs.withdraw),
    _row(STOPPING, ev.InputEdited, stopping.refuse_unless_live),
    _row(STOPPING, ev.InputMoved, stopping.refuse_unless_live),
    _row(STOPPING, ev.InputWithdrawn, stopping.refuse_unless_live),
    *_rows(Phase, ev.InputsExpired, inputs.expire),
    # Interrupts
    _row(RUNNING, ev.InterruptRequested, interrupts.interrupt, RUNNING, INTERRUPTING),
    _row(INTERRUPTING, ev.InterruptRequested, interrupts.interrupt),
    _row(STOPPING, ev.InterruptRequested, interrupts.join),
    *_rows(_but(*OPEN), ev.InterruptRequested, interrupts.miss),
    _row(
        INTERRUPTING,
        ev.LadderElapsed,
        interrupts.climb,
        *(INTERRUPTING, IDLE, STOPPING, SUSPENDED, RESTARTING, STOPPED),
    ),
    _row(STOPPING, ev.LadderElapsed, interrupts.climb),
    *_rows(_but(INTERRUPTING, STOPPING), ev.LadderElapsed, ignore),
    # Turns
    _row(RUNNING, ev.TurnEnded, turns.finish, *_AFTER_A_TURN),
    _row(INTERRUPTING, ev.TurnEnded, turns.finish, INTERRUPTING, *_AFTER_A_TURN, *_RESTART),
    _row(STOPPING, ev.TurnEnded, turns.finish),
    *_rows(_but(*OPEN), ev.TurnEnded, ignore),
    _row(IDLE, ev.ZombieEnded, turns.bury_zombie, IDLE, *_AFTER_A_TURN),
    *_rows(_but(IDLE), ev.ZombieEnded, turns.bury_zombie),
    *_rows(OPEN, ev.CallStarted, turns.call_started),
    *_rows(_but(*OPEN), ev.CallStarted, ignore),
    *_rows(OPEN, ev.CallEnded, turns.call_ended),
    *_rows(_but(*OPEN), ev.CallEnded, ignore),
    *_rows(OPEN, ev.UsageReported, turns.report_usage),
    *_rows(_but(*OPEN), ev.UsageReported, ignore),
    # Permissions and questions. Whoever asks must hear something, so late ones are cancelled.
    _row(RUNNING, ev.PermissionAsked, requests.ask),
    *_rows(_but(RUNNING), ev.PermissionAsked, requests.ask_too_late),
    _row(RUNNING, ev.RequestAnswered, requests.answer),
    *_rows(_but(RUNNING), ev.RequestAnswered, requests.refuse_answer),
    _row(RUNNING, ev.RequestTimedOut, requests.time_out),
    *_rows(_but(RUNNING), ev.RequestTimedOut, ignore),
    *_rows(Phase, ev.RuleRemoved, requests.remove_rule),
    # Those below it, and what changes around it
    *_rows((STARTING, IDLE, RUNNING, INTERRUPTING, RESTARTING), ev.ChildAdmitted, family.admit),
    _row(SUSPENDED, ev.ChildAdmitted, family.admit, SUSPENDED, IDLE, RUNNING),
    *_rows((STOPPING, STOPPED), ev.ChildAdmitted, family.refuse_child),
    *_rows(Phase, ev.ChildRefused, family.note_refusal),
    *_rows(Phase, ev.ChildDeleted, family.forget_child),
    _row(IDLE, ev.FamilyChanged, family.look_around, *_AFTER_A_TURN),
    _row(SUSPENDED, ev.FamilyChanged, family.look_around, SUSPENDED, IDLE, RUNNING, STOPPING),
    _row(STOPPING, ev.FamilyChanged, family.look_around, STOPPING, STOPPED),
    *_rows(
        (STARTING, RUNNING, INTERRUPTING, RESTARTING, STOPPED),
        ev.FamilyChanged,
        family.look_around,
    ),
    *_rows(OPEN, ev.NewsTaken, family.take_news),
    *_rows(_but(*OPEN), ev.NewsTaken, ignore),
    # Progress, and the lack of it. A turn that is being interrupted is watched by its ladder.
    _row(RUNNING, ev.SilenceNoticed, liveness.notice_silence, RUNNING, INTERRUPTING, STOPPING),
    *_rows(_but(RUNNING), ev.SilenceNoticed, ignore),
    _row(RUNNING, ev.ProgressMade, liveness.notice_progress),
    *_rows(_but(RUNNING), ev.ProgressMade, ignore),
    _row(RUNNING, ev.DeadlineElapsed, liveness.end_its_time, RUNNING, INTERRUPTING),
    *_rows(_but(RUNNING), ev.DeadlineElapsed, ignore),
    # The agent
    _row(STARTING, ev.AgentAttached, agents.attach, *_AFTER_A_TURN),
    _row(RESTARTING, ev.AgentAttached, agents.attach, *_AFTER_A_TURN),
    _row(RUNNING, ev.AgentAttached, agents.attach_again, RUNNING, INTERRUPTING),
    *_rows((IDLE, INTERRUPTING), ev.AgentAttached, agents.attach_again),
    *_rows((SUSPENDED, STOPPED), ev.AgentAttached, agents.send_away),
    _row(STOPPING, ev.AgentAttached, ignore),  # CloseAgent is on its way, or comes after the turn
    *_rows(_but(STOPPED), ev.AgentSessionNamed, agents.note_session),
    _row(STOPPED, ev.AgentSessionNamed, ignore),
    *_rows(_but(SUSPENDED, STOPPING, STOPPED), ev.AgentSurfaced, agents.note_choices),
    *_rows((SUSPENDED, STOPPING, STOPPED), ev.AgentSurfaced, ignore),
    *_rows(_but(SUSPENDED, STOPPING, STOPPED), ev.AuthenticationAsked, agents.note_auth),
    *_rows((SUSPENDED, STOPPING, STOPPED), ev.AuthenticationAsked, ignore),
    _row(STARTING, ev.AgentStartFailed, agents.not_up, *_END),
    _row(RUNNING, ev.AgentStartFailed, agents.not_up, *_END),
    _row(INTERRUPTING, ev.AgentStartFailed, agents.not_up, *_END),
    _row(RESTARTING, ev.AgentStartFailed, agents.not_up_again, *_RESTART),
    _row(STOPPING, ev.AgentStartFailed, agents.gone_while_stopping),
    *_rows((IDLE, SUSPENDED, STOPPED), ev.AgentStartFailed, ignore),
    _row(IDLE, ev.AgentExited, agents.gone_while_idle, IDLE, *_RESTART),
    _row(RUNNING, ev.AgentExited, agents.gone_while_running, *_RESTART, RUNNING, SUSPENDED),
    _row(INTERRUPTING, ev.AgentExited, agents.gone_while_interrupting, *_AFTER_A_TURN, *_RESTART),
    _row(STOPPING, ev.AgentExited, agents.gone_while_stopping),
    _row(STARTING, ev.AgentExited, agents.gone_before_it_was_up, *_END),
    _row(RESTARTING, ev.AgentExited, agents.gone_before_it_was_back, *_RESTART),
    *_rows((SUSPENDED, STOPPED), ev.AgentExited, ignore),
    _row(STOPPING, ev.AgentClosed, agents.closed, STOPPING, STOPPED),
    *_rows(_but(STOPPING), ev.AgentClosed, ignore),
    _row(RESTARTING, ev.BackoffElapsed, agents.start_again),
    *_rows(_but(RESTARTING), ev.BackoffElapsed, ignore),
    # The session as a whole
    _row(STARTING, ev.StopRequested, stopping.stop, STARTING, STOPPING),
    _row(IDLE, ev.StopRequested, stopping.stop, IDLE, STOPPING),
    _row(RESTARTING, ev.StopRequested, stopping.stop, RESTARTING, STOPPING),
    _row(RUNNING, ev.StopRequested, stopping.stop_while_busy, RUNNING, STOPPING),
    _row(INTERRUPTING, ev.StopRequested, stopping.stop_while_busy, INTERRUPTING, STOPPING),
    _row(SUSPENDED, ev.StopRequested, stopping.stop_suspended, SUSPENDED, *_END),
    *_rows((STOPPING, STOPPED), ev.StopRequested, stopping.already_stopping),
    _row(STOPPED, ev.ResumeRequested, stopping.resume, STOPPED, STARTING),
    _row(STOPPING, ev.ResumeRequested, stopping.refuse_unless_live),
    *_rows(_but(STOPPING, STOPPED), ev.ResumeRequested, stopping.already_live),
    *_rows((IDLE, SUSPENDED, STOPPED), ev.ClearRequested, stopping.clear),
    _row(RUNNING, ev.ClearRequested, stopping.clear_while_busy, INTERRUPTING),
    _row(INTERRUPTING, ev.ClearRequested, stopping.clear_while_busy),
    *_rows((STARTING, RESTARTING), ev.ClearRequested, stopping.refuse_while_busy),
    _row(STOPPING, ev.ClearRequested, stopping.refuse_unless_live),
    _row(STOPPED, ev.ArchiveRequested, stopping.archive),
    *_rows(_but(STOPPED), ev.ArchiveRequested, stopping.refuse_unless_stopped),
    _row(STOPPED, ev.UnarchiveRequested, stopping.unarchive),
    *_rows(_but(STOPPED), ev.UnarchiveRequested, stopping.refuse_as_not_archived),
    _row(IDLE, ev.IdleElapsed, stopping.suspend, IDLE, SUSPENDED),
    *_rows(_but(IDLE), ev.IdleElapsed, ignore),
    *_rows((IDLE, SUSPENDED, STOPPED), ev.MessageAppended, stopping.append),
    *_rows(
        (STARTING, RUNNING, INTERRUPTING, RESTARTING),
        ev.MessageAppended,
        stopping.refuse_while_busy,
    ),
    _row(STOPPING, ev.MessageAppended, stopping.refuse_unless_live),
    *_rows(Phase, ev.DetailsChanged, stopping.change_details),
    # A new incarnation: what was under way is lost, and nothing else
    _row(RUNNING, ev.Claimed, agents.claim, *_AFTER_A_TURN),
    _row(INTERRUPTING, ev.Claimed, agents.claim, *_AFTER_A_TURN),
    _row(IDLE, ev.Claimed, agents.claim, *_AFTER_A_TURN),
    *_rows(_but(IDLE, RUNNING, INTERRUPTING), ev.Claimed, agents.claim),
    # The whole supervisor was gone, and is back; or is about to go
    _row(STARTING, ev.SupervisorRestarted, agents.recover, *_END),
    _row(RUNNING, ev.SupervisorRestarted, agents.recover, *_RESTART),
    _row(INTERRUPTING, ev.SupervisorRestarted, agents.recover, *_RESTART),
    _row(RESTARTING, ev.SupervisorRestarted, agents.recover),
    _row(STOPPING, ev.SupervisorRestarted, agents.recover, *_END),
    _row(IDLE, ev.SupervisorRestarted, agents.recover, SUSPENDED, IDLE, RUNNING, STOPPING),
    _row(SUSPENDED, ev.SupervisorRestarted, agents.recover, SUSPENDED, IDLE, RUNNING, STOPPING),
    _row(STOPPED, ev.SupervisorRestarted, agents.recover),
    _row(IDLE, ev.LeaveRequested, stopping.leave, SUSPENDED),
    _row(RESTARTING, ev.LeaveRequested, stopping.leave, SUSPENDED),
    *_rows((STARTING, RUNNING, INTERRUPTING), ev.LeaveRequested, stopping.leave_when_free),
    *_rows((SUSPENDED, STOPPING, STOPPED), ev.LeaveRequested, ignore),
)

_TABLE: Final = {(row.when, row.told): row for row in ROWS}


def decide(session: Session, event: ev.Event) -> Step:
    """What becomes of the session when it is told this. Pure and total."""
    row = _TABLE[session.phase, type(event)]
    draft = Draft(session, event)
    row.rule(draft, event)
    return draft.finish()
