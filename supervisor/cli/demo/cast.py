"""The agents of the demo. They need no model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import trio

from supervisor import drivers
from supervisor.drivers.acp.agent import AcpAgent, scripted_process
from supervisor.drivers.python import PythonAgent
from supervisor.drivers.turn import Turn

BARS: Final = 12
HAMMERING: Final = "hammering"
PAINTING: Final = "painting"
_TOO_LONG_SECONDS: Final = 60.0


@attrs.frozen
class Player:
    """An agent with a few named pieces; a tempo below 1 makes it faster."""

    tempo: float

    async def play(self, turn: Turn) -> str:
        """Run the piece that the text names, or treat other text as a small task."""
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
        """Play bar after bar, and take steering at the end of each."""
        for bar in range(1, BARS + 1):
            async with turn.tool(f"bar {bar}"):
                await trio.sleep(0.3 * self.tempo)
            wishes = turn.steering()
            if wishes:
                await trio.sleep(0.3 * self.tempo)
                return f"{' and '.join(wishes)}, from bar {bar + 1} on"
        return "as written"

    async def _build(self, turn: Turn) -> str:
        """Run two tool calls at once, one of which would not end."""
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
        """Say a few words, then nothing more."""
        await turn.say("To be, or not to be, that is")
        await trio.sleep_forever()
        return ""


def player(tempo: float) -> PythonAgent:
    """Return an agent in this process."""
    return PythonAgent("player", Player(tempo).play)


def stagehand() -> AcpAgent:
    """Return a scripted agent in its own process, which speaks ACP."""
    script = scripted_process("stagehand")
    return attrs.evolve(script, env={"PYTHONPATH": package_folder()})


def package_folder() -> str:
    """Return the folder that contains this package, also if it is not installed."""
    return str(Path(drivers.__file__).parents[2])
