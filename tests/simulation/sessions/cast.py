"""Agents that do what the text says, word by word, and tell the referee what they do."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import trio

from supervisor import PythonAgent, Turn
from supervisor.drivers.python import AgentDied
from tests.simulation.stage import wander

from .referee import Referee

QUIET = ("say", "think", "tool", "use", "steering", "wander", "update")
ROUGH = (*QUIET, "raise", "ask")
DEADLY = (*QUIET, "crash", "raise", "hang", "hang")


class Cast:
    """The agents of one run."""

    def __init__(self, referee: Referee) -> None:
        self.referee = referee
        self._deeds: dict[str, Callable[[Turn], Awaitable[None]]] = {
            "say": self._say,
            "think": self._think,
            "tool": self._tool,
            "update": self._update,
            "use": self._use,
            "steering": self._steer,
            "wander": self._wander,
            "ask": self._ask,
            "raise": self._raise,
            "crash": self._crash,
            "hang": self._hang,
            "flood": self._flood,
        }
        self.agents = [PythonAgent("player", self.play)]

    async def play(self, turn: Turn) -> str | None:
        self.referee.goes_to_work(turn.session_id, turn.id)
        try:
            for deed in turn.text.split()[1:]:
                await self._deeds[deed](turn)
        finally:
            self.referee.leaves_work(turn.session_id, turn.id)
        return random.choice((None, "done"))

    async def _say(self, turn: Turn) -> None:
        await turn.say("word ")

    async def _think(self, turn: Turn) -> None:
        await turn.think("hm ")

    async def _flood(self, turn: Turn) -> None:
        for number in range(12):
            await turn.plan([number])

    async def _tool(self, turn: Turn) -> None:
        async with turn.tool("bash") as call:
            await trio.sleep(random.choice((0.0, 0.5, 2.0)))
            call.result("ok")
        hit = self.referee.book(turn.session_id).interrupted
        if call.interrupted:
            self.referee.check(call.id in hit, f"{call.id} was cut short and nobody named it")

    async def _update(self, turn: Turn) -> None:
        async with turn.tool("edit") as call:
            call.update("half way")
            await wander()

    async def _use(self, turn: Turn) -> None:
        turn.usage(output_tokens=random.randrange(9))
        await trio.lowlevel.checkpoint()

    async def _steer(self, turn: Turn) -> None:
        for text in turn.steering():
            again = self.referee.taken.get(text)
            self.referee.check(again != turn.id, f"{text!r} was handed out twice")
            self.referee.taken[text] = turn.id
        await trio.lowlevel.checkpoint()

    async def _wander(self, _: Turn) -> None:
        await wander()

    async def _ask(self, turn: Turn) -> None:
        await turn.ask("may I?", tool=random.choice(("bash", "edit")))

    async def _raise(self, _: Turn) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("on purpose")

    async def _crash(self, _: Turn) -> None:
        await trio.lowlevel.checkpoint()
        raise AgentDied("on purpose")

    async def _hang(self, turn: Turn) -> None:
        """Deaf to every interrupt, for a while that may be longer than anyone's patience."""
        with trio.CancelScope(shield=True):
            await trio.sleep(random.choice((1.0, 4.0, 9.0)))
        await trio.lowlevel.checkpoint()
        await turn.say("still here")
