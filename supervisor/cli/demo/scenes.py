"""The scenes with one supervisor, and their agents, which need no model.

Each scene does something, prints the outcome, and notes the promise that it has tested.

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

from .demo_output import DemoRun, followed, wait_for_record

FILES: Final = 12
SLOW_TOOL: Final = "pytest"
QUICK_TOOL: Final = "lint"
_TOO_LONG_SECONDS: Final = 60.0


@attrs.frozen
class ScriptedCoder:
    """A Python agent that runs one of a few scripts; a tempo below 1 makes it faster."""

    tempo: float

    async def run(self, turn: Turn) -> str:
        """Run the script that the input names: rename, check or plan.

        Any other input becomes one short tool call.
        """
        match turn.text:
            case "rename":
                return await self._rename(turn)
            case "check":
                return await self._check(turn)
            case "plan":
                return await self._plan(turn)
            case command:
                async with turn.tool(command):
                    await trio.sleep(0.5 * self.tempo)
                return f"{command}: done"

    async def _rename(self, turn: Turn) -> str:
        """Run several tool calls one after the other, and take steering at the end of each."""
        for number in range(1, FILES + 1):
            async with turn.tool(f"edit file {number}"):
                await trio.sleep(0.3 * self.tempo)
            instructions = turn.steering()
            if instructions:
                await trio.sleep(0.3 * self.tempo)
                return f"{' and '.join(instructions)}, from file {number + 1} on"
        return "renamed"

    async def _check(self, turn: Turn) -> str:
        """Run two tool calls at once, one of which ends only by an interrupt."""
        done: list[str] = []

        async def work(name: str, seconds: float) -> None:
            async with turn.tool(name):
                await trio.sleep(seconds)
                done.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, SLOW_TOOL, _TOO_LONG_SECONDS)
            nursery.start_soon(work, QUICK_TOOL, 1.5 * self.tempo)
        return " and ".join(done)

    async def _plan(self, turn: Turn) -> str:
        """Send a few words, then make no progress."""
        await turn.say("First I will look at")
        await trio.sleep_forever()
        return ""


def coder(tempo: float) -> PythonAgent:
    """Return an agent in this process."""
    return PythonAgent("coder", ScriptedCoder(tempo).run)


def process_agent() -> AcpAgent:
    """Return a scripted ACP agent that runs in its own process."""
    script = scripted_process("process-agent")
    return attrs.evolve(script, env={"PYTHONPATH": package_folder()})


def package_folder() -> str:
    """Return the folder that contains this package, also if it is not installed."""
    return str(Path(drivers.__file__).parents[2])


CHILDREN: Final = 3
SILENCE_SECONDS: Final = 1.0
FIRST_COMMANDS: Final = (
    ("frontend", "npm install"),
    ("backend", "pip install"),
    ("tests", "collect tests"),
)
QUEUED_COMMANDS: Final = ("add the route", "add its test", "update the docs")
BACK_OFF_SECONDS: Final = 0.3


async def spawn(run: DemoRun, sup: Supervisor) -> dict[str, Session]:
    """Spawn children up to the limit, and one more, which is refused."""
    lead = await sup.create("coder", name="lead", limits=Limits(max_children=CHILDREN))
    run.tell("spawn", f"lead has started, and may have {CHILDREN} children")
    team = {}
    for name, command in FIRST_COMMANDS:
        # The stall policy is set when a session is created.
        team[name] = await lead.spawn(
            "coder",
            command,
            name=name,
            quiet_after_seconds=SILENCE_SECONDS / 2,
            stalled_after_seconds=SILENCE_SECONDS,
            on_stall="interrupt",
        )
        run.tell("spawn", f"lead has spawned {name}, which runs the tool {command!r}")
        await run.pause_briefly()
    kept, figure = False, f"a child beyond {CHILDREN} was admitted"
    try:
        await lead.spawn("coder", "write docs", name="docs")
    except SpawnRefused as refused:
        run.tell(
            "spawn",
            f"docs is refused: {refused.used:g} of {refused.allowed:g} ({refused.limit});"
            f" hint: {refused.hint}",
            limit=refused.limit,
            used=refused.used,
            allowed=refused.allowed,
        )
        kept = refused.limit == "max_children"
        figure = f"{refused.used:g} of {refused.allowed:g} children, a fourth refused"
    for child in team.values():
        await child.wait()
    run.note_promise("The tree keeps its limits", figure, kept=kept)
    return team


async def queue(run: DemoRun, backend: Session) -> None:
    """Send three inputs at once: one runs, two are queued, and all three run in order."""
    receipts = [await backend.send(text) for text in QUEUED_COMMANDS]
    run.tell("queue", "backend gets three inputs at once; the first begins a turn")
    for receipt in receipts[1:]:
        assert receipt.position is not None
        run.tell(
            "queue",
            f"backend is busy: the next is on record, and waits at place {receipt.position + 1}",
            input_id=receipt.input_id,
            position=receipt.position,
        )
    await run.pause_briefly()
    said = [(await backend.result(receipt.input_id)).text for receipt in receipts]
    run.tell("queue", f"they ran one by one, in their order: {', '.join(said)}")
    in_order = sum(
        answer == f"{text}: done" for answer, text in zip(said, QUEUED_COMMANDS, strict=True)
    )
    run.note_promise(
        "Input for a busy session is queued",
        f"{in_order} of {len(receipts)} inputs, in order",
        kept=in_order == len(receipts),
    )


async def steer(run: DemoRun, frontend: Session) -> None:
    """Steer a running turn, which takes the text at the end of a tool call."""
    async with followed(frontend) as feed:
        receipt = await frontend.send("rename")
        await wait_for_record(feed, "tool_call")
        run.tell("steer", f"frontend edits {FILES} files, and is steered to use camelCase")
        await run.pause_briefly()
        began = time.monotonic()
        await frontend.steer("camelCase")
        taken = await wait_for_record(feed, "steered")
    seconds = time.monotonic() - began
    run.tell("steer", f"taken in by the turn that runs, at the {taken.body['how']} of a tool call")
    result = await frontend.result(receipt.input_id)
    run.tell("steer", f"it is still the same turn, and it ended with: {result.text}")
    run.note_promise(
        "Steering reaches the running turn",
        f"after {format_duration(seconds)}, in the same turn",
        kept=taken.turn_id == receipt.turn_id == result.turn_id,
    )


async def interrupt(run: DemoRun, tests: Session) -> None:
    """Interrupt one of two tool calls, and nothing else."""
    async with followed(tests) as feed:
        receipt = await tests.send("check")
        slow = await wait_for_record(feed, "tool_call", name=SLOW_TOOL)
        run.tell("interrupt", f"tests runs two tools at once: {SLOW_TOOL} and {QUICK_TOOL}")
        await run.pause_briefly()
        report = await tests.interrupt(ToolCall(slow.body["call_id"]), reason="takes too long")
    run.tell(
        "interrupt",
        f"{SLOW_TOOL} alone is interrupted, in {format_duration(report.seconds)}",
        stopped=report.stopped,
        seconds=report.seconds,
    )
    result = await tests.result(receipt.input_id)
    run.tell("interrupt", f"the turn went on, and what it got done is: {result.text}")
    run.note_promise(
        "An interrupt ends only what it names",
        f"{report.stopped} tool call in {format_duration(report.seconds)}, turn {result.outcome}",
        kept=report.stopped == 1 and (result.outcome, result.text) == ("completed", QUICK_TOOL),
    )


async def stall(run: DemoRun, tests: Session) -> None:
    """Let a turn make no progress until the stall is detected and the policy interrupts it."""
    async with followed(tests) as feed:
        receipt = await tests.send("plan")
        await wait_for_record(feed, "turn_started")
        run.tell("stall", "tests begins a sentence, and does not end it")
        silent = (await wait_for_record(feed, "stalled")).body
    run.tell(
        "stall",
        f"noticed: no progress for {format_duration(silent['seconds'])}, it waits for its"
        f" {silent['waits_for']}; by its policy the turn is interrupted",
        seconds=silent["seconds"],
        waits_for=silent["waits_for"],
    )
    result = await tests.result(receipt.input_id)
    badge = (await tests.info()).badge
    run.tell("stall", f"the turn is {result.outcome}, tests is {badge}, and the others go on")
    run.note_promise(
        "A session that hangs is noticed",
        f"after {format_duration(silent['seconds'])} of silence",
        kept=(result.outcome, badge) == ("interrupted", "idle"),
    )


async def crash(run: DemoRun, sup: Supervisor) -> None:
    """Let an agent process crash in the middle of its turn, and restart it."""
    restart = Restart(backoff_seconds=BACK_OFF_SECONDS)
    session = await sup.create("process-agent", name="migration", restart=restart)
    async with followed(session) as feed:
        first = (await session.info()).pid
        await session.send(f"say copying the tables\nsleep {0.8 * run.tempo:.2f}\ncrash")
        next_one = await session.send("say the tables are copied")
        run.tell("crash", f"the agent of migration is process {first}; one more input waits")
        died = await wait_for_record(feed, "agent_restarting")
        began = time.monotonic()
        run.tell("crash", f"process {first} died in the middle of its turn, which is lost")
        back = await wait_for_record(feed, "agent_attached")
    seconds = time.monotonic() - began
    run.tell(
        "recovery",
        f"attempt {died.body['attempt']}: back after {format_duration(seconds)},"
        f" as process {back.body['pid']}",
        seconds=seconds,
    )
    result = await session.result(next_one.input_id)
    run.tell("recovery", f"and what waited in its queue ran: {result.text}")
    run.note_promise(
        "A crashed agent comes back",
        f"after {format_duration(seconds)}, and its queue ran",
        kept=result.outcome == "completed",
    )
