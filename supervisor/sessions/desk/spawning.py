"""How a session comes to have children: asked, admitted, begun in one commit, brought up.

Rule 1: between the check at the desk and the place it gives there is no await.
Rule 2: whoever gives up waiting leaves nothing half done: the child is, or it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from supervisor.core import events as ev
from supervisor.core.creation import Errand, Plan
from supervisor.core.errors import SpawnRefused, SupervisorError
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.session import Lifetime, Lineage, OnEnd, Session
from supervisor.core.tree.admission import Wish
from supervisor.core.tree.heritage import earlier, refuse_if_wider, terms_of_child
from supervisor.sessions.register import keeping
from supervisor.sessions.shell.repeats import Idempotency
from supervisor.store.port import Write

from .room import wait_for_room

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


@attrs.frozen(kw_only=True)
class Order:
    """A child that somebody wants: what it is to be, and what it is to do first."""

    plan: Plan
    text: str
    role: str | None = "worker"
    lifetime: Lifetime = "with_parent"
    on_end: OnEnd = "tell"
    ttl_seconds: float | None = None
    # Which of the plan's terms were asked for; the others are those of the parent.
    chosen: frozenset[str] = frozenset()
    # The turn whose agent asks for it, if one does.
    turn: TurnId | None = None


class Spawning:
    """Makes children; one for the house."""

    def __init__(self, house: House) -> None:
        self._house = house
        # Of sessions whose agents were refused something: in which turn, and by which limits.
        self._refused: dict[SessionId, tuple[TurnId, set[str]]] = {}

    def forget(self, session_id: SessionId) -> None:
        """Nothing is left of the session."""
        self._refused.pop(session_id, None)

    async def spawn(
        self,
        parent_id: SessionId,
        order: Order,
        idempotency: Idempotency | None = None,
        *,
        inside: SessionId | None = None,
    ) -> SessionId:
        """The id of the child, once its agent is up; raises `SpawnRefused` or why it is not.

        `inside` is the session whose agent asks for it, if one does.
        """
        house = self._house
        house.tree.refuse_if_leaving()
        house.register.refuse_unknown_agent(order.plan.agent)
        if idempotency is None:
            return await house.works.carry_through(self._spawn, parent_id, order, None, inside)
        name = f"spawn {parent_id} {idempotency.key}"
        return await house.register.alone(
            name, self._spawn_once, parent_id, order, idempotency, inside
        )

    async def _spawn_once(
        self,
        parent_id: SessionId,
        order: Order,
        idempotency: Idempotency,
        inside: SessionId | None,
    ) -> SessionId:
        made = await self._house.register.made_before(_scope(parent_id), idempotency)
        return made or await self._spawn(parent_id, order, idempotency, inside)

    async def _spawn(
        self,
        parent_id: SessionId,
        order: Order,
        idempotency: Idempotency | None,
        inside: SessionId | None,
    ) -> SessionId:
        house = self._house
        child_id = SessionId(house.ids.new("s"))
        try:
            order = await house.gates.spawning(await house.tree.row(parent_id), order)
            await wait_for_room(house, order.plan.agent)
            parent = await house.tree.row(parent_id)
            plan, errand = self._admit(parent, child_id, order)
            write = house.register.creation(child_id, plan, errand=errand)
            write = keeping(write, _scope(parent_id), idempotency)
            await self._begin(parent_id, child_id, order, write)
        except SpawnRefused as refusal:
            house.desk.withdraw(child_id)
            await self._note_refusal(parent_id, order, refusal)
            raise
        except Exception:
            # Not if it is cut short, which happens when the supervisor leaves: then nobody knows
            # whether it was written, and what may be there has its place.
            house.desk.withdraw(child_id)
            raise
        house.register.announce(write)
        with house.tree.awaiting(inside, child_id):
            await house.register.bring_up(child_id)
        return child_id

    def _admit(self, parent: Session, child_id: SessionId, order: Order) -> tuple[Plan, Errand]:
        """Take a place for it, and say what it will be; nothing in here waits."""
        house, plan = self._house, order.plan
        terms = terms_of_child(parent.terms, plan.terms, order.chosen)
        expires_at = None
        if order.ttl_seconds is not None:
            expires_at = house.clock.now() + order.ttl_seconds
        if order.turn is not None:
            # What its agent may hand on is what it was given itself.
            refuse_if_wider(parent.terms, terms, order.chosen)
            expires_at = earlier(parent.lineage.expires_at, expires_at)
        wish = Wish(
            agent=plan.agent,
            name=plan.name,
            role=order.role,
            lifetime=order.lifetime,
            on_end=order.on_end,
            limits=plan.limits,
            permissions=plan.permissions,
            most=house.confinement(plan.agent).permissions,
            workspace=plan.workspace,
            expires_at=expires_at,
        )
        if terms.answers_for_children and not parent.terms.answers_for_children:
            raise SpawnRefused(
                "its parent may not answer for children itself",
                hint="leave answers_for_children out, or give it to the parent first",
                limit="permissions",
            )
        granted = house.desk.admit_child(parent, child_id, wish)
        errand = Errand(InputId(house.ids.new("in")), order.text)
        lineage = Lineage(
            parent=parent.id,
            root=parent.lineage.root or parent.id,
            depth=granted.depth,
            role=order.role,
            lifetime=order.lifetime,
            expires_at=expires_at,
            input=errand.input_id,
            on_end=order.on_end,
            above=(*(parent.lineage.above or ()), parent.id),
        )
        plan = attrs.evolve(
            plan,
            kind="spawned",
            lineage=lineage,
            terms=terms,
            limits=granted.limits,
            permissions=granted.permissions,
            workspace=granted.workspace,
        )
        return plan, errand

    async def _begin(
        self, parent_id: SessionId, child_id: SessionId, order: Order, write: Write
    ) -> None:
        """Write down that the child begins, at the parent and at the child, both or neither."""
        house = self._house
        admitted = ev.ChildAdmitted(
            child=child_id,
            turn=order.turn,
            agent=order.plan.agent,
            name=order.plan.name,
            role=order.role,
            text=order.text,
            **house.stamp(),
        )
        try:
            await house.lines.ask(parent_id, admitted, also=write)
        except SupervisorError:
            if await house.store.read(child_id) is None:
                raise
            # Done by an incarnation of the parent that could not say so.

    async def _note_refusal(
        self, parent_id: SessionId, order: Order, refusal: SpawnRefused
    ) -> None:
        """Have it on record before whoever asked hears of it; or later, if that cannot be."""
        if order.turn is not None:
            # An agent that tries again and again says no more by that.
            known = self._refused.setdefault(parent_id, (order.turn, set()))
            if known[0] != order.turn:
                known = self._refused[parent_id] = (order.turn, set())
            if refusal.limit in known[1]:
                return
            known[1].add(refusal.limit)
        refused = ev.ChildRefused(
            agent=order.plan.agent,
            limit=refusal.limit,
            used=refusal.used,
            allowed=refusal.allowed,
            detail=refusal.args[0],
            **self._house.stamp(),
        )
        try:
            await self._house.lines.ask(parent_id, refused)
        except SupervisorError:
            self._house.lines.tell_surely(parent_id, refused)


def _scope(parent_id: SessionId) -> str:
    """Where the answers to a parent's spawns are kept; no session has an id like that."""
    return f"{parent_id}/spawn"
