"""News of the agent: up, not up, gone; and of this session's own new incarnation."""

from __future__ import annotations

import attrs

from supervisor.core.effects import CloseAgent, SetTimer, StartAgent, StopDependents
from supervisor.core.events import (
    AgentAttached,
    AgentClosed,
    AgentExited,
    AgentSessionNamed,
    AgentStartFailed,
    AgentSurfaced,
    AuthenticationAsked,
    BackoffElapsed,
    Claimed,
    SupervisorRestarted,
)
from supervisor.core.session import Failure, Phase
from supervisor.core.step import Draft

from .after import go_on, restart_or_stop
from .flow import (
    NOTHING_SAID,
    begin_stopping,
    end_turn,
    expire_inputs,
    finish_stopping,
    rest,
    start_next,
    stop_at_once,
)
from .steering import offer_again

_NEVER_UP = Failure("startup", "it left before it was up")
_DIED = "the supervisor died meanwhile"
_STARTED_ANEW = "the session had to be started anew; the log says why"


def attach(draft: Draft, event: AgentAttached) -> None:
    """The agent is up, for the first time or again."""
    _note_agent(draft, event)
    draft.note("session_started")
    start_next(draft)


def attach_again(draft: Draft, event: AgentAttached) -> None:
    """An agent that was let go between turns is back."""
    _note_agent(draft, event)
    offer_again(draft)


def note_session(draft: Draft, event: AgentSessionNamed) -> None:
    """What the agent calls the conversation, for the next one that is to go on with it."""
    draft.note("session_changed", agent_session_id=event.session_id)


def note_choices(draft: Draft, event: AgentSurfaced) -> None:
    """For people to read; nothing is decided by it."""
    draft.note("session_changed", choices=dict(event.choices))


def note_auth(draft: Draft, event: AuthenticationAsked) -> None:
    """The agent waits until somebody has said who we are, or does so no longer."""
    draft.note("session_changed", auth=event.method)


def send_away(draft: Draft, _: AgentAttached) -> None:
    """It came up for a session that no longer wants one."""
    draft.do(CloseAgent())


def _note_agent(draft: Draft, event: AgentAttached) -> None:
    draft.note(
        "agent_attached",
        agent_session_id=event.agent.session_id,
        pid=event.agent.pid,
        capabilities=attrs.asdict(event.agent.capabilities)
        | {"ladder": list(event.agent.capabilities.ladder)},
    )


def not_up(draft: Draft, event: AgentStartFailed) -> None:
    """It never came up: that is the end, with the queue held for whoever mends it."""
    if draft.session.turn is not None:
        end_turn(draft, "failed", error=event.failure.detail)
    stop_at_once(draft, "start_failed", event.failure)


def gone_before_it_was_up(draft: Draft, event: AgentExited) -> None:
    """It left while it was starting: it never came up."""
    stop_at_once(draft, "start_failed", event.failure or _NEVER_UP)


def gone_before_it_was_back(draft: Draft, event: AgentExited) -> None:
    """It left while it was being restarted: another try, or the end."""
    restart_or_stop(draft, event.failure or _NEVER_UP, jitter=event.jitter)


def not_up_again(draft: Draft, event: AgentStartFailed) -> None:
    """It did not come back: another try, or the end."""
    restart_or_stop(draft, event.failure, jitter=0.0)


def gone_while_idle(draft: Draft, event: AgentExited) -> None:
    """Cleanly: the conversation is complete. Otherwise: a crash."""
    if draft.session.agent is None:
        return  # one that had been let go before
    if event.failure is None and draft.session.terms.restart.policy != "always":
        stop_at_once(draft, "completed")
    else:
        failure = event.failure or Failure("process_exit", "it left, and is always restarted")
        restart_or_stop(draft, failure, jitter=event.jitter)


