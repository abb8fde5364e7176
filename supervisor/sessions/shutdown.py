"""Shutdown: let turns finish within a bound, interrupt the rest, suspend sessions, close agents.

Rule 1: every wait is bounded except the last. A shielded task cannot be abandoned, so the turn and
        the agent that it belongs to are logged.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

import trio

from actors import ActorError, ActorStopped, MailboxFull, Ref
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.errors import SupervisorError
from supervisor.store.writer_messages import Flush

from .registry import SessionRegistry
from .services import Services
from .slot import SessionSlot

logger = logging.getLogger("supervisor")

# Added to the ladder, for its commits.
_MARGIN_SECONDS: Final = 5.0
# Between two checks of the store, and the time it has to answer one.
_CHECK_SECONDS: Final = 2.0
# For an actor that does not stop by itself; the next start recovers its session.
_CANCEL_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.05


async def drain(services: Services, registry: SessionRegistry, *, patience_seconds: float) -> None:
    """Refuse new work, let turns finish within a bound, interrupt the rest, suspend sessions.

    Sessions that are still active afterwards are cancelled.
    """
    services.run_state.drain()
    shutdown = services.shutdown
    if shutdown.begin(patience_seconds):
        services.tasks.start_soon(_watch_store, services)
    with trio.move_on_at(shutdown.patience_until):
        await _suspend_all(services, registry)
        return
    live = registry.live()
    if any(slot.session is not None and slot.session.turn is not None for slot in live):
        shutdown.has_interrupted_turns = True
    for slot in live:
        _tell(slot, ev.InterruptRequested(reason="shutdown", **services.stamp()))
    with shutdown.begin_interrupt(longest_ladder_seconds(registry) + _MARGIN_SECONDS):
        await _suspend_all(services, registry)
        return
    for slot in registry.live():
        assert slot.ref is not None
        slot.ref.stop_nowait(within_seconds=_CANCEL_SECONDS)


async def _watch_store(services: Services) -> None:
    """Check periodically whether the store answers, until cancelled."""
    while True:
        await check_store(services)
        await trio.sleep(_CHECK_SECONDS)


async def check_store(services: Services) -> None:
    """Check whether the store answers, and shorten the shutdown if it does not."""
    answers = not services.health.is_degraded
    if answers:
        try:
            await services.writer.ask(Flush(), timeout_seconds=_CHECK_SECONDS)
        except (ActorError, SupervisorError):
            answers = False
    services.shutdown.report_store(answers=answers)


async def wait_for_zombies(services: Services) -> None:
    """Wait for the tasks of abandoned turns; log tasks that outlast `exit_seconds`."""
    services.tasks.shutdown_started.set()
    with trio.move_on_after(services.settings().exit_seconds):
        await services.tasks.wait_no_zombies()
        return
    for turn, owner in services.tasks.zombies.items():
        logger.error("shutdown waits for a task that does not end: %s, %s", owner, turn)


def _tell(slot: SessionSlot, event: ev.Event) -> None:
    assert slot.ref is not None
    # A stopped actor needs no event; one whose mailbox is full is cancelled later.
    with contextlib.suppress(ActorStopped, MailboxFull):
        slot.ref.tell(event, urgent=True)


async def _suspend_all(services: Services, registry: SessionRegistry) -> None:
    """Ask all sessions to suspend, also those that start meanwhile, and wait for each.

    In each round every session takes one step: started, inactive, exited. A session that starts in
    one round is asked in the next, so a session needs no more rounds than it has steps.
    """
    told: set[Ref] = set()
    await trio.lowlevel.checkpoint()
    while True:
        awake = [slot for slot in registry.live_or_starting() if not _is_held_by_zombie(slot)]
        if not awake and not services.detached_tasks.count.value:
            return
        for slot in awake:
            if slot.ref is not None and slot.ref not in told:
                told.add(slot.ref)
                _tell(slot, agent_events.ShutdownRequested(**services.stamp()))
        if not await _wait_one_step(registry, awake):
            # The end of a detached task is seen at once. Bounded, because one may start a session
            # and wait for it, which must be told to suspend.
            with trio.move_on_after(_POLL_SECONDS):
                await services.detached_tasks.count.wait_transition()


async def _wait_one_step(registry: SessionRegistry, slots: list[SessionSlot]) -> bool:
    """Wait until each session has taken one step; return True if all have done so in time."""
    waited = bool(slots)
    for slot in slots:
        if _is_held_by_zombie(slot):  # since it was listed: it takes no further step
            continue
        try:
            await registry.wait_for_suspend_step(slot)
        except SupervisorError:  # deleted, or claimed by another supervisor: no wait
            waited = False
    return waited


def _is_held_by_zombie(slot: SessionSlot) -> bool:
    """Return True if only a zombie keeps the session's actor running."""
    session = slot.session
    return session is not None and session.zombie is not None and session.is_inactive


def longest_ladder_seconds(registry: SessionRegistry) -> float:
    """Return the longest time that an interrupt of a live session can take."""
    ladders = [slot.session.terms.ladder for slot in registry.live() if slot.session is not None]
    return max((ladder.total_seconds for ladder in ladders), default=0.0)
