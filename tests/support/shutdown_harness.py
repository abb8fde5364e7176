"""A supervisor that is opened and closed by the test."""

from __future__ import annotations

from typing import Any

import supervisor
from supervisor import (
    Session,
    Settings,
    Supervisor,
)
from supervisor.core.records import Record
from supervisor.store.port import Stored
from tests.support.fake_agents import AgentRun, FakeAgent

EXIT_SECONDS = 10.0


class Harness:
    """A supervisor that the test opens, leaves, and looks at afterwards."""

    def __init__(self, *fake_agents: FakeAgent, **settings: Any) -> None:  # noqa: ANN401
        self._fake_agents = fake_agents
        self._settings = Settings(**{"exit_seconds": EXIT_SECONDS, **settings})
        self.sup: Supervisor

    def open(self) -> Any:  # noqa: ANN401 - a context manager
        agents = [fake_agent.agent for fake_agent in self._fake_agents]
        return supervisor.open(agents=agents, settings=self._settings)

    async def row(self, sup: Supervisor, session: Session) -> Stored:
        stored = await sup._services.store.read(session.id)
        assert stored is not None
        return stored

    async def records(self, sup: Supervisor, session: Session, *kinds: str) -> list[Record]:
        found = await sup._services.store.records(session.id)
        return [record for record in found if not kinds or record.kind in kinds]


async def begin(
    sup: Supervisor, fake_agent: FakeAgent, agent: str = "fake"
) -> tuple[Session, AgentRun]:
    session = await sup.create(agent)
    await session.send("first")
    return session, await fake_agent.next_run()
