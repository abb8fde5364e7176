"""Supervisors over a store in which no session runs, for reading and for maintenance.

`supervisor.open()` recovers every session and continues those that were active. Commands that only
list, export or clean up a file must not do that: with these functions no session gets an event and
no agent starts. A reader needs no lock, so it can read a file while another supervisor uses it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

import actors

from .config import Settings
from .core.errors import StoreDegraded
from .core.recovery import plan
from .drivers.builtin import BUILT_IN
from .drivers.process.contained import open_processes
from .drivers.runtime import DriverRuntime
from .handles.supervisor import Supervisor
from .runtime import build
from .sessions.services import make_services
from .sessions.tree_restore import restore_tree
from .store.pending import StoreHealth
from .store.port import Store
from .store.read_only_writer import ReadOnlyWriter
from .store.sqlite import schema
from .store.sqlite.files import resolve_path
from .store.sqlite.store import SqliteStore, open_sqlite
from .store.writer import Writer


@asynccontextmanager
async def open_for_reading(path: str) -> AsyncIterator[Supervisor]:
    """Open a file to read, also while another supervisor has it open, and yield a `Supervisor`.

    Without another supervisor, sessions are as the next recovery will leave them; nothing is
    written. Every method that would write raises `StoreDegraded`.
    """
    resolved = resolve_path(path)
    schema.refuse_unless_ours(resolved, may_be_new=True)
    health = StoreHealth()
    health.set_read_only(
        StoreDegraded(f"{resolved.name} is open read-only", hint="open it with supervisor.open()")
    )
    # Not opened: that would lock the file for writing. Reads have their own connections.
    store = SqliteStore(resolved)
    async with _open_offline(store, health, Settings(), lambda: ReadOnlyWriter(health)) as sup:
        yield sup


@asynccontextmanager
async def open_for_maintenance(path: str, settings: Settings) -> AsyncIterator[Supervisor]:
    """Open a file for import, repair or cleanup, and yield a `Supervisor`; create it if missing.

    Raise `StoreLocked` if another supervisor has the file open.
    """
    health = StoreHealth()
    async with (
        open_sqlite(path, snapshot_every=settings.snapshot_every) as store,
        _open_offline(store, health, settings, lambda: Writer(store, health)) as sup,
    ):
        yield sup


@asynccontextmanager
async def _open_offline(
    store: Store, health: StoreHealth, settings: Settings, make_writer: Callable[[], actors.Actor]
) -> AsyncIterator[Supervisor]:
    """Yield a supervisor that starts no session.

    An exception of the block is raised without an exception group.
    """
    failure: BaseException | None = None
    async with (
        actors.open_actors() as system,
        open_processes() as processes,
        trio.open_nursery() as nursery,
    ):
        writer = await system.start(make_writer, name="writer", restart="permanent")
        runtime = DriverRuntime(nursery, processes=processes)
        services = make_services(
            settings=settings,
            agents={agent.name: agent for agent in BUILT_IN},
            store=store,
            writer=writer,
            health=health,
            tasks=runtime,
            is_offline=True,
        )
        parts, keys = build(services, system)
        try:
            await parts.registry.open()
            for service in services.running:
                runtime.start_soon(service.run)
            resting, others = await store.startup_rows()
            rows = [one.row for one in others]
            if health.is_read_only:
                clock = services.clock
                last_seqs = {one.row.id: one.last_seq for one in others}
                found = plan(rows, at=clock.now(), steady_at=clock.steady(), last_seqs=last_seqs)
                if store.show_recovered(found.rows):
                    rows = list(found.rows.values())
            keys.restore(rows, resting)
            restore_tree(parts.admission, rows, {}, resting=resting, is_offline=True)
            yield Supervisor(parts)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failure = error
        parts.registry.close()
        runtime.close()
        nursery.cancel_scope.cancel(reason="the block has ended")
    if failure is not None:
        raise failure
