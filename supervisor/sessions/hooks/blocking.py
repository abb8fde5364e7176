"""Calls of the blocking hooks: changes are applied, and a denial becomes a typed error.

Rule 1: hooks are called before an action is accepted, admitted or started, never inside an actor.
Rule 2: changed values pass the same checks as values from a caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from supervisor.config import Settings
from supervisor.core import events as ev
from supervisor.core.creation import SessionSpec, SpawnRequest
from supervisor.core.effects import StartTurn
from supervisor.core.endings import Cause
from supervisor.core.errors import InputRefused, PermissionDenied, SpawnRefused
from supervisor.core.ids import CallId, RequestId, SessionId, TurnId
from supervisor.core.permissions import narrow_to_parent, root_permissions
from supervisor.core.rules.refusals import text_problem
from supervisor.core.state import Phase, SessionState

from .dispatch import Hooks
from .hook import Denied

_HINT = "a hook of this supervisor denies it; ask its operator"


class BlockingHooks:
    """Calls the blocking hooks before an action is accepted, admitted or started.

    `read_row` returns a session's state; `stop` orders a stop without waiting; `wait_stop_ordered`
    returns when the stop is ordered, also if its caller is cancelled.
    """

    def __init__(
        self,
        hooks: Hooks,
        settings: Callable[[], Settings],
        *,
        read_row: Callable[[SessionId], Awaitable[SessionState]],
        stop: Callable[[SessionId, Cause, str | None], None],
        wait_stop_ordered: Callable[[SessionId, Cause, str | None], Awaitable[None]],
    ) -> None:
        self._hooks = hooks
        self._settings = settings
        self._read_row = read_row
        self._stop = stop
        self._wait_stop_ordered = wait_stop_ordered

    async def before_create(self, plan: SessionSpec) -> SessionSpec:
        """Return the spec with the changes of session_create hooks.

        Raise PermissionDenied if a hook denies.
        """
        if not self._hooks.has("session_create"):
            return plan
        limits = plan.limits or self._settings().limits
        try:
            taken = await self._hooks.ask(
                "session_create",
                session_id=None,
                agent=plan.agent,
                key=None if plan.key is None else str(plan.key),
                name=plan.name,
                title=plan.title,
                tags=plan.tags,
                custom=plan.custom,
                workspace=plan.workspace,
                limits=limits,
                permissions=root_permissions(plan.permissions),
            )
        except Denied as denied:
            raise PermissionDenied(_denial_text("the session", denied), hint=_HINT) from None
        names = ("name", "title", "tags", "custom", "limits", "permissions")
        return attrs.evolve(plan, **{name: taken[name] for name in names})

    async def before_resume(self, session: SessionState) -> bool:
        """Call session_resume hooks; return True if the session may resume.

        Raise PermissionDenied if a hook denies. Hooks are not called for a live session: the result
        is False, so a session that stops meanwhile is not resumed before its hooks are called.
        """
        if not self._hooks.has("session_resume"):
            return True
        if session.phase is not Phase.STOPPED:
            return False
        try:
            await self._hooks.ask(
                "session_resume",
                session_id=session.id,
                agent=session.agent_name,
                reason=session.stop_reason,
            )
        except Denied as denied:
            # Another caller may have resumed the session meanwhile.
            self._stop_if_asked(session.id, denied)
            raise PermissionDenied(_denial_text("to resume it", denied), hint=_HINT) from None
        return True

    async def before_input(
        self, session_id: SessionId, event: ev.InputSubmitted | ev.SteeringSubmitted
    ) -> float | None:
        """Return the expiry time after input_submitted hooks.

        Raise InputRefused if a hook denies.
        """
        if not self._hooks.has("input_submitted"):
            return event.expires_at
        if text_problem(await self._read_row(session_id), event.text) is not None:
            return event.expires_at  # the session will refuse this text itself
        ttl = None if event.expires_at is None else event.expires_at - event.steady_at
        submitted = event if isinstance(event, ev.InputSubmitted) else None
        try:
            taken = await self._hooks.ask(
                "input_submitted",
                session_id=session_id,
                input_id=event.input,
                text=event.text,
                attachments=submitted.attachments if submitted else (),
                when_busy=submitted.when_busy if submitted else "steer",
                source=event.source,
                ttl_seconds=ttl,
            )
        except Denied as denied:
            self._stop_if_asked(session_id, denied)
            raise InputRefused(_denial_text("the input", denied), hint=_HINT) from None
        ttl = taken["ttl_seconds"]
        return None if ttl is None else event.steady_at + ttl

    async def before_spawn(self, parent: SessionState, order: SpawnRequest) -> SpawnRequest:
        """Return the request with the changes of spawn_before hooks.

        Raise SpawnRefused if a hook denies.
        """
        if not self._hooks.has("spawn_before"):
            return order
        plan = order.spec
        try:
            taken = await self._hooks.ask(
                "spawn_before",
                session_id=parent.id,
                turn_id=None if parent.turn is None else parent.turn.id,
                agent=plan.agent,
                text=order.text,
                name=plan.name,
                role=order.role,
                lifetime=order.lifetime,
                on_end=order.on_end,
                ttl_seconds=order.ttl_seconds,
                permissions=narrow_to_parent(parent.permissions, plan.permissions),
            )
        except Denied as denied:
            self._stop_if_asked(parent.id, denied)
            raise SpawnRefused(
                _denial_text("the child", denied), hint=_HINT, limit="hook"
            ) from None
        plan = attrs.evolve(plan, permissions=taken["permissions"])
        return attrs.evolve(order, spec=plan, ttl_seconds=taken["ttl_seconds"])

    async def before_turn(self, session: SessionState, order: StartTurn) -> StartTurn:
        """Return the turn with the prompt as changed by hooks; raise Denied if a hook denies.

        The stored input keeps the text of the user.
        """
        turn = session.turn
        try:
            await self._hooks.ask(
                "turn_start",
                session_id=session.id,
                turn_id=order.turn,
                input_id=order.input,
                text=order.text,
                source="user" if turn is None else turn.source,
            )
            taken = await self._hooks.ask(
                "prompt_assembled",
                session_id=session.id,
                turn_id=order.turn,
                input_id=order.input,
                text=order.text,
                attachments=order.attachments,
            )
        except Denied as denied:
            if denied.stops:
                # The stop is ordered before the end of the turn is reported, which would start
                # the next turn; and also if the caller of this method is cancelled.
                await self._wait_stop_ordered(session.id, "hook_denied", denied.reason)
            raise
        return order.changed(text=taken["text"], attachments=taken["attachments"])

    async def before_tool_call(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        call_id: CallId,
        name: str,
        given: Mapping[str, Any] | None,
    ) -> None:
        """Call tool_before hooks; raise PermissionDenied if one denies the tool call."""
        if not self._hooks.has("tool_before"):
            return
        try:
            await self._hooks.ask(
                "tool_before",
                session_id=session_id,
                turn_id=turn_id,
                call_id=call_id,
                name=name,
                input=given,
            )
        except Denied as denied:
            self._stop_if_asked(session_id, denied)
            raise PermissionDenied(_denial_text(f"the tool {name!r}", denied), hint=_HINT) from None

    async def before_permission_request(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        request_id: RequestId,
        request: Mapping[str, Any],
    ) -> str | None:
        """Call permission hooks; return the name of the hook that rejects, or None."""
        if not self._hooks.has("permission"):
            return None
        try:
            await self._hooks.ask(
                "permission",
                session_id=session_id,
                turn_id=turn_id,
                request_id=request_id,
                **request,
            )
        except Denied as denied:
            self._stop_if_asked(session_id, denied)
            return denied.hook
        return None

    def _stop_if_asked(self, session_id: SessionId, denied: Denied) -> None:
        if denied.stops:
            self._stop(session_id, "hook_denied", denied.reason)


def _denial_text(what: str, denied: Denied) -> str:
    return f"the hook {denied.hook} refuses {what}: {denied.reason}"
