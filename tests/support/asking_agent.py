"""An agent that asks people the question in its input."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import supervisor


class AskingAgent:
    """The agent `asker`: the first line of an input is the question, the others are choices."""

    def __init__(self) -> None:
        self.sup: supervisor.Supervisor | None = None
        self.agent = supervisor.PythonAgent("asker", self.run_turn)

    async def run_turn(self, turn: supervisor.Turn) -> str:
        assert self.sup is not None
        question, *choices = turn.text.split("\n")
        questions = self.sup.tool_access().questions(turn.session_id)
        end = await questions.wait(await questions.ask(question, tuple(choices)))
        return f"{end.outcome} by {end.by}: {end.text}"


@asynccontextmanager
async def asking_supervisor(
    agent: str,
    **options: Any,  # noqa: ANN401 - those of open()
) -> AsyncIterator[tuple[supervisor.Supervisor, supervisor.Session]]:
    """Yield a supervisor with an agent that asks, and its session `bob`."""
    asker = AskingAgent()
    async with supervisor.open(agents=[asker.agent], **options) as sup:
        asker.sup = sup
        yield sup, await sup.create(agent, name="bob")