def gone_while_running(draft: Draft, event: AgentExited) -> None:
    """In the middle of a turn even a clean exit is a crash."""
    if draft.session.agent is None:
        return  # one that had been let go before; if this turn's does not come up, that is said
    failure = event.failure or Failure("process_exit", "it left in the middle of a turn")
    end_turn(draft, "lost", said=event.said, error=failure.detail)
    if draft.session.stopping is not None:
        stop_at_once(draft, "process_exited", failure)
    else:
        restart_or_stop(draft, failure, jitter=event.jitter)


def gone_while_interrupting(draft: Draft, event: AgentExited) -> None:
    """The ladder ended it, which is no crash; the next turn starts another one."""
    draft.note("session_changed", agent_gone=True)
    ended = end_turn(draft, "interrupted", stop_reason="cancelled", said=event.said)
    go_on(draft, ended)


def gone_while_stopping(draft: Draft, event: AgentExited | AgentStartFailed) -> None:
    """It would have been closed anyway; its turn is over now."""
    if draft.session.turn is not None:
        said = event.said if isinstance(event, AgentExited) else NOTHING_SAID
        end_turn(draft, "interrupted", stop_reason="cancelled", said=said)
        go_on(draft)


def closed(draft: Draft, _: AgentClosed) -> None:
    """The last thing to wait for; unless it is an agent from before, and a turn is still open."""
    if draft.session.turn is None:
        finish_stopping(draft)


def start_again(draft: Draft, _: BackoffElapsed) -> None:
    """The pause is over."""
    draft.do(StartAgent())


def claim(draft: Draft, event: Claimed) -> None:
    """A new incarnation of the session's actor: what was under way is lost, and nothing else."""
    draft.note("session_changed", epoch=event.epoch)
    _forget_agent(draft)
    if draft.session.turn is not None:
        end_turn(draft, "lost", said=event.said, error=_STARTED_ANEW, zombie=event.undead)
    match draft.session.phase:
        case Phase.IDLE:
            go_on(draft)
        case Phase.STARTING | Phase.RESTARTING:
            draft.do(StartAgent())
        case Phase.STOPPING:
            draft.do(CloseAgent())
            if draft.situation.dependents:
                draft.do(StopDependents())
        case _:
            pass


def recover(draft: Draft, event: SupervisorRestarted) -> None:  # noqa: C901 - a case for each phase
    """The supervisor died and is back: one definite fate, and the same if told again."""
    session = draft.session
    draft.note("session_changed", epoch=event.epoch, zombie=None, leaving=False)
    _forget_agent(draft)
    if session.turn is not None:
        end_turn(draft, "lost", said=event.said, error=_DIED)
    match session.phase:
        case Phase.STARTING:
            stop_at_once(draft, "start_failed", Failure("startup", _DIED))
        case Phase.RUNNING | Phase.INTERRUPTING if session.stopping is not None:
            begin_stopping(draft, session.stopping.cause, agent_closed=True)
            finish_stopping(draft)
        case Phase.RUNNING | Phase.INTERRUPTING:
            restart_or_stop(draft, Failure("process_exit", _DIED), jitter=0.0)
        case Phase.RESTARTING:
            # That death was counted when it began; only the pause is cut short.
            draft.do(SetTimer("backoff", 0.0))
        case Phase.STOPPING:
            finish_stopping(draft)
            if draft.situation.dependents:
                draft.do(StopDependents())
        case Phase.IDLE:
            rest(draft)
            _wake_if_wanted(draft)
        case Phase.SUSPENDED:
            _wake_if_wanted(draft)
        case Phase.STOPPED:
            pass


def _wake_if_wanted(draft: Draft) -> None:
    expire_inputs(draft)
    if draft.session.inputs and not draft.situation.no_place:
        draft.note("session_resumed", woken=True)
        start_next(draft)


def _forget_agent(draft: Draft) -> None:
    if draft.session.agent is not None:
        draft.note("session_changed", agent_gone=True)
