"""What all drivers of a supervisor share: a nursery, process slots, the list of zombies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import attrs
import trio
from trio_util import AsyncValue

from supervisor.core.ids import TurnId
from supervisor.core.state import Capabilities
from supervisor.json_rpc.line_budget import LineBudget
from supervisor.json_rpc.lines import MAX_LINE_BYTES
from supervisor.json_rpc.request_budget import RequestBudget

from .agent_nurseries import AgentNurseries
from .agent_tools import AgentTools
from .process.processes import Processes

Args = TypeVarTuple("Args")


@attrs.frozen
class ReportedAgent:
    """Capabilities and version that an agent reported at its start."""

    capabilities: Capabilities
    version: str | None = None


class DriverRuntime:
    """The nursery, process slots and zombie list that all drivers share."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        processes: Processes | None = None,
        max_agent_processes: int = 64,
        start_concurrency: int = 4,
        max_unfinished_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._nursery = nursery
        self._processes = processes
        self.is_closed = False
        self.agent_nurseries = AgentNurseries(self.start_soon)
        # Invariant: an agent process holds a process slot from before it starts until nothing of it
        # is left, and a start slot while it starts.
        self.process_slots = trio.CapacityLimiter(max_agent_processes)
        self.start_slots = trio.CapacityLimiter(start_concurrency)
        self.line_budget = LineBudget(max_unfinished_line_bytes)
        self.request_budget = RequestBudget()
        self._evict: Callable[[], object] | None = None
        # Set when the supervisor shuts down; work that never ends by itself may wait for it.
        self.shutdown_started = trio.Event()
        # Hands our tools to agents; None if the supervisor has none.
        self.agent_tools: AgentTools | None = None
        # By name, what each agent reported when it last started.
        self.reported_agents: dict[str, ReportedAgent] = {}
        # Turns that are over and whose work has not ended, each with a description of its owner.
        self.zombies: dict[TurnId, str] = {}
        # Invariant: the length of `zombies`, which only the two methods below change.
        self._zombie_count = AsyncValue(0)

    @property
    def processes(self) -> Processes:
        """The port that runs agent processes."""
        assert self._processes is not None
        return self._processes

    def start_soon(
        self, work: Callable[[*Args], Awaitable[object]], *args: *Args, name: str | None = None
    ) -> None:
        """Run a function in a task of its own; do nothing if the runtime is closed."""
        if not self.is_closed:
            self._nursery.start_soon(work, *args, name=name)

    def set_eviction(self, evict: Callable[[], object]) -> None:
        """Set the function that suspends the longest-idle agent process."""
        self._evict = evict

    def evict_idle_process(self) -> None:
        """Free a process slot if an agent process is idle; called before waiting for a slot."""
        if self._evict is not None:
            self._evict()

    def set_limits(self, *, max_agent_processes: int, start_concurrency: int) -> None:
        """Replace the numbers of slots; a process beyond the new number keeps its slot."""
        self.process_slots.total_tokens = max_agent_processes
        self.start_slots.total_tokens = start_concurrency

    def add_zombie(self, turn: TurnId, owner: str) -> None:
        """List a turn that is over and whose work has not ended."""
        self.zombies[turn] = owner
        self._zombie_count.value = len(self.zombies)

    def remove_zombie(self, turn: TurnId) -> None:
        """Remove a turn whose work has ended, if it is listed."""
        self.zombies.pop(turn, None)
        self._zombie_count.value = len(self.zombies)

    async def wait_no_zombies(self) -> None:
        """Wait until no zombie is listed."""
        await self._zombie_count.wait_value(0)
        while self.zombies:  # listed after the last one ended, before this task ran
            await self._zombie_count.wait_value(0)

    async def close_when_cancelled(self) -> None:
        """Wait until the tasks are cancelled, by `close()` or because one has failed."""
        try:
            await trio.sleep_forever()
        finally:
            self.is_closed = True

    def close(self) -> None:
        """Cancel all tasks and start no more."""
        self.is_closed = True
        self._nursery.cancel_scope.cancel(reason="the supervisor has shut down")
