"""The agents of the demo. They need no model, and do what somebody wants to see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import trio

import supervisor
from supervisor.drivers.acp.agent import AcpAgent
from supervisor.drivers.python import PythonAgent
from supervisor.drivers.turn import Turn

BARS: Final = 12
HAMMERING: Final = "hammering"
PAINTING: Final = "painting"
_TOO_LONG_SECONDS: Final = 60.0


@attrs.frozen
class Player:
    """An agent that knows a few pieces by their names; with a tempo below 1 it is quicker."""

    tempo: float

    async def play(self, turn: Turn) -> str:
        """Play what the text names, and take anything else for a small errand."""
        match turn.text:
            case "overture":
                return await self._overture(turn)
            case "build":
                return await self._build(turn)
            case "dream":
                return await self._dream(turn)
            case errand:
                async with turn.tool(errand):
                    await trio.sleep(0.5 * self.tempo)
                return f"{errand}: done"

    async def _overture(self, turn: Turn) -> str:
        """Bar after bar, looking up at the end of each."""
        for bar in range(1, BARS + 1):
            async with turn.tool(f"bar {bar}"):
                await trio.sleep(0.3 * self.tempo)
            wishes = turn.steering()
            if wishes:
                await trio.sleep(0.3 * self.tempo)
                return f"{' and '.join(wishes)}, from bar {bar + 1} on"
        return "as written"

    async def _build(self, turn: Turn) -> str:
        """Two things in hand at once, of which one would take for ever."""
        done: list[str] = []

        async def work(name: str, seconds: float) -> None:
            async with turn.tool(name):
                await trio.sleep(seconds)
                done.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, HAMMERING, _TOO_LONG_SECONDS)
            nursery.start_soon(work, PAINTING, 1.5 * self.tempo)
        return " and ".join(done)

    async def _dream(self, turn: Turn) -> str:
        """A few words, and then nothing any more."""
        await turn.say("To be, or not to be, that is")
        await trio.sleep_forever()
        return ""


def player(tempo: float) -> PythonAgent:
    """An agent in our own process."""
    return PythonAgent("player", Player(tempo).play)


def stagehand() -> AcpAgent:
    """An agent that is a process of its own, speaks ACP, and does as it is told."""
    script = supervisor.scripted_process("stagehand")
    return attrs.evolve(script, env={"PYTHONPATH": package_folder()})


def package_folder() -> str:
    """Where this package lies, also if it was never installed."""
    assert supervisor.__file__ is not None
    return str(Path(supervisor.__file__).parents[1])
