"""Terminals of an ACP agent over fake processes."""

from __future__ import annotations

from typing import Any

import trio

from supervisor.core.ids import TurnId
from supervisor.drivers.acp.permissions import AskPermission, Grants
from supervisor.drivers.acp.terminals import Terminals
from tests.support.driver_context import FakeDriverContext
from tests.support.fake_processes import FakeProcesses, accept_process

TURN = TurnId("turn_1")
RUNS_LS = {"command": "ls"}


def make_terminals(
    context: FakeDriverContext,
    processes: FakeProcesses,
    nursery: trio.Nursery,
    *,
    ask: AskPermission,
    grants: Grants,
) -> Terminals:
    return Terminals(
        context,
        processes=processes,
        nursery=nursery,
        ask=ask,
        grants=grants,
        limiter=trio.CapacityLimiter(2),
        environment={"PATH": "/bin", "LANG": "C"},
        before_exec=accept_process,
    )


async def create(
    terminals: Terminals, turn: TurnId | None = TURN, **params: object
) -> dict[str, Any]:
    """Create a terminal; return the params that name it."""
    return await terminals.create({"sessionId": "s", **RUNS_LS, **params}, turn=turn)
