"""The drivers that the contract is tested on."""

from __future__ import annotations

from supervisor.core import agent_events
from supervisor.core.ids import TurnId
from supervisor.drivers.runtime import DriverRuntime
from tests.support.agent_actions import AgentAction
from tests.support.agent_kinds import Kind
from tests.support.driver_context import DriverHarness, FakeDriverContext


class Contract(DriverHarness):
    """A harness for an agent of any kind, which is ordered to do a action."""

    def __init__(
        self, kind: Kind, runtime: DriverRuntime, context: FakeDriverContext | None = None
    ) -> None:
        super().__init__(kind.agent, runtime, context)
        self._texts = kind.texts

    def order_to(self, action: AgentAction) -> TurnId:
        return self.order(self._texts[action])


async def agent_at_work(kind: Kind, runtime: DriverRuntime) -> Contract:
    """Return a harness with an attached agent of that kind and no other events."""
    harness = Contract(kind, runtime)
    harness.driver.start()
    await harness.context.heard(agent_events.AgentAttached)
    harness.context.events.clear()
    return harness
