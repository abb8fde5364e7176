"""The agents of the demo. They need no model, and do what somebody wants to see."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio

import supervisor
from supervisor.drivers.acp.agent import AcpAgent
from supervisor.drivers.python import PythonAgent
from supervisor.drivers.turn import Turn

BARS = 12


def players(tempo: float) -> list[PythonAgent | AcpAgent]:
    """All of them; with a tempo below 1 they are quicker."""

    async def musician(turn: Turn) -> str:
        """Plays bar after bar, and looks up at the end of each."""
        how = "as written"
        for bar in range(1, BARS + 1):
            async with turn.tool(f"bar {bar}, {how}"):
                await trio.sleep(0.3 * tempo)
            for wish in turn.steering():
                return f"from bar {bar + 1} on: {wish}"
        return how

    async def carpenter(turn: Turn) -> str:
        """Has two things in hand at once."""
        done: list[str] = []

        async def work(name: str, seconds: float) -> None:
            async with turn.tool(name) as call:
                await trio.sleep(seconds)
                call.result("done")
                done.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "hammering", 60.0)
            nursery.start_soon(work, "painting", 1.4 * tempo)
        return f"done: {', '.join(done)}"

    async def dreamer(turn: Turn) -> None:
        """Says something, and then nothing any more."""
        await turn.say("To be, or not to be, that is")
        await trio.sleep_forever()

    return [
        PythonAgent("musician", musician),
        PythonAgent("carpenter", carpenter),
        PythonAgent("dreamer", dreamer),
        stagehand(),
    ]


def stagehand() -> AcpAgent:
    """A real process that speaks ACP, and does as it is told."""
    return attrs.evolve(
        supervisor.scripted_process("stagehand"), env={"PYTHONPATH": package_folder()}
    )


def package_folder() -> str:
    """Where this package lies, also if it was never installed."""
    assert supervisor.__file__ is not None
    return str(Path(supervisor.__file__).parents[1])
