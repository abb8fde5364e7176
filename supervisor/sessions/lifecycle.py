"""Creation, replacement, resume and archiving of sessions.

Rule 1: an index changes in one synchronous step with the check that it depends on.
Rule 2: multi-step work runs to completion, even if its caller is cancelled.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message, SessionSpec, SpawnInput, create
from supervisor.core.errors import NotStorable, SessionNotActive, SessionNotFound, StoreDegraded
from supervisor.core.facts import Fact, number_facts
from supervisor.core.fold import fold
from supervisor.core.ids import SessionId, SessionKey
from supervisor.core.names import ROOT_SCOPE, held_name
from supervisor.core.state import Phase, SessionState
from supervisor.store.chunks import needs_chunks
from supervisor.store.pending import PendingWrite
from supervisor.store.port import Write
from supervisor.store.writer_messages import Commit, InsertChunked

from .admission import Admission
from .given_servers import McpServers
from .hooks.blocking import BlockingHooks
from .idempotency import CREATE_SCOPE, Idempotency, find_stored_reply, with_stored_reply
from .keys import KeyIndex
from .process_slots import wait_for_process_slot
from .refusals import no_reply, refuse_failed_start, store_degraded, unknown_agent_problem
from .registry import MAX_ATTEMPTS, SessionRegistry
from .router import SessionRouter
from .services import Services
from .workspaces import Workspaces


async def commit_write(services: Services, write: Write) -> None:
    """Make the write durable; raise the refusal, or an error if the outcome is unknown."""
    try:
        message = InsertChunked(write) if needs_chunks(write) else Commit(write)
        refusal = await services.writer.ask(message, timeout_seconds=math.inf)
    except Exception as error:
        # The outcome is unknown: the write may be durable although the writer failed.
        stored = await services.store.read(write.session_id)
        if stored is None:
            raise no_reply(write.session_id, error) from error
        return
    if isinstance(refusal, PendingWrite):
        refusal = store_degraded(services.health) if refusal.withdraw() else await refusal.wait()
    if refusal is not None:
        raise refusal


async def exclusive_by_key(
    services: Services,
    registry: SessionRegistry,
    session_id: SessionId,
    work: Callable[[SessionId, SessionKey | None], Awaitable[None]],
) -> None:
    """Run the work to completion while no other work changes the holder of the session's key."""
    key = (await registry.stored(session_id)).row.key
    name = f"session {session_id}" if key is None else str(key)
    await services.detached_tasks.exclusive(name, work, session_id, key)


