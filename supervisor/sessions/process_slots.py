"""Process slots: suspend the longest-idle session to start one more agent process."""

from __future__ import annotations

import contextlib

import trio

from actors import ActorStopped, MailboxFull
from supervisor.core.agent_events import IdleElapsed
from supervisor.core.state import Phase
from supervisor.core.tree.tree import SessionTree

from .admission import Admission
from .registry import SessionRegistry
from .services import Services
from .slot import SessionSlot


async def wait_for_process_slot(
    services: Services, registry: SessionRegistry, admission: Admission, agent: str
) -> None:
    """Suspend an idle session if the agent is a process and all process slots are taken.

    The wait is bounded and reserves no slot: admission decides.
    """
    settings = services.settings()
    tree, max_processes = admission.tree, settings.max_agent_processes
    if agent not in tree.process_agents or len(tree.processes) < max_processes:
        return
    if evict_idle_process(services, registry, admission):
        with trio.move_on_after(settings.ladder.total_seconds):
            while len(tree.processes) >= max_processes:
                await admission.process_freed.wait()


def evict_idle_process(services: Services, registry: SessionRegistry, admission: Admission) -> bool:
    """Ask the longest-idle session with an agent process to suspend; return True if one exists.

    The session decides whether it suspends.
    """
    idle = [slot for slot in registry.live() if _is_evictable(slot, admission.tree)]
    if idle:
        slot = min(idle, key=_last_active)
        assert slot.ref is not None
        with contextlib.suppress(ActorStopped, MailboxFull):
            slot.ref.tell(IdleElapsed(**services.stamp()), urgent=True)
            return True
    return False


def _is_evictable(slot: SessionSlot, tree: SessionTree) -> bool:
    session = slot.session
    if session is None or session.phase is not Phase.IDLE or session.inputs or slot.ref is None:
        return False
    node = tree.find(session.id)
    has_active_children = node is not None and node.active_dependents > 0
    return session.id in tree.processes and not has_active_children


def _last_active(slot: SessionSlot) -> float:
    assert slot.session is not None
    return slot.session.last_active_at
