"""The one file of this room that looks inside the supervisor, for what has no public name.

Rule 1: it looks, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from actors import Ask
from supervisor.sessions.surface.supervisor import Supervisor
from supervisor.store.health import StoreState

if TYPE_CHECKING:
    from supervisor.sessions.house import House


@attrs.frozen
class Ping(Ask[None]):
    """Whoever gets this answers with nothing, after all that it was asked before."""


def house_of(sup: Supervisor) -> House:
    """The house behind the handle."""
    return sup._house  # noqa: SLF001 - see above


def store_state(sup: Supervisor) -> StoreState:
    """How the store is, without counting everything."""
    return house_of(sup).health.state


def has_left(sup: Supervisor) -> bool:
    """Whether all sessions are at rest, or given up, and nothing is answered any more."""
    return house_of(sup).tree.is_closed


async def wait_for_answers(sup: Supervisor, *, timeout_seconds: float) -> None:
    """Have the tree, the writer and the store answer; raises if one of them does not in time.

    A store that says that it is degraded has answered.
    """
    house = house_of(sup)
    with trio.fail_after(timeout_seconds):
        undertaker = house.tree._undertaker  # noqa: SLF001 - see above
        assert undertaker is not None
        await undertaker.ask(Ping(), timeout_seconds=timeout_seconds)
        await house.writer.ask(Ping(), timeout_seconds=timeout_seconds)
        if not house.health.is_degraded:
            await house.store.kept("watchdog", "alive")
