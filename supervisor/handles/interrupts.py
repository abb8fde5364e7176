"""Interrupts as callers request them: check the arguments, send the request, return the report."""

from __future__ import annotations

from typing import Literal

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.errors import ConfigError
from supervisor.core.ids import CallId, InputId, SessionId, TurnId
from supervisor.core.receipts import InterruptReport
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.core.state import Source
from supervisor.core.validation import check_choice, check_prompt, check_text, exact_str

from .arguments import check_scope
from .parts import Parts
from .submission import run_input_hooks


async def interrupt(
    parts: Parts,
    session_id: SessionId,
    scope: Scope,
    *,
    reason: str | None,
    replace_with: str | None,
    queued: Literal["keep", "cancel"],
    source: Source = "user",
) -> InterruptReport:
    """Interrupt a scope of a session and return the report; see `Session.interrupt`."""
    name = check_scope(scope)
    check_choice("queued", queued, Literal["keep", "cancel"])
    if reason is not None:
        reason = check_text("reason", reason)
    if replace_with is not None:
        check_prompt(replace_with)
    if isinstance(scope, ToolCall) and (replace_with is not None or queued == "cancel"):
        raise ConfigError(
            "replace_with and queued do not apply to the scope of a tool call",
            hint="interrupt the turn, or send the text",
        )
    began = trio.current_time()
    replacement = None if replace_with is None else InputId(parts.services.ids.new("in"))
    expires_at: float | None = None
    if replacement is not None and replace_with is not None:
        expires_at = await run_input_hooks(
            parts,
            session_id,
            replacement,
            exact_str(replace_with),
            when_busy="interrupt",
            source=source,
        )
    event = ev.InterruptRequested(
        turn=TurnId(exact_str(scope.id)) if isinstance(scope, TurnScope) else None,
        call=CallId(exact_str(scope.id)) if isinstance(scope, ToolCall) else None,
        whole=scope in ("session", "tree"),
        reason=reason,
        replacement=replacement,
        replacement_expires_at=expires_at,
        replace_with=None if replace_with is None else exact_str(replace_with),
        source=source,
        queued=queued,
        **parts.services.stamp(),
    )
    if scope == "tree":
        tree = ev.TreeInterruptRequested(interrupt=event, **parts.services.stamp())
        report = await parts.interrupter.interrupt_tree(session_id, tree)
    else:
        report = await parts.interrupter.interrupt(session_id, event, name)
    return attrs.evolve(report, seconds=trio.current_time() - began)
