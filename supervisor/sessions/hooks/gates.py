"""Where hooks are asked: what they change is taken over, and their no becomes a typed error.

Rule 1: hooks are asked before anything is accepted, admitted or begun, and never inside an actor.
Rule 2: what comes back is checked as if a caller had asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from supervisor.core import events as ev
from supervisor.core.creation import Plan
from supervisor.core.effects import StartTurn
from supervisor.core.errors import InputRefused, PermissionDenied, SpawnRefused
from supervisor.core.ids import CallId, RequestId, SessionId, TurnId
from supervisor.core.permissions import at_root, within
from supervisor.core.rules.door import text_problem
from supervisor.core.session import Phase, Session

from . import Denied

if TYPE_CHECKING:
    from supervisor.sessions.desk.spawning import Order
    from supervisor.sessions.house.house import House

_HINT = "a hook of this supervisor will not have it; ask whoever runs it"


class Gates:
    """Asks the hooks of the house on behalf of whoever wants something."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def creating(self, plan: Plan) -> Plan:
        """The plan as hooks would have it; raises `PermissionDenied`."""
        if not self._house.hooks.has("session_create"):
            return plan
        limits = plan.limits or self._house.settings.limits
        try:
            taken = await self._house.hooks.ask(
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
                permissions=at_root(plan.permissions),
            )
        except Denied as denied:
            raise PermissionDenied(_words("the session", denied), hint=_HINT) from None
        names = ("name", "title", "tags", "custom", "limits", "permissions")
        return attrs.evolve(plan, **{name: taken[name] for name in names})

    async def resuming(self, session: Session) -> bool:
        """Whether the session may come back; raises `PermissionDenied` if a hook will not have it.

        Nobody is asked about one that is live: if it stops meanwhile, it may not, before they are.
        """
        if not self._house.hooks.has("session_resume"):
            return True
        if session.phase is not Phase.STOPPED:
            return False
        try:
            await self._house.hooks.ask(
                "session_resume",
                session_id=session.id,
                agent=session.agent_name,
                reason=session.stop_reason,
            )
        except Denied as denied:
            self._stop_if_asked(session.id, denied)  # somebody else may have brought it back
            raise PermissionDenied(_words("to resume it", denied), hint=_HINT) from None
        return True

    def asks_before_input(self) -> bool:
        """Whether anybody has a say before an input is accepted."""
        return self._house.hooks.has("input_submitted") or self._house.hooks.has("session_resume")

    async def submitting(
        self, session_id: SessionId, event: ev.InputSubmitted | ev.SteeringSubmitted
    ) -> float | None:
        """When the input expires, as hooks would have it; raises `InputRefused`."""
        if not self._house.hooks.has("input_submitted"):
            return event.expires_at
        if text_problem(await self._house.tree.row(session_id), event.text) is not None:
            return event.expires_at  # no input at all, as its session will say
        ttl = None if event.expires_at is None else event.expires_at - event.at
        submitted = event if isinstance(event, ev.InputSubmitted) else None
        try:
            taken = await self._house.hooks.ask(
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
            raise InputRefused(_words("the input", denied), hint=_HINT) from None
        ttl = taken["ttl_seconds"]
        return None if ttl is None else event.at + ttl

    async def spawning(self, parent: Session, order: Order) -> Order:
        """The order as hooks would have it; raises `SpawnRefused`."""
        if not self._house.hooks.has("spawn_before"):
            return order
        plan = order.plan
        try:
            taken = await self._house.hooks.ask(
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
                permissions=within(parent.permissions, plan.permissions),
            )
        except Denied as denied:
            self._stop_if_asked(parent.id, denied)
            raise SpawnRefused(_words("the child", denied), hint=_HINT, limit="hook") from None
        plan = attrs.evolve(plan, permissions=taken["permissions"])
        return attrs.evolve(order, plan=plan, ttl_seconds=taken["ttl_seconds"])

    def asks_before_turns(self) -> bool:
        """Whether a turn has to wait for anybody's say."""
        return self._house.hooks.has("turn_start") or self._house.hooks.has("prompt_assembled")

    async def starting(self, session: Session, order: StartTurn) -> StartTurn:
        """What the agent is to get; raises `Denied`. What is stored is what the user wrote."""
        turn = session.turn
        try:
            await self._house.hooks.ask(
                "turn_start",
                session_id=session.id,
                turn_id=order.turn,
                input_id=order.input,
                text=order.text,
                source="user" if turn is None else turn.source,
            )
            taken = await self._house.hooks.ask(
                "prompt_assembled",
                session_id=session.id,
                turn_id=order.turn,
                input_id=order.input,
                text=order.text,
                attachments=order.attachments,
            )
        except Denied as denied:
            if denied.stops:
                # On its way before anybody hears that the turn is over, and begins the next one;
                # and also if whoever waits for us is cancelled.
                await self._house.works.carry_through(
                    self._house.desk.order_stop, session.id, "hook_denied", denied.reason
                )
            raise
        return attrs.evolve(order, text=taken["text"], attachments=taken["attachments"])

    async def calling(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        call_id: CallId,
        name: str,
        given: Mapping[str, Any] | None,
    ) -> None:
        """Raises `PermissionDenied` if a hook keeps the agent from using a tool."""
        if not self._house.hooks.has("tool_before"):
            return
        try:
            await self._house.hooks.ask(
                "tool_before",
                session_id=session_id,
                turn_id=turn_id,
                call_id=call_id,
                name=name,
                input=given,
            )
        except Denied as denied:
            self._stop_if_asked(session_id, denied)
            raise PermissionDenied(_words(f"the tool {name!r}", denied), hint=_HINT) from None

    async def asking(
        self,
        session_id: SessionId,
        turn_id: TurnId,
        request_id: RequestId,
        request: Mapping[str, Any],
    ) -> str | None:
        """The hook that says no for the person, if one does."""
        if not self._house.hooks.has("permission"):
            return None
        try:
            await self._house.hooks.ask(
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
            self._house.desk.stop_soon(session_id, "hook_denied", denied.reason)


def _words(what: str, denied: Denied) -> str:
    return f"the hook {denied.hook} refuses {what}: {denied.reason}"
