"""The scenes with one supervisor, and their agents, which need no model.

Each scene does something and prints the outcome.

Rule 1: a scene waits for records. What it prints has happened, and figures are measured.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import attrs
import trio

from supervisor import drivers
from supervisor.cli.text_format import format_duration
from supervisor.core.errors import SpawnRefused
from supervisor.core.limits import Limits, Restart
from supervisor.core.scopes import ToolCall
from supervisor.drivers.acp.agent import AcpAgent, scripted_process
from supervisor.drivers.python import PythonAgent
from supervisor.drivers.turn import Turn
from supervisor.handles.session import Session
from supervisor.handles.supervisor import Supervisor

from .stage import Play, followed, wait_for_record

BARS: Final = 12
HAMMERING: Final = "hammering"
PAINTING: Final = "painting"
_TOO_LONG_SECONDS: Final = 60.0


@attrs.frozen
class Player:
    """A Python agent that runs one of a few scripts; a tempo below 1 makes it faster."""

    tempo: float

    async def play(self, turn: Turn) -> str:
        """Run the script that the input names: overture, build or dream.

        Any other input becomes one short tool call.
        """
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
        """Run several tool calls one after the other, and take steering at the end of each."""
        for bar in range(1, BARS + 1):
            async with turn.tool(f"bar {bar}"):
                await trio.sleep(0.3 * self.tempo)
            wishes = turn.steering()
            if wishes:
                await trio.sleep(0.3 * self.tempo)
                return f"{' and '.join(wishes)}, from bar {bar + 1} on"
        return "as written"

    async def _build(self, turn: Turn) -> str:
        """Run two tool calls at once, one of which ends only by an interrupt."""
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
        """Send a few words, then make no progress."""
        await turn.say("To be, or not to be, that is")
        await trio.sleep_forever()
        return ""


def player(tempo: float) -> PythonAgent:
    """Return an agent in this process."""
    return PythonAgent("player", Player(tempo).play)


def stagehand() -> AcpAgent:
    """Return a scripted ACP agent that runs in its own process."""
    script = scripted_process("stagehand")
    return attrs.evolve(script, env={"PYTHONPATH": package_folder()})


def package_folder() -> str:
    """Return the folder that contains this package, also if it is not installed."""
    return str(Path(drivers.__file__).parents[2])


CHILDREN: Final = 3
SILENCE_SECONDS: Final = 1.0
ERRANDS: Final = (
    ("lights", "focus the lamps"),
    ("sound", "tune the speakers"),
    ("props", "sharpen the swords"),
)
BACK_OFF_SECONDS: Final = 0.3


async def spawn(play: Play, sup: Supervisor) -> dict[str, Session]:
    """Spawn children up to the limit, and one more, which is refused."""
    director = await sup.create("player", name="director", limits=Limits(max_children=CHILDREN))
    play.tell("spawn", f"director has started, and may have {CHILDREN} children")
    cast = {}
    for name, errand in ERRANDS:
        # The stall policy is set when a session is created.
        cast[name] = await director.spawn(
            "player",
            errand,
            name=name,
            quiet_after_seconds=SILENCE_SECONDS / 2,
            stalled_after_seconds=SILENCE_SECONDS,
            on_stall="interrupt",
        )
        play.tell("spawn", f"{name} is up, below director, and begins to {errand}")
        await play.breathe_shortly()
    try:
        await director.spawn("player", "fall", name="curtain")
    except SpawnRefused as refused:
        play.tell(
            "spawn",
            f"curtain is refused: {refused.used:g} of {refused.allowed:g} ({refused.limit});"
            f" hint: {refused.hint}",
            limit=refused.limit,
            used=refused.used,
            allowed=refused.allowed,
        )
    for child in cast.values():
        await child.wait()
    return cast


async def queue(play: Play, lights: Session) -> None:
    """Send three inputs at once: one runs, two are queued, and all three run in order."""
    receipts = [await lights.send(text) for text in ("dim the house", "warm the left", "spot on")]
    play.tell("queue", "lights gets three inputs at once; the first begins a turn")
    for receipt in receipts[1:]:
        play.tell(
            "queue",
            f"lights is busy: the next is on record, and waits at place {receipt.position}",
            input_id=receipt.input_id,
            position=receipt.position,
        )
    await play.breathe_shortly()
    said = [(await lights.result(receipt.input_id)).text for receipt in receipts]
    play.tell("queue", f"they ran one by one, in their order: {', '.join(said)}")


async def steer(play: Play, sound: Session) -> None:
    """Steer a running turn, which takes the text at the end of a tool call."""
    async with followed(sound) as feed:
        receipt = await sound.send("overture")
        await wait_for_record(feed, "tool_call")
        play.tell("steer", "sound plays the overture, and is steered to play softer")
        await play.breathe_shortly()
        await sound.steer("softer")
        taken = await wait_for_record(feed, "steered")
    play.tell("steer", f"taken in by the turn that runs, at the {taken.body['how']} of a tool call")
    result = await sound.result(receipt.input_id)
    play.tell("steer", f"it is still the same turn, and it ended with: {result.text}")


async def interrupt(play: Play, props: Session) -> None:
    """Interrupt one of two tool calls, and nothing else."""
    async with followed(props) as feed:
        receipt = await props.send("build")
        hammering = await wait_for_record(feed, "tool_call", name=HAMMERING)
        play.tell("interrupt", f"props runs two tool calls: {HAMMERING} and {PAINTING}")
        await play.breathe_shortly()
        report = await props.interrupt(ToolCall(hammering.body["call_id"]), reason="too loud")
    play.tell(
        "interrupt",
        f"{HAMMERING} alone is interrupted, in {format_duration(report.seconds)}",
        stopped=report.stopped,
        seconds=report.seconds,
    )
    result = await props.result(receipt.input_id)
    play.tell("interrupt", f"the turn went on, and what it got done is: {result.text}")


async def stall(play: Play, props: Session) -> None:
    """Let a turn make no progress until the stall is detected and the policy interrupts it."""
    async with followed(props) as feed:
        receipt = await props.send("dream")
        await wait_for_record(feed, "turn_started")
        play.tell("stall", "props begins a sentence, and does not end it")
        silent = (await wait_for_record(feed, "stalled")).body
    play.tell(
        "stall",
        f"noticed: no progress for {format_duration(silent['seconds'])}, it waits for its"
        f" {silent['waits_for']}; by its policy the turn is interrupted",
        seconds=silent["seconds"],
        waits_for=silent["waits_for"],
    )
    result = await props.result(receipt.input_id)
    badge = (await props.info()).badge
    play.tell("stall", f"the turn is {result.outcome}, props is {badge}, and the show goes on")


async def crash(play: Play, sup: Supervisor) -> None:
    """Let an agent process crash in the middle of its turn, and restart it."""
    restart = Restart(backoff_seconds=BACK_OFF_SECONDS)
    hand = await sup.create("stagehand", name="stagehand", restart=restart)
    async with followed(hand) as feed:
        first = (await hand.info()).pid
        await hand.send(f"say lifting the curtain\nsleep {0.8 * play.tempo:.2f}\ncrash")
        next_one = await hand.send("say the curtain is up")
        play.tell("crash", f"stagehand is a process of its own, {first}; one more input waits")
        died = await wait_for_record(feed, "agent_restarting")
        began = time.monotonic()
        play.tell("crash", f"process {first} died in the middle of its turn, which is lost")
        back = await wait_for_record(feed, "agent_attached")
    seconds = time.monotonic() - began
    play.tell(
        "recovery",
        f"attempt {died.body['attempt']}: back after {format_duration(seconds)},"
        f" as process {back.body['pid']}",
        seconds=seconds,
    )
    result = await hand.result(next_one.input_id)
    play.tell("recovery", f"and what waited in its queue ran: {result.text}")
