"""The composition root: builds the parts of a supervisor, recovers, runs and shuts down."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

import actors

from .config import Settings
from .core.creation import SpawnOptions
from .core.endings import Cause
from .core.errors import ConfigError, short_repr
from .core.ids import SessionId
from .core.state import SessionState
from .core.tree.tree import SessionTree
from .drivers.port import AgentKind, ChildHandle, TurnHandle
from .drivers.process.contained import open_processes
from .drivers.process.processes import Processes
from .drivers.runtime import DriverRuntime
from .drivers.watchdog import uses_real_clock, watch_event_loop
from .handles.arguments import check_path
from .handles.child import Child
from .handles.live_rows import LiveRows
from .handles.parts import Parts
from .handles.session import Session
from .handles.supervisor import Supervisor
from .mcp_server.tool import Toolbox
from .mcp_server.tools_service import ToolsService
from .sessions.actor import SessionActor
from .sessions.admission import Admission
from .sessions.agents_cell import AgentSource
from .sessions.deletion import Deletion
from .sessions.driver_context import SessionDriverContext
from .sessions.hooks.blocking import BlockingHooks
from .sessions.interrupter import Interrupter
from .sessions.keys import KeyIndex
from .sessions.lifecycle import Lifecycle
from .sessions.liveness import Liveness
from .sessions.log import Log
from .sessions.process_slots import evict_idle_process
from .sessions.recovery import Recovery
from .sessions.registry import SessionRegistry
from .sessions.reload import agents_by_name
from .sessions.repair import SessionRepair
from .sessions.router import SessionRouter
from .sessions.services import Services, make_services, process_agents
from .sessions.shutdown import check_store, drain, wait_for_zombies
from .sessions.slot import SessionSlot
from .sessions.spawn import Spawner
from .sessions.store_health import check_damage, on_health_change, watch_file
from .sessions.tree_access import TreeAccess
from .sessions.workspaces import Workspaces
from .store.memory import MemoryStore
from .store.pending import StoreHealth
from .store.port import Store
from .store.read_only_writer import ReadOnlyWriter
from .store.sqlite.files import read_only_problem, resolve_path
from .store.sqlite.schema import refuse_unless_ours
from .store.sqlite.store import SqliteStore, open_sqlite, restore_store
from .store.writer import Writer

MakeToolbox: TypeAlias = Callable[[Supervisor], Toolbox]

# Time in which observers get the notifications of the shutdown.
_LAST_NOTIFICATIONS_SECONDS = 5.0
# For the last attempt to write, if the store does not answer.
_FAILING_WRITER_SECONDS = 1.0
# Never reached: the write throttle bounds other writes, and each session has at most one.
WRITER_CAPACITY = 100_000


@asynccontextmanager
async def open(  # noqa: A001 - public as supervisor.open
    path: str | os.PathLike[str] = ":memory:",
    *,
    agents: Iterable[AgentKind] = (),
    settings: Settings | None = None,
    agent_source: AgentSource | None = None,
) -> AsyncIterator[Supervisor]:
    """Open a store, a file or `:memory:`, and yield its `Supervisor`.

    Sessions that were active continue. Leaving the block refuses new work, lets running turns end
    within `exit_seconds`, interrupts the rest and suspends all sessions. If the block raises or is
    cancelled, turns are interrupted at once. An exception of the block is raised without an
    exception group. A file that cannot be written is opened read-only. A name that none of `agents`
    has is looked up in `agent_source`, which the daemon uses for installed presets.

    Raise `ConfigError` for an invalid argument, `StoreLocked` if another supervisor has the file
    open, `StoreTooNew` if a newer version wrote it, and `StoreDegraded` if the file is empty or
    overwritten and was a store, or if the disk has no room to open it (`is_disk_full`).
    """
    if not trio.lowlevel.in_trio_task():
        raise ConfigError(
            "supervisor.open() needs trio: sessions run on no other event loop",
            hint="run the program with trio.run(); or start a daemon with `understudy serve` and"
            " use supervisor.connect(), which works on asyncio too",
        )
    if settings is None:
        settings = Settings()
    elif not isinstance(settings, Settings):
        raise ConfigError(
            f"settings is {short_repr(settings)}", hint="give supervisor.Settings(...)"
        )
    async with open_with_tools(
        path, agents=agents, settings=settings, agent_source=agent_source
    ) as (sup, _):
        yield sup


@asynccontextmanager
async def open_with_tools(
    path: str | os.PathLike[str],
    *,
    agents: Iterable[AgentKind] = (),
    settings: Settings,
    agent_source: AgentSource | None = None,
    make_toolbox: MakeToolbox | None = None,
    tools_socket: Path | None = None,
) -> AsyncIterator[tuple[Supervisor, ToolsService]]:
    """Do what `open` does, and yield the supervisor with the tools of its agents.

    `make_toolbox` replaces the tools. `tools_socket` is the path of the agents' socket, which is
    otherwise in a private temporary folder.
    """
    known = agents_by_name(agents)
    failure: BaseException | None = None
    # Started last, stopped first: the store outlives the writer, the writer outlives its clients.
    async with (
        _open_store(path, settings) as (store, health),
        actors.open_actors() as system,
        open_processes() as processes,
        trio.open_nursery() as outer,
    ):
        writer = await system.start(
            lambda: ReadOnlyWriter(health) if health.is_read_only else Writer(store, health),
            name="writer",
            restart="permanent",
            capacity=WRITER_CAPACITY,
        )
        runtime: DriverRuntime = await outer.start(_run_tasks, settings, processes)
        try:
            services = make_services(
                settings=settings,
                agents=known,
                store=store,
                writer=writer,
                health=health,
                tasks=runtime,
                agent_source=agent_source,
            )
            await store.note_clock(services.clock.reading())
            parts, keys = build(services, system)
            registry = parts.registry
            sup = Supervisor(parts)
            tools = ToolsService(
                partial(make_toolbox or _session_tools, sup),
                epoch_of=sup.introspect().epoch_of,
                start_soon=runtime.start_soon,
                socket_path=tools_socket,
            )
            runtime.agent_tools = tools.hand_over
            await registry.open()
            for service in services.running:
                runtime.start_soon(service.run)
            runtime.start_soon(watch_file, services)
            with watch_event_loop(known.values()):
                try:
                    recovery = Recovery(services, registry, parts.router, parts.admission, keys)
                    await recovery.begin()
                    runtime.start_soon(recovery.finish)
                    yield sup, tools
                except BaseException as error:  # noqa: BLE001 - raised again below
                    failure = error
                try:
                    await _shut_down(services, registry, is_graceful=failure is None)
                except BaseException as error:  # noqa: BLE001 - Ctrl-C or a cancellation
                    failure = failure or error
        finally:
            runtime.close()
    if failure is not None:
        raise failure


def _session_tools(sup: Supervisor) -> Toolbox:
    from .mcp_server.session_tools import SessionTools  # noqa: PLC0415 - needed by the first call

    return SessionTools(sup)


def build(services: Services, group: actors.Group) -> tuple[Parts, KeyIndex]:
    """Return the parts of a supervisor; each line uses only lines above it.

    The inner functions are the forward references: they run after all parts exist.
    """

    def make_child(session_id: SessionId, above: SessionId, turn: TurnHandle) -> ChildHandle:
        return Child(Session(parts, session_id, caller=above), turn)

    async def spawn_child(
        session_id: SessionId, turn: TurnHandle, agent: str, text: str, options: SpawnOptions
    ) -> ChildHandle:
        parent = Session(parts, session_id, caller=session_id, turn=turn.id)
        made = await parent.spawn(agent, text, **options)
        return make_child(made.id, session_id, turn)

    def make_context(
        slot: SessionSlot, log: Log, ref: actors.Ref, state: Callable[[], SessionState]
    ) -> SessionDriverContext:
        return SessionDriverContext(slot, services, log, ref, state, tree=access, hooks=hooks)

    def make_actor(slot: SessionSlot) -> SessionActor:
        return SessionActor(
            slot,
            services,
            admission,
            liveness=liveness,
            hooks=hooks,
            make_context=make_context,
            schedule_input_expiry=schedule_input_expiry,
        )

    def stop(session_id: SessionId, cause: Cause, detail: str | None) -> None:
        services.tasks.start_soon(router.order_stop_with_retry, session_id, cause, detail)

    async def wait_stop_ordered(session_id: SessionId, cause: Cause, detail: str | None) -> None:
        await services.detached_tasks.run_detached(
            router.order_stop_with_retry, session_id, cause, detail
        )

    registry = SessionRegistry(services, group, make_actor)
    liveness = Liveness(services, registry.find_slot)
    hooks = BlockingHooks(
        services.hooks,
        services.settings,
        read_row=registry.row,
        stop=stop,
        wait_stop_ordered=wait_stop_ordered,
    )
    tree = SessionTree(process_agents(services.agents()))
    admission = Admission(services, tree, registry, stop=stop)
    router = SessionRouter(services, registry, admission, hooks)
    keys = KeyIndex()
    # One bound method for all actors: each would take 64 bytes.
    schedule_input_expiry = router.input_expiry.schedule
    workspaces = Workspaces(tree, services.thread_limiter)
    lifecycle = Lifecycle(
        services, registry, router, admission, keys, hooks=hooks, workspaces=workspaces
    )
    spawner = Spawner(
        services, registry, router, admission, lifecycle, hooks=hooks, workspaces=workspaces
    )
    repair = SessionRepair(services, registry, router, admission, keys, stop=stop)
    deletion = Deletion(services, registry, router, admission, keys, repair=repair)
    access = TreeAccess(
        services, admission, router, child=make_child, spawn=spawn_child, workspaces=workspaces
    )
    interrupter = Interrupter(services, registry, router, admission)
    parts = Parts(
        services,
        registry,
        router,
        admission,
        lifecycle,
        spawner,
        deletion,
        repair,
        hooks,
        interrupter,
        LiveRows(services, registry, admission),
    )
    # The store and the drivers exist before the parts that they call.
    services.health.set_on_change(partial(on_health_change, services, router.order_postponed_stops))
    services.agents.set_on_found(
        lambda: admission.set_process_agents(process_agents(services.agents()))
    )
    services.tasks.set_eviction(partial(evict_idle_process, services, registry, admission))
    return parts, keys


async def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path | None:
    """Replace a store that is not open by a backup; return the new path of the old store, if any.

    Raise `StoreLocked` while a supervisor has the store open, `ConfigError` if the file is not a
    sound backup, and `StoreTooNew` if a newer version wrote it.
    """
    return await restore_store(check_path("backup", backup), check_path("path", path))


@asynccontextmanager
async def _open_store(
    path: str | os.PathLike[str], settings: Settings
) -> AsyncIterator[tuple[Store, StoreHealth]]:
    """Open a store, a file or `:memory:`, and yield it with its health."""
    health = StoreHealth()
    if path == ":memory:":
        yield MemoryStore(), health
        return
    resolved = resolve_path(check_path("path", path))
    problem = read_only_problem(resolved)
    if problem is None:
        every = settings.snapshot_every
        # A simulation replaces the threads of trio and controls no others.
        async with (
            open_sqlite(
                resolved, snapshot_every=every, dedicated_thread=uses_real_clock()
            ) as store,
            check_damage(store, health),
        ):
            yield store, health
        return
    refuse_unless_ours(resolved, may_be_new=True)
    health.set_read_only(problem)
    # Not opened: that would lock the file for writing. Reads have their own connections.
    store = SqliteStore(resolved)
    try:
        yield store, health
    finally:
        with trio.CancelScope(shield=True):
            await store.close()


async def _run_tasks(
    settings: Settings, processes: Processes, task_status: trio.TaskStatus[DriverRuntime]
) -> None:
    """Run the tasks of the supervisor, which a cancellation of the block does not reach.

    So the shutdown is in order. `DriverRuntime.close()` always cancels the tasks at the end. A task
    that fails ends all others, and cancels the block.
    """
    # Before the shield: if this task is cancelled already, `started` below does not return the
    # runtime to the caller, and nothing could cancel this task behind the shield.
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            runtime = DriverRuntime(
                nursery,
                processes=processes,
                max_agent_processes=settings.max_agent_processes,
                start_concurrency=settings.start_concurrency,
                max_unfinished_line_bytes=settings.max_pending_output_bytes,
            )
            # Closed with the nursery, in which no task can be started after that.
            nursery.start_soon(runtime.close_when_cancelled)
            task_status.started(runtime)


async def _shut_down(services: Services, registry: SessionRegistry, *, is_graceful: bool) -> None:
    """Drain and close, even if cancelled; only the wait for zombies is unbounded.

    After the failure of a task or of the writer nothing could be drained.
    """
    patience = services.settings().exit_seconds if is_graceful else 0.0
    has_failed = services.tasks.is_closed or services.writer.statistics().state == "stopped"
    try:
        if not has_failed:
            with trio.CancelScope(shield=not is_graceful):
                await drain(services, registry, patience_seconds=patience)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await drain(services, registry, patience_seconds=0.0)
        raise
    finally:
        registry.close()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(min(patience, _LAST_NOTIFICATIONS_SECONDS)):
                await services.hooks.wait_delivered()
            await wait_for_zombies(services)
            await check_store(services)  # the steps that follow wait for it
        if services.shutdown.has_store_failed:
            services.writer.stop_nowait(within_seconds=_FAILING_WRITER_SECONDS)
