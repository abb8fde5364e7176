"""Agents whose sessions wait for each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from actors.testing import settle
from supervisor import (
    PythonAgent,
    Session,
    Supervisor,
    Turn,
    Why,
)
from tests.support.session_states import SlowStartAgent

WAIT_KINDS = {
    "model",
    "tool",
    "person",
    "child",
    "turn_slot",
    "child_slot",
    "zombie",
    "start",
    "restart",
    "end",
    "input",
    "nothing",
}


class SlowExitAgent(SlowStartAgent):
    """Comes up at once, and leaves when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False

    def close(self) -> None:
        """It takes its time."""


class PromptChain:
    """Agents that prompt the next one in a circle, or along a line; "stay" has them wait."""

    def __init__(self, count: int) -> None:
        self.sessions: list[Session] = []
        self.opened = trio.Event()
        self.agents = [PythonAgent(f"door{number}", self._pass_on) for number in range(count)]

    async def _pass_on(self, turn: Turn) -> str | None:
        if turn.text == "stay":
            await self.opened.wait()
            return "open"
        here = [session.id for session in self.sessions].index(turn.session_id)
        text = "stay" if turn.text == "line" and here == len(self.sessions) - 2 else turn.text
        after = self.sessions[(here + 1) % len(self.sessions)]
        return (await after.prompt(text)).text

    async def create_sessions(self, sup: Supervisor) -> list[Session]:
        for agent in self.agents:
            self.sessions.append(await sup.create(agent.name))
        return self.sessions


class ActingAgent:
    """An agent that does what the test has it do, in its own task: so it is known who waits."""

    def __init__(self) -> None:
        self.agent = PythonAgent("insider", self._act)
        self.action: Callable[[Turn], Awaitable[object]] | None = None

    async def _act(self, turn: Turn) -> str | None:
        assert self.action is not None
        await self.action(turn)
        return "done"

    async def begin(self, sup: Supervisor, action: Callable[[Turn], Awaitable[object]]) -> Session:
        """A session that is at it."""
        self.action = action
        session = await sup.create("insider")
        await session.send("go")
        await settle()
        return session


async def sole_wait(session: Session) -> tuple[str, str | None, float]:
    """What a session waits for that waits for no other."""
    why = await session.why()
    (waits,) = why.chain
    assert (waits.session_id, why.session_id, why.cycle) == (session.id, session.id, ())
    assert waits.badge == (await session.info()).badge
    assert (why.waits_for, waits.waits_for in WAIT_KINDS) == (waits.waits_for, True)
    return waits.waits_for, waits.detail, waits.seconds


def ids(why: Why) -> list[str]:
    return [waits.session_id for waits in why.chain]