class Lifecycle:
    """Creates, replaces, resumes and archives sessions."""

    def __init__(
        self,
        services: Services,
        registry: SessionRegistry,
        router: SessionRouter,
        admission: Admission,
        keys: KeyIndex,
        *,
        hooks: BlockingHooks,
        workspaces: Workspaces,
    ) -> None:
        self._services = services
        self._registry = registry
        self._router = router
        self._admission = admission
        self._keys = keys
        self._hooks = hooks
        self._workspaces = workspaces
        self._tasks = services.detached_tasks

    async def create(
        self,
        plan: SessionSpec,
        *,
        idempotency: Idempotency | None = None,
        mcp_servers: McpServers = (),
    ) -> SessionId:
        """Create a session, start it, and return its id when its agent is ready.

        Raise AgentUnknown, AgentStartFailed, KeyTaken or NameTaken; a cancelled caller leaves
        nothing half done. With `idempotency`, a repeated request returns the session of the first.
        `mcp_servers` are those whose names the plan has.
        """
        self._services.refuse_if_shutting_down()
        self.refuse_unknown_agent(plan.agent)
        if idempotency is not None:
            name = f"create {idempotency.key}"
            once = partial(self._create_once, mcp_servers=mcp_servers)
            return await self._tasks.exclusive(name, once, plan, idempotency)
        create = partial(self._create, mcp_servers=mcp_servers)
        if plan.key is not None:
            return await self._tasks.exclusive(str(plan.key), create, plan)
        return await self._tasks.run_detached(create, plan)

    async def fork(
        self,
        source: SessionState,
        plan: SessionSpec,
        said: Iterable[Message],
        *,
        name: str | None = None,
    ) -> SessionId:
        """Create a session like `create`, with a history and the workspace of another one.

        Without `name` it has the name of its plan, with a number if that is taken.
        Raise ConfigError if that workspace is no longer the folder that the source was given.
        """
        self._services.refuse_if_shutting_down()
        self.refuse_unknown_agent(plan.agent)
        if name is not None:
            plan = attrs.evolve(plan, name=name)
        create = partial(self._create, name_is_copied=name is None)
        return await self._tasks.run_detached(create, plan, None, tuple(said), source)

    async def _create_once(
        self, plan: SessionSpec, idempotency: Idempotency, *, mcp_servers: McpServers
    ) -> SessionId:
        made = await find_stored_reply(self._services.store, CREATE_SCOPE, idempotency)
        if made is not None:
            return made
        create = partial(self._create, mcp_servers=mcp_servers)
        if plan.key is not None:  # no other change of this key may run meanwhile
            return await self._tasks.exclusive(str(plan.key), create, plan, idempotency)
        return await create(plan, idempotency)

    async def _create(
        self,
        plan: SessionSpec,
        idempotency: Idempotency | None = None,
        said: tuple[Message, ...] = (),
        source: SessionState | None = None,
        *,
        name_is_copied: bool = False,
        mcp_servers: McpServers = (),
    ) -> SessionId:
        plan = await self._hooks.before_create(plan)
        await wait_for_process_slot(self._services, self._registry, self._admission, plan.agent)
        if source is not None and plan.workspace == source.workspace:
            # The checked folder itself is pinned: a second look might find another one.
            root = await self._workspaces.open(source)
        else:
            root = await self._workspaces.find(plan.workspace)
        session_id = await self.draw_id()
        if name_is_copied:
            plan = attrs.evolve(plan, name=self._admission.names.free_name(ROOT_SCOPE, plan.name))
        write = with_stored_reply(
            self.creation_write(session_id, plan, said), CREATE_SCOPE, idempotency
        )
        if plan.key is not None:
            self._keys.reserve(plan.key, session_id)
        try:
            self._admission.admit_root(session_id, plan.agent, root, name=plan.name)
            await commit_write(self._services, write)
        except BaseException:
            self._keys.release(plan.key, session_id)
            self._admission.release(session_id)
            raise
        self._services.given_servers.put(session_id, mcp_servers)
        self.publish_created(write)
        await self.start_and_wait(session_id)
        return session_id

    async def draw_id(self) -> SessionId:
        """Return a new id that no stored session has."""
        while True:
            drawn = SessionId(self._services.ids.new("s"))
            if not await self._registry.exists(drawn):
                return drawn

    def publish_created(self, write: Write) -> None:
        """Publish the records of a created session to the supervisor-wide readers."""
        self._services.publisher.publish(write.records, None)

    async def start_and_wait(self, session_id: SessionId) -> None:
        """Start the session and wait until its agent is ready; raise AgentStartFailed."""
        await self._start_with_retry(session_id)
        session = await self._registry.wait_until(
            session_id, lambda session: session.phase is not Phase.STARTING
        )
        refuse_failed_start(session)

    async def _start_with_retry(self, session_id: SessionId) -> None:
        """Start the actor; try again if it exits during its start."""
        problem: Exception | None = None
        for _ in range(MAX_ATTEMPTS):
            try:
                await self._registry.get_or_start(session_id)
            except (SessionNotFound, SessionNotActive):
                raise
            except StoreDegraded:
                # The session is stored, so it starts when the store recovers.
                self._registry.retry_start(session_id)
                raise
            except Exception as error:  # noqa: BLE001 - the actor exited during its start
                problem = error
            else:
                return
        raise no_reply(session_id, problem)

    def creation_write(
        self,
        session_id: SessionId,
        plan: SessionSpec,
        said: Iterable[Message] = (),
        first_input: SpawnInput | None = None,
    ) -> Write:
        """Return the write that creates the session."""
        at = self._services.clock.now()
        session, facts = create(session_id, plan, at=at, messages=said, first_input=first_input)
        return Write(session_id, 0, number_facts(session_id, facts, after=0), session)

    async def get_or_create(self, key: SessionKey, plan: SessionSpec) -> SessionId:
        """Return the holder of the key, in any phase; create one session if it has none."""
        self._services.refuse_if_closed()
        name = str(key)
        await self._tasks.wait_for_change(name)
        holder = self._keys.holder(name)
        if holder is not None:
            await trio.lowlevel.checkpoint()
            return holder
        self._services.refuse_if_shutting_down()
        self.refuse_unknown_agent(plan.agent)
        return await self._tasks.exclusive(name, self._create, plan)

    def holder(self, key: SessionKey) -> SessionId | None:
        """Return the session that holds the key."""
        return self._keys.holder(key)

    async def replace(
        self, key: SessionKey, make_plan: Callable[[str | None], SessionSpec]
    ) -> SessionId:
        """Archive the holder of the key and create another session, in one commit.

        `make_plan` gets the name of the old session's agent, or None if the key had no holder.
        """
        self._services.refuse_if_shutting_down()
        return await self._tasks.exclusive(str(key), self._replace, key, make_plan)

    async def _replace(
        self, key: SessionKey, make_plan: Callable[[str | None], SessionSpec]
    ) -> SessionId:
        old = self._keys.holder(key)
        if old is None:
            plan = make_plan(None)
            self.refuse_unknown_agent(plan.agent)
            return await self._create(plan)
        stored = await self._services.store.read(old)
        plan = make_plan(stored.row.agent_name if stored is not None else None)
        self.refuse_unknown_agent(plan.agent)
        plan = await self._hooks.before_create(plan)
        root = await self._workspaces.find(plan.workspace)
        session_id = await self.draw_id()
        self._services.removals.add(old)
        write = self.creation_write(session_id, attrs.evolve(plan, key=key))
        try:
            self._admission.admit_root(session_id, plan.agent, root, name=plan.name, replacing=old)
            await self._stop_and_archive(old, also=write)
        except BaseException:
            self._admission.release(session_id)
            raise
        finally:
            self._services.removals.discard((old,))
        self._keys.assign(key, session_id)
        self.publish_created(write)
        await self.start_and_wait(session_id)
        return session_id

    async def _stop_and_archive(self, old: SessionId, *, also: Write) -> None:
        """Stop and archive the session in one commit with `also`; retry if its actor exits."""
        for _ in range(MAX_ATTEMPTS):
            await self._router.stop(old, "replaced")
            if await self._services.store.read(also.session_id) is not None:
                return  # committed by an incarnation that exited before it replied
            try:
                await self._router.ask(
                    old, ev.ArchiveRequested(**self._services.stamp()), also=also
                )
            except (SessionNotActive, NotStorable):
                continue
            return
        raise no_reply(old, None)

    async def resume(self, session_id: SessionId) -> None:
        """Resume a stopped session; return when its agent is ready, or raise AgentStartFailed."""
        self._services.refuse_if_shutting_down()
        row = (await self._registry.stored(session_id)).row
        self._keys.refuse_if_taken(row)
        if row.phase is Phase.STOPPED:  # the user accepts the folder that is there now
            self._admission.tree.unpin_workspace(session_id)
        await self._router.ask_resuming(session_id, ev.ResumeRequested(**self._services.stamp()))
        await self.start_and_wait(session_id)

    def refuse_unknown_agent(self, name: str) -> None:
        """Raise AgentUnknown if no agent of that name is registered."""
        problem = unknown_agent_problem(name, self._services.agents)
        if problem is not None:
            raise problem

    # Archiving and deleting -----------------------------------------------------------------

    async def archive(self, session_id: SessionId) -> None:
        """Make the session read-only and release its key."""
        await exclusive_by_key(self._services, self._registry, session_id, self._archive)

    async def _archive(self, session_id: SessionId, key: SessionKey | None) -> None:
        await self._router.ask(session_id, ev.ArchiveRequested(**self._services.stamp()))
        self._keys.release(key, session_id)

    async def unarchive(self, session_id: SessionId) -> None:
        """Make the session writable again; raise if another session holds its key or name."""
        await exclusive_by_key(self._services, self._registry, session_id, self._unarchive)

    async def _unarchive(self, session_id: SessionId, key: SessionKey | None) -> None:
        if key is not None:
            self._keys.reserve(key, session_id)
        try:
            await self._router.ask(session_id, ev.UnarchiveRequested(**self._services.stamp()))
        finally:
            if (await self._registry.stored(session_id)).row.archived:
                self._keys.release(key, session_id)

    async def store_import(self, write: Write) -> None:
        """Write an imported session; it is complete and stopped, so it needs no admission.

        If its name is taken, a number is added to it.
        """
        assert write.row is not None
        names = self._admission.names
        name = names.free_name(ROOT_SCOPE, held_name(write.row))
        if name != held_name(write.row):
            fact = Fact("session_changed", write.row.updated_at, {"name": name})
            renamed = number_facts(write.session_id, [fact], after=len(write.records))
            write = write.changed(records=(*write.records, *renamed), row=fold(write.row, fact))
        names.take(ROOT_SCOPE, name, write.session_id)
        try:
            await commit_write(self._services, write)
        except BaseException:
            names.forget(write.session_id)
            raise
        # Only the feeds read it: hooks, inbox and instruments must not take old records for new.
        self._services.feeds.notify()
