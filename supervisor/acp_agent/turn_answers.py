"""The end of a turn as the answer to its prompt, and errors as JSON-RPC errors. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from supervisor.core.errors import (
    AgentUnknown,
    PermissionNotFound,
    QueueFull,
    RecordNotFound,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
    SupervisorError,
)
from supervisor.core.redaction import redact
from supervisor.drivers.acp.content import as_text
from supervisor.json_rpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)

Retry = Literal["never", "later", "after"]

STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)
# Errors of ours that are no fault of the request: the same may succeed later.
_LATER: Final = frozenset(
    {
        QueueFull.code,
        StoreDegraded.code,
        "no_daemon",
        "daemon_busy",
        "draining",
        "not_ready",
        "out_of_descriptors",
        "too_many_connections",
    }
)
# Whether the request took effect is unknown, or the agent or the daemon has failed.
_FAULTS: Final = frozenset(
    {
        "no_daemon",
        "daemon_busy",
        "answer_lost",
        "draining",
        "not_ready",
        "internal_error",
        "out_of_descriptors",
        "too_many_connections",
        "agent_start_failed",
        "store_degraded",
        "store_locked",
        "store_too_new",
        "supervisor_error",
    }
)
_NOT_FOUND: Final = (SessionNotFound, PermissionNotFound, RecordNotFound)
_TRANSIENT_LIMITS: Final = frozenset(
    {"max_children", "max_descendants", "max_sessions", "max_running_turns", "max_agent_processes"}
)


def answer_to_prompt(
    body: Mapping[str, Any], *, stopping: Mapping[str, Any] | None
) -> dict[str, Any] | RpcError:
    """Return the answer to a prompt whose turn has ended with this `turn_ended` record.

    `stopping` is why the session stops at the same time, if it does.
    """
    outcome = body.get("outcome")
    if outcome == "completed":
        reason = as_text(body.get("stop_reason"))
        return {"stopReason": reason if reason in STOP_REASONS else "end_turn"}
    if outcome == "interrupted":
        return _interrupted(body, stopping)
    text = body.get("error")
    problem = text if isinstance(text, str) and text else f"the turn has ended: {outcome}"
    return RpcError(
        INTERNAL_ERROR,
        redact(problem),
        error_data(
            f"turn_{outcome}", _TURN_HINTS.get(str(outcome), _TURN_HINTS["failed"]), "after"
        ),
    )


_TURN_HINTS: Final = {
    "failed": "the session is usable: send another prompt",
    "timed_out": "the turn took longer than turn_deadline_seconds; send another prompt",
    "lost": "the supervisor or the agent ended during the turn; send the prompt again",
}


def _interrupted(
    body: Mapping[str, Any], stopping: Mapping[str, Any] | None
) -> dict[str, Any] | RpcError:
    cause = (stopping or {}).get("cause")
    if cause == "turns_limit":
        return {"stopReason": "max_turn_requests"}
    if cause == "budget":
        detail = str((stopping or {}).get("detail") or body.get("error") or "")
        if " tokens used" in detail:
            return {"stopReason": "max_tokens"}
        return RpcError(
            INTERNAL_ERROR,
            f"a budget is spent: {detail}" if detail else "a budget is spent",
            error_data("budget_spent", "raise the budget: understudy set", "never"),
        )
    return {"stopReason": "cancelled"}


def answer_to_unstarted(
    body: Mapping[str, Any], *, stopping: Mapping[str, Any] | None = None
) -> dict[str, Any] | RpcError:
    """Return the answer to a prompt whose input has ended without a turn (`input_settled`)."""
    outcome, detail = body.get("outcome"), body.get("detail")
    if outcome == "cancelled":
        return _interrupted(body, stopping)
    said = f": {detail}" if isinstance(detail, str) and detail else ""
    return RpcError(
        INTERNAL_ERROR,
        f"the prompt has not been run: its input is {outcome}{said}",
        error_data(f"input_{outcome}", "send the prompt again", "after"),
    )


def rpc_error(error: SupervisorError) -> RpcError:
    """Return the error with which a request is refused that has raised this."""
    if isinstance(error, _NOT_FOUND):
        code = RESOURCE_NOT_FOUND
    elif error.code in _FAULTS and not isinstance(error, AgentUnknown):
        code = INTERNAL_ERROR
    else:
        code = INVALID_PARAMS
    data = error_data(error.code, error.hint, _retry(error))
    if isinstance(error, SpawnRefused):
        limits = {"limit": error.limit, "used": error.used, "allowed": error.allowed}
        data |= {name: value for name, value in limits.items() if value is not None}
    return RpcError(code, redact(str(error.args[0])), data)


def error_data(code: str, hint: str, retry: Retry) -> dict[str, Any]:
    """Return the data of an error: what a program and a person can do about it."""
    return {"code": code, "hint": redact(hint), "retry": retry}


def _retry(error: SupervisorError) -> Retry:
    if isinstance(error, SpawnRefused):
        return "later" if error.limit in _TRANSIENT_LIMITS else "never"
    return "later" if error.code in _LATER else "never"
