"""Rules for events about the agent and about a new incarnation of the session's actor.

`restarts` decides whether an agent that ended is started again, and after which pause.
"""

from __future__ import annotations

import attrs

from supervisor.core.agent_events import (
    AgentAttached,
    AgentChoicesReported,
    AgentClosed,
    AgentExited,
    AgentSessionNamed,
    AuthenticationRequested,
    Claimed,
    StartFailed,
    SupervisorRestarted,
)
from supervisor.core.effects import CloseAgent, SetTimer, StartAgent, StopDependents
from supervisor.core.state import Failure, Phase
from supervisor.core.step import Draft

from .agent_options import note_offer
from .input_queue import expire_inputs
from .restarts import EXITED_BEFORE_START, restart_or_stop
from .steering import fail_handed, reoffer_steering
from .stopping import begin_stopping, finish_stopping, stop_at_once, suspend_session
from .turn_flow import NO_OUTPUT, continue_after_turn, end_turn, start_next_turn

_SUPERVISOR_DIED = "the supervisor died meanwhile"
_ACTOR_RESTARTED = "the session's actor was restarted; the log says why"


def attach(draft: Draft, event: AgentAttached) -> None:
    """Record the agent, which has started or restarted, and start the next turn."""
    _record_agent(draft, event)
    draft.note("session_started")
    start_next_turn(draft)


def reattach(draft: Draft, event: AgentAttached) -> None:
    """Record an agent that was closed between turns and has started again."""
    _record_agent(draft, event)
    reoffer_steering(draft)


def record_agent_session(draft: Draft, event: AgentSessionNamed) -> None:
    """Record the agent's id of the conversation, so that the next agent can continue it."""
    draft.note("session_changed", agent_session_id=event.session_id)


def record_choices(draft: Draft, event: AgentChoicesReported) -> None:
    """Record the modes, options and commands that the agent offers."""
    draft.note("session_changed", choices=dict(event.choices))
    if event.options is not None:
        note_offer(draft, event.options)


def record_authentication(draft: Draft, event: AuthenticationRequested) -> None:
    """Record that the agent waits for authentication, or that the wait is over."""
    draft.note("session_changed", auth=event.method)


def close_unwanted_agent(draft: Draft, _: AgentAttached) -> None:
    """Close an agent that has started although its session does not need it any more."""
    draft.do(CloseAgent())


def _record_agent(draft: Draft, event: AgentAttached) -> None:
    draft.note(
        "agent_attached",
        agent_session_id=event.agent.session_id,
        pid=event.agent.pid,
        capabilities=attrs.asdict(event.agent.capabilities)
        | {"ladder": list(event.agent.capabilities.ladder)},
    )
    note_offer(draft, event.options)


def start_failed(draft: Draft, event: StartFailed) -> None:
    """Stop the session, because the agent did not start; queued inputs are kept for a resume."""
    if draft.state.turn is not None:
        end_turn(draft, "failed", error=event.failure.detail)
    stop_at_once(draft, "start_failed", event.failure)


def exited_while_starting(draft: Draft, event: AgentExited) -> None:
    """Stop the session, because the agent exited during its start."""
    stop_at_once(draft, "start_failed", event.failure or EXITED_BEFORE_START)


def exited_while_idle(draft: Draft, event: AgentExited) -> None:
    """Stop the session as completed after a clean exit; treat any other exit as a crash."""
    if draft.state.agent is None:
        return  # an agent that had been closed before
    restart = draft.state.terms.restart
    if event.failure is None and restart.policy != "always":
        stop_at_once(draft, "completed")
    else:
        failure = event.failure or Failure("process_exit", "the agent exited")
        restart_or_stop(draft, failure, jitter=event.jitter)


def exited_while_running(draft: Draft, event: AgentExited) -> None:
    """Treat even a clean exit within a turn as a crash."""
    if draft.state.agent is None:
        return  # closed before; StartFailed reports if this turn's agent does not start
    failure = event.failure or Failure("process_exit", "the agent exited within a turn")
    end_turn(draft, "lost", output=event.output, error=failure.detail)
    if draft.state.stopping is not None:
        stop_at_once(draft, "process_exited", failure)
    else:
        restart_or_stop(draft, failure, jitter=event.jitter)


