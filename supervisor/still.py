"""A store with nobody at home: sessions can be looked at and kept, and none of them moves.

`supervisor.open()` gives every session its fate and has those go on that were at something. Whoever
only wants to list a file, export from it or clear it up wants none of that. Here no session is told
anything, no agent starts, and a reader does not even need the lock, so it may look while another
supervisor is at work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

import actors

from .config import Settings
from .core.errors import StoreDegraded
from .drivers.builtin import BUILT_IN
from .drivers.port import Workshop
from .drivers.process.contained import ContainedProcesses
from .sessions.house.house import House
from .sessions.surface.child import Child
from .sessions.surface.handle import Session
from .sessions.surface.supervisor import Supervisor
from .store.port import Store
from .store.sqlite import schema
from .store.sqlite.files import whole_path
from .store.sqlite.store import SqliteStore, open_sqlite
from .store.writer import Writer
from .store.writer.health import Health
from .store.writer.unwritten import NoWriter


@asynccontextmanager
async def open_for_reading(path: str) -> AsyncIterator[Supervisor]:
    """Look into a file, whoever has it open. Whatever would write raises `StoreDegraded`."""
    whole = whole_path(path)
    schema.refuse_unless_ours(whole, may_be_new=True)
    health = Health()
    health.give_up(
        StoreDegraded(f"{whole.name} is only being read", hint="open it with supervisor.open()")
    )
    # Never opened: that would take the pen. What reads has connections of its own.
    store = SqliteStore(whole)
    async with _still(store, health, Settings(), lambda: NoWriter(health)) as sup:
        yield sup


@asynccontextmanager
async def open_for_keeping(path: str, settings: Settings) -> AsyncIterator[Supervisor]:
    """Change what is in a file (import, repair, cleanup) while nobody else has it open.

    Made if there is none. Raises `StoreLocked`.
    """
    health = Health()
    async with (
        open_sqlite(path, snapshot_every=settings.snapshot_every) as store,
        _still(store, health, settings, lambda: Writer(store, health)) as sup,
    ):
        yield sup


@asynccontextmanager
async def _still(
    store: Store, health: Health, settings: Settings, make_writer: Callable[[], actors.Actor]
) -> AsyncIterator[Supervisor]:
    """A house in which nothing is set in motion. What the block raises is raised bare."""
    failure: BaseException | None = None
    async with actors.open_actors() as system, trio.open_nursery() as nursery:
        writer = await system.start(make_writer, name="writer", restart="permanent")
        workshop = Workshop(nursery, processes=ContainedProcesses())
        house = House(
            settings=settings,
            agents={agent.name: agent for agent in BUILT_IN},
            store=store,
            writer=writer,
            health=health,
            system=system,
            workshop=workshop,
            make_handle=Session,
            make_child=Child,
        )
        house.is_still = True
        try:
            await house.tree.open()
            workshop.start_soon(house.timers.run)
            workshop.start_soon(house.scribe.run)
            workshop.start_soon(house.hooks.run)
            resting, others = await store.at_start()
            rows = [one.row for one in others]
            house.register.restore(rows, resting)
            house.desk.restore(rows, {}, resting=resting, is_still=True)
            yield Supervisor(house)
        except BaseException as error:  # noqa: BLE001 - raised again, bare, below
            failure = error
        house.tree.close()
        workshop.close()
        nursery.cancel_scope.cancel(reason="the work is over")
    if failure is not None:
        raise failure
