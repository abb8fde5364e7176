"""Records that a person should know of, and that are no part of the conversation, as notices. Pure.

A notice is live: none is made of history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from supervisor.core.endings import BUDGET_REASONS, FAILED_REASONS
from supervisor.core.records import Record
from supervisor.drivers.acp.content import as_mapping, as_text

from .tool_cards import Update

Severity = Literal["info", "warning", "error"]
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


def notice(severity: Severity, title: str, description: str | None = None) -> Update:
    """Return a notice."""
    update: Update = {"sessionUpdate": "notice", "severity": severity, "title": title}
    return update if description is None else update | {"description": description}


def notice_of(record: Record) -> Update | None:
    """Return the notice for a record; None for the records that need none."""
    maker = _MAKERS.get(record.kind)
    return None if maker is None else maker(record.body)


def _stalled(body: Mapping[str, Any]) -> Update:
    detail = f" ({body['detail']})" if body.get("detail") else ""
    return notice(
        "warning",
        f"No progress for {body['seconds']:.0f} s",
        f"It waits for: {body['waits_for']}{detail}. /understudy:why says more.",
    )


def _resumed(body: Mapping[str, Any]) -> Update | None:
    return notice("info", "Progress again") if body.get("was") == "stalled" else None


def _restarting(body: Mapping[str, Any]) -> Update:
    failure = as_mapping(body.get("failure"))
    return notice(
        "warning",
        f"The agent is restarted (attempt {body['attempt']})",
        as_text(failure.get("detail")),
    )


def _stopped(body: Mapping[str, Any]) -> Update | None:
    reason, detail = as_text(body.get("reason")), as_text(body.get("detail"))
    if reason in BUDGET_REASONS:
        return notice("warning", "A budget is spent: the session has stopped", detail)
    if reason in FAILED_REASONS:
        failure = as_text(as_mapping(body.get("failure")).get("detail"))
        return notice("error", f"The session has stopped: {reason}", failure or detail)
    return None


def _spawn_refused(body: Mapping[str, Any]) -> Update:
    return notice("warning", "A child was not started", as_text(body.get("detail")))


def _warning(body: Mapping[str, Any]) -> Update:
    return notice("warning", as_text(body.get("text")) or "warning")


def _notice(body: Mapping[str, Any]) -> Update:
    """Return a notice of the agent itself."""
    severity: Severity = body["severity"] if body["severity"] in _SEVERITIES else "info"
    return notice(severity, as_text(body.get("text")) or severity, as_text(body.get("detail")))


def _changed(body: Mapping[str, Any]) -> Update | None:
    if not body.get("mcp_servers"):
        return None
    names = ", ".join(map(str, body["mcp_servers"]))
    return notice("info", "The agent gets other MCP servers when it starts next", names)


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Update | None]]] = {
    "stalled": _stalled,
    "progress_resumed": _resumed,
    "agent_restarting": _restarting,
    "session_stopped": _stopped,
    "spawn_refused": _spawn_refused,
    "warning": _warning,
    "notice": _notice,
    "session_changed": _changed,
}