def exited_while_interrupting(draft: Draft, event: AgentExited) -> None:
    """End the turn: the interrupt ended the agent, so the exit is not a crash.

    The next turn starts a new agent.
    """
    draft.note("session_changed", agent_gone=True)
    ended = end_turn(draft, "interrupted", stop_reason="cancelled", output=event.output)
    continue_after_turn(draft, ended)


def exited_while_stopping(draft: Draft, event: AgentExited | StartFailed) -> None:
    """End the open turn; the exit is expected, because the session is stopping."""
    if draft.state.turn is not None:
        output = event.output if isinstance(event, AgentExited) else NO_OUTPUT
        end_turn(draft, "interrupted", stop_reason="cancelled", output=output)
        continue_after_turn(draft)


def agent_closed(draft: Draft, _: AgentClosed) -> None:
    """Finish the stop, unless a turn is open: then an earlier agent was closed."""
    if draft.state.turn is None:
        finish_stopping(draft)


def claim(draft: Draft, event: Claimed) -> None:
    """Close the open turn as lost, because the session's actor has a new incarnation."""
    _note_epoch(draft, epoch=event.epoch)
    _forget_agent(draft)
    if draft.state.turn is not None:
        fail_handed(draft)
        end_turn(
            draft, "lost", output=event.output, error=_ACTOR_RESTARTED, zombie=event.left_zombie
        )
    match draft.state.phase:
        case Phase.IDLE:
            continue_after_turn(draft)
        case Phase.STARTING | Phase.RESTARTING:
            draft.do(StartAgent())
        case Phase.STOPPING:
            draft.do(CloseAgent())
            if draft.tree_view.dependents:
                draft.do(StopDependents())
        case _:
            pass


def recover(draft: Draft, event: SupervisorRestarted) -> None:  # noqa: C901 - one case per phase
    """Recover the session after a restart of the supervisor; a repeated event changes nothing."""
    session = draft.before
    _note_epoch(draft, epoch=event.epoch, zombie=None, leaving=False)
    _forget_agent(draft)
    if session.turn is not None:
        fail_handed(draft)
        end_turn(draft, "lost", output=event.output, error=_SUPERVISOR_DIED)
    match session.phase:
        case Phase.STARTING:
            stop_at_once(draft, "start_failed", Failure("startup", _SUPERVISOR_DIED))
        case Phase.RUNNING | Phase.INTERRUPTING if session.stopping is not None:
            begin_stopping(draft, session.stopping.cause, agent_closed=True)
            finish_stopping(draft)
        case Phase.RUNNING | Phase.INTERRUPTING:
            restart_or_stop(draft, Failure("process_exit", _SUPERVISOR_DIED), jitter=0.0)
        case Phase.RESTARTING:
            # That exit was counted when the restart began; only the pause is skipped.
            draft.do(SetTimer("backoff", 0.0))
        case Phase.STOPPING:
            finish_stopping(draft)
            if draft.tree_view.dependents:
                draft.do(StopDependents())
        case Phase.IDLE:
            suspend_session(draft)
            _resume_if_inputs(draft)
        case Phase.SUSPENDED:
            _resume_if_inputs(draft)
        case Phase.STOPPED:
            pass


def _resume_if_inputs(draft: Draft) -> None:
    expire_inputs(draft)
    if draft.state.inputs and not draft.tree_view.child_slots_full:
        draft.note("session_resumed", woken=True)
        start_next_turn(draft)


def _note_epoch(draft: Draft, **changes: object) -> None:
    """Record a new epoch; from the first of this version on, what a person should see is kept."""
    if not draft.state.keeps_attention:
        changes["keeps_attention"] = True
    draft.note("session_changed", **changes)


def _forget_agent(draft: Draft) -> None:
    if draft.state.agent is not None:
        draft.note("session_changed", agent_gone=True)
