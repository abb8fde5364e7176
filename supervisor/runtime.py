"""The composition root: puts the rooms together, and takes them apart in order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

import actors

from .config import Settings
from .core.errors import ConfigError, shown
from .drivers.builtin import BUILT_IN
from .drivers.port import AgentKind, Workshop
from .drivers.process.contained import ContainedProcesses
from .drivers.watchdog import time_is_real, watch_over_the_loop
from .sessions.house.house import House
from .sessions.house.leaving import leave, wait_for_zombies
from .sessions.house.lookout import look_out
from .sessions.house.recovery import recover, wake
from .sessions.surface.checks import checked_path
from .sessions.surface.child import Child
from .sessions.surface.handle import Session
from .sessions.surface.supervisor import Supervisor
from .store.memory import MemoryStore
from .store.port import Store
from .store.sqlite.files import whole_path, why_only_read
from .store.sqlite.schema import refuse_unless_ours
from .store.sqlite.store import SqliteStore, open_sqlite, restore_store
from .store.writer import Writer
from .store.writer.health import Health
from .store.writer.unwritten import NoWriter

# More than there ever are: `writer.load` bounds what others bring, and each session brings one.
WRITER_CAPACITY = 100_000


@asynccontextmanager
async def open(  # noqa: A001 - its public name is supervisor.open
    path: str | os.PathLike[str] = ":memory:",
    *,
    agents: Iterable[AgentKind] = (),
    settings: Settings | None = None,
) -> AsyncIterator[Supervisor]:
    """Open a supervisor over a store, a file or `:memory:`; leaving the block drains it.

    Leaving refuses new work, gives running turns `exit_seconds` to end, interrupts the rest, and
    has all sessions rest. If the block raises or is cancelled, turns are interrupted at once.
    Whatever the block raises is raised bare. A file that cannot be written to is only read.
    """
    if settings is None:
        settings = Settings()
    elif not isinstance(settings, Settings):
        raise ConfigError(f"settings is {shown(settings)}", hint="give supervisor.Settings(...)")
    known = _by_name(agents)
    failure: BaseException | None = None
    # Last started, first stopped: the store outlives the writer, and that everyone who writes.
    async with (
        _open_store(path, settings) as (store, health),
        actors.open_actors() as system,
        trio.open_nursery() as outer,
    ):
        writer = await system.start(
            lambda: NoWriter(health) if health.is_given_up else Writer(store, health),
            name="writer",
            restart="permanent",
            capacity=WRITER_CAPACITY,
        )
        workshop = Workshop(
            await outer.start(_shelter),
            processes=ContainedProcesses(),
            max_agent_processes=settings.max_agent_processes,
            start_concurrency=settings.start_concurrency,
        )
        try:
            house = House(
                settings=settings,
                agents=known,
                store=store,
                writer=writer,
                health=health,
                system=system,
                workshop=workshop,
                make_handle=Session,
                make_child=Child,
            )
            await house.tree.open()
            workshop.start_soon(house.timers.run)
            workshop.start_soon(house.scribe.run)
            workshop.start_soon(house.pulse.run)
            workshop.start_soon(look_out, house)
            workshop.start_soon(house.hooks.run)
            with watch_over_the_loop(known.values()):
                try:
                    workshop.start_soon(wake, house, await recover(house))
                    yield Supervisor(house)
                except BaseException as error:  # noqa: BLE001 - raised again, bare, below
                    failure = error
                try:
                    await _leave(house, in_peace=failure is None)
                except BaseException as error:  # noqa: BLE001 - as above: Ctrl-C, a cancellation
                    failure = failure or error
        finally:
            workshop.close()
    if failure is not None:
        raise failure


async def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path | None:
    """Put a backup in the place of a store that nobody has open; gives where the old one is now.

    Raises `StoreLocked` while a supervisor has it open, `ConfigError` if the backup is none, and
    `StoreTooNew`.
    """
    return await restore_store(checked_path("backup", backup), checked_path("path", path))


@asynccontextmanager
async def _open_store(
    path: str | os.PathLike[str], settings: Settings
) -> AsyncIterator[tuple[Store, Health]]:
    """A store of that name, a file or `:memory:`, and how it is."""
    health = Health()
    if path == ":memory:":
        yield MemoryStore(), health
        return
    whole = whole_path(checked_path("path", path))
    trouble = why_only_read(whole)
    if trouble is None:
        every = settings.snapshot_every
        # A simulation replaces the threads that trio lends, and knows of no others.
        async with open_sqlite(whole, snapshot_every=every, own_thread=time_is_real()) as store:
            yield store, health
        return
    refuse_unless_ours(whole, may_be_new=True)
    health.give_up(trouble)
    # Never opened: that would take the pen. What reads has connections of its own.
    store = SqliteStore(whole)
    try:
        yield store, health
    finally:
        with trio.CancelScope(shield=True):
            await store.close()


async def _shelter(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """A nursery that whoever cancels the block does not cancel: leaving needs an order.

    Whoever opened it cancels it when all is over, and for certain.
    """
    # Before the shield: if we are cancelled already, `started` below would tell nobody, and behind
    # the shield nobody could tell us.
    await trio.lowlevel.checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            task_status.started(nursery)
            await trio.sleep_forever()


async def _leave(house: House, *, in_peace: bool) -> None:
    """Leave, also when cancelled: every wait in here is bounded, but for zombies."""
    settings = house.settings
    patience = settings.exit_seconds if in_peace else 0.0
    try:
        with trio.CancelScope(shield=not in_peace):
            await leave(house, patience_seconds=patience)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await leave(house, patience_seconds=0.0)
        raise
    finally:
        house.tree.close()
        with trio.CancelScope(shield=True):
            with trio.move_on_after(patience):
                await house.hooks.wait_delivered()
            await wait_for_zombies(house)


def _by_name(agents: Iterable[AgentKind]) -> dict[str, AgentKind]:
    known: dict[str, AgentKind] = {agent.name: agent for agent in BUILT_IN}
    if not isinstance(agents, Iterable):
        raise ConfigError(f"agents is {shown(agents)}", hint="give a list of agents")
    for agent in agents:
        name = getattr(agent, "name", None)
        if not isinstance(name, str) or not hasattr(agent, "make_driver"):
            raise ConfigError(
                f"{shown(agent)} is no agent", hint='decorate it with @supervisor.agent("name")'
            )
        if name in known:
            raise ConfigError(f"two agents are called {shown(name)}", hint="give one another name")
        known[name] = agent
    return known
