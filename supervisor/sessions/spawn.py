"""Spawning of children: hooks, admission, one commit with the parent, start.

Rule 1: an admission check and its reservation are one step without an await.
Rule 2: if the caller is cancelled, the child is created completely or not at all.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import attrs

from supervisor.core import events as ev
from supervisor.core.creation import SessionSpec, SpawnInput, SpawnRequest
from supervisor.core.errors import (
    AgentUnknown,
    ConfigError,
    NameTaken,
    SpawnRefused,
    SupervisorError,
)
from supervisor.core.ids import InputId, SessionId
from supervisor.core.limits import Lineage
from supervisor.core.state import SessionState
from supervisor.core.tree.admission import (
    AdmissionRequest,
    inherited_terms,
    lower_bound,
    refuse_if_wider,
)
from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.store.port import Write

from .admission import Admission
from .hooks.blocking import BlockingHooks
from .idempotency import Idempotency, find_stored_spawn, spawn_scope, with_stored_reply
from .lifecycle import Lifecycle
from .process_slots import wait_for_process_slot
from .registry import SessionRegistry
from .router import SessionRouter
from .services import Services
from .workspaces import Workspaces

# The folders of the workspaces of a parent and of its child.
Roots: TypeAlias = tuple[WorkspaceRoot | None, WorkspaceRoot | None]


class Spawner:
    """Creates children: hooks, admission, one commit with the parent, start."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        router: SessionRouter,
        admission: Admission,
        lifecycle: Lifecycle,
        *,
        hooks: BlockingHooks,
        workspaces: Workspaces,
    ) -> None:
        self._services = services
        self._registry = registry
        self._router = router
        self._admission = admission
        self._lifecycle = lifecycle
        self._hooks = hooks
        self._workspaces = workspaces

    async def spawn(
        self,
        parent_id: SessionId,
        request: SpawnRequest,
        idempotency: Idempotency | None = None,
        *,
        inside: SessionId | None = None,
    ) -> SessionId:
        """Create a child and return its id when its agent is ready.

        Raise SpawnRefused if a limit or hook refuses the child, NameTaken if its name is taken in
        the tree, and AgentStartFailed if its agent does not start. `inside` is the session whose
        agent called; None for a user. With `idempotency`, a repeated request returns the child of
        the first.
        """
        services = self._services
        services.refuse_if_shutting_down()
        try:
            self._lifecycle.refuse_unknown_agent(request.spec.agent)
        except AgentUnknown as problem:
            if request.turn is not None:  # a user has the error and needs no record
                refusal = SpawnRefused(problem.args[0], hint=problem.hint, limit="agent")
                await services.detached_tasks.run_detached(
                    self._record_refusal, parent_id, request, refusal
                )
            raise
        if idempotency is None:
            return await services.detached_tasks.run_detached(
                self._spawn, parent_id, request, None, inside
            )
        name = f"spawn {parent_id} {idempotency.key}"
        return await services.detached_tasks.exclusive(
            name, self._spawn_once, parent_id, request, idempotency, inside
        )

    async def _spawn_once(
        self,
        parent_id: SessionId,
        request: SpawnRequest,
        idempotency: Idempotency,
        inside: SessionId | None,
    ) -> SessionId:
        made = await find_stored_spawn(self._services, parent_id, request, idempotency)
        return made or await self._spawn(parent_id, request, idempotency, inside)

    async def _spawn(
        self,
        parent_id: SessionId,
        request: SpawnRequest,
        idempotency: Idempotency | None,
        inside: SessionId | None,
    ) -> SessionId:
        services = self._services
        child_id = await self._lifecycle.draw_id()
        try:
            parent = await self._registry.row(parent_id)
            request = await self._hooks.before_spawn(parent, request)
            await wait_for_process_slot(
                services, self._registry, self._admission, request.spec.agent
            )
            roots = await self._find_roots(parent, request.spec)
            parent = await self._registry.row(parent_id)
            plan, first_input = self._admit(parent, child_id, request, roots, inside)
            write = self._lifecycle.creation_write(child_id, plan, first_input=first_input)
            write = with_stored_reply(write, spawn_scope(parent_id), idempotency)
            await self._commit(parent_id, child_id, request, write)
        except SpawnRefused as refusal:
            self._admission.release(child_id)
            await self._record_refusal(parent_id, request, refusal)
            raise
        except NameTaken as problem:
            self._admission.release(child_id)
            if request.turn is not None:  # a user has the error
                taken = SpawnRefused(problem.args[0], hint=problem.hint, limit="name")
                await self._record_refusal(parent_id, request, taken)
            raise
        except Exception:
            # Not on cancellation, which happens when the supervisor closes: then the child may be
            # written, and must keep its place in the tree.
            self._admission.release(child_id)
            raise
        self._lifecycle.publish_created(write)
        with self._registry.awaiting(inside, child_id):
            await self._lifecycle.start_and_wait(child_id)
        return child_id

    async def _find_roots(self, parent: SessionState, plan: SessionSpec) -> Roots:
        """Return the folders of the workspaces of the parent and of the child; raise SpawnRefused.

        The parent's must still be the folder that it was given.
        """
        try:
            outer = await self._workspaces.open(parent)
            return outer, await self._workspaces.find(plan.workspace)
        except ConfigError as error:
            raise SpawnRefused(error.args[0], hint=error.hint, limit="workspace") from error

    def _admit(
        self,
        parent: SessionState,
        child_id: SessionId,
        request: SpawnRequest,
        roots: Roots,
        inside: SessionId | None,
    ) -> tuple[SessionSpec, SpawnInput]:
        """Reserve a slot and a name for the child and return its spec and first input.

        Nothing is awaited in between (rule 1).
        """
        services, plan = self._services, request.spec
        terms = inherited_terms(parent.terms, plan.terms, request.explicit_terms)
        expires_at = None
        if request.ttl_seconds is not None:
            expires_at = services.clock.steady() + request.ttl_seconds
        if request.turn is not None:
            # An agent cannot grant its child more than it has itself.
            refuse_if_wider(parent.terms, terms, request.explicit_terms)
            expires_at = lower_bound(parent.lineage.expires_at, expires_at)
        admission_request = AdmissionRequest(
            agent=plan.agent,
            name=plan.name,
            role=request.role,
            lifetime=request.lifetime,
            on_end=request.on_end,
            limits=plan.limits,
            permissions=plan.permissions,
            agent_permissions=services.agents.defaults(plan.agent).permissions,
            workspace=plan.workspace,
            parent_root=roots[0],
            workspace_root=roots[1],
            expires_at=expires_at,
        )
        if terms.answers_for_children and not parent.terms.answers_for_children:
            raise SpawnRefused(
                f"parent {parent.id} may not answer for children itself",
                hint="omit answers_for_children, or create the parent with it",
                limit="permissions",
            )
        granted = self._admission.admit_child(parent, child_id, admission_request)
        self._admission.names.take(
            parent.lineage.root or parent.id,
            plan.name,
            child_id,
            may_name_holder=None if inside is None else partial(self._is_within, inside),
        )
        first_input = SpawnInput(InputId(services.ids.new("in")), request.text)
        lineage = Lineage(
            parent=parent.id,
            root=parent.lineage.root or parent.id,
            depth=granted.depth,
            role=request.role,
            lifetime=request.lifetime,
            expires_at=expires_at,
            input=first_input.input_id,
            on_end=request.on_end,
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
        return plan, first_input

    def _is_within(self, top: SessionId, session_id: SessionId) -> bool:
        """Return True if an agent of the session `top` may know of the other session."""
        return session_id == top or self._admission.is_descendant(session_id, top)

    async def _commit(
        self, parent_id: SessionId, child_id: SessionId, request: SpawnRequest, write: Write
    ) -> None:
        """Commit the child's first records together with the parent's record of its start."""
        services = self._services
        admitted = ev.ChildAdmitted(
            child=child_id,
            turn=request.turn,
            agent=request.spec.agent,
            name=request.spec.name,
            role=request.role,
            text=request.text,
            **services.stamp(),
        )
        try:
            await self._router.ask(parent_id, admitted, also=write)
        except SupervisorError:
            if await services.store.read(child_id) is None:
                raise
            # Committed by an incarnation of the parent that exited before it replied.

    async def _record_refusal(
        self, parent_id: SessionId, request: SpawnRequest, refusal: SpawnRefused
    ) -> None:
        """Record the refusal at the parent before the caller gets it, or later if that fails."""
        refusals = self._admission.spawn_refusals
        # One record per turn and limit, however often the agent tries.
        if request.turn is not None and not refusals.add(parent_id, request.turn, refusal.limit):
            return
        refused = ev.ChildRefused(
            agent=request.spec.agent,
            limit=refusal.limit,
            used=refusal.used,
            allowed=refusal.allowed,
            detail=refusal.args[0],
            **self._services.stamp(),
        )
        try:
            await self._router.ask(parent_id, refused)
        except SupervisorError:
            self._router.tell_eventually(parent_id, refused)
