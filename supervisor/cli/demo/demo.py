"""`understudy demo`: the main features in about ten seconds; at the end a kill -9."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import click
import trio
from trio_util import run_and_cancelling

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import ERROR, OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.cli.text_format import format_duration
from supervisor.core.errors import SupervisorError
from supervisor.runtime import open as open_supervisor

from . import scenes
from .demo_output import DemoOutput, DemoRun, JsonOutput, PlainOutput
from .killed_supervisor import (
    KilledSupervisor,
    KillReport,
    check_acknowledged,
    kill_supervisor,
    start_kill_target,
)
from .scenes import coder, process_agent

_MAX_SECONDS: Final = 120.0
# Narrower terminals have no room for a tree.
_MIN_WIDTH: Final = 50
# A pipe has no viewers.
_PIPE_TEMPO: Final = 0.4
# How much longer tool calls and pauses take with --slow.
_SLOWNESS: Final = 3.0


@click.command()
@click.option("--slow", is_flag=True, help="Leave time to read along: about 30 seconds.")
@json_option
def demo(*, slow: bool, as_json: bool) -> int:
    """Show the main features in about ten seconds, and leave nothing behind.

    Sessions are spawned, queue inputs, are steered and interrupted, stall, crash and recover; then
    a supervisor is killed with -9, and nothing is lost. The demo needs no agent, no network and no
    daemon. On a terminal it shows a live tree, in a pipe it prints lines. It ends with a table:
    seven promises, and what was measured of each.
    """
    screen = Screen(as_json=as_json)
    output = _output(screen, _SLOWNESS if slow else 1.0)
    tempo = 1.0 if output.pause_seconds else _PIPE_TEMPO
    with log_disabled():
        return run_async(screen, partial(run_demo, output, tempo * (_SLOWNESS if slow else 1.0)))


def _output(screen: Screen, slowness: float) -> DemoOutput:
    if screen.as_json:
        return JsonOutput(screen)
    if (
        not screen.is_ansi_terminal
        or (screen.width or 0) < _MIN_WIDTH
        or not screen.has_box_characters
    ):
        return PlainOutput(screen)
    from .live_output import PAUSE_SECONDS, LiveOutput  # noqa: PLC0415 - rich takes its time

    return LiveOutput(pause_seconds=PAUSE_SECONDS * slowness)


async def run_demo(output: DemoOutput, tempo: float) -> int:
    """Run all scenes, and return the exit code."""
    began = time.monotonic()
    run = DemoRun(output, tempo)
    with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder, output.shown():
        try:
            with trio.fail_after(_MAX_SECONDS):
                await _run_scenes(run, Path(folder))
        except trio.TooSlowError:
            raise SupervisorError(
                f"the demo did not end within {_MAX_SECONDS:.0f} s",
                hint="try again when the machine is less busy, or run `understudy doctor`",
            ) from None
        seconds = time.monotonic() - began
        output.promises(run.promises)
        kept = sum(one.kept for one in run.promises)
        output.tell(
            "done",
            f"{kept} of {len(SCENES)} promises kept in {seconds:.1f} s; no files or processes"
            " remain. Next: `understudy chat`, or `understudy --help`",
            ok=kept == len(SCENES),
            **run.facts,
        )
    return OK if kept == len(SCENES) else ERROR


@contextmanager
def log_disabled() -> Iterator[None]:
    """Disable the log in the block: the crashes are part of the demo."""
    logger = logging.getLogger("supervisor")
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was


async def crash_and_recover(run: DemoRun, process: trio.Process, path: Path) -> None:
    """Kill a supervisor in the middle of its work, and look for every acknowledged input."""
    run.tell(
        "crash", f"another supervisor works in process {process.pid}, with a file as its store"
    )

    def count(acknowledged: int) -> None:
        run.remark = f"Process {process.pid} has acknowledged {acknowledged} inputs."

    killed = await kill_supervisor(process, on_count=count)
    run.remark = "The supervisor is dead."
    _tell_of_death(run, killed)
    await run.pause_briefly()
    async with open_supervisor(path, agents=[process_agent()]) as sup:
        run.show_sessions_of(sup)
        report = await check_acknowledged(sup, killed)
        _tell_of_recovery(run, report)
        await run.pause_briefly()
        run.show_no_sessions()
    run.remark = "The demo is over."
    run.facts = {
        "acknowledged": report.acknowledged,
        "found": report.found,
        "lost": len(report.missing),
        "agent_gone_seconds": killed.agent_gone_seconds,
    }
    gone = killed.agent_gone_seconds
    run.note_promise(
        "kill -9 loses nothing acknowledged",
        f"{report.found} of {report.acknowledged} inputs, agent"
        + (" still there" if gone is None else f" gone in {format_duration(gone)}"),
        kept=not report.missing and gone is not None,
    )


def _tell_of_death(run: DemoRun, killed: KilledSupervisor) -> None:
    run.tell(
        "crash",
        f"process {killed.pid} is killed with -9, after {len(killed.acknowledged)} inputs were"
        " acknowledged, in the middle of a turn",
        pid=killed.pid,
        acknowledged=len(killed.acknowledged),
    )
    gone = killed.agent_gone_seconds
    fate = (
        "is still there"
        if gone is None
        else f"is gone too: its guardian killed it within {format_duration(gone)}"
    )
    run.tell("crash", f"its agent, process {killed.agent_pid}, {fate}")


def _tell_of_recovery(run: DemoRun, report: KillReport) -> None:
    run.tell(
        "recovery",
        f"the file is opened again: {report.found} of {report.acknowledged} acknowledged inputs are"
        f" there, {len(report.missing)} are lost",
    )
    run.tell("recovery", f"the turn that ran is closed as {report.turn_outcome}, once and for all")
    run.tell("recovery", f"what waited ran, in its order: {', '.join(report.replies)}")


T = TypeVar("T")

SCENES: Final = (
    ("spawn", "Sessions form a tree, and the tree has limits."),
    ("queue", "Input for a busy session is queued."),
    ("steer", "Steering reaches a running turn."),
    ("interrupt", "An interrupt affects its scope and nothing else."),
    ("stall", "A session that makes no progress is noticed."),
    ("crash", "An agent that crashes is restarted."),
    ("crash and recovery", "kill -9 loses nothing that was acknowledged."),
)


async def _run_scenes(run: DemoRun, folder: Path) -> None:
    path = folder / "state.db"
    # The kill target starts while the other scenes run: the last scene need not wait for it.
    async with run_and_cancelling(run.show), start_kill_target(path) as process:
        await _with_one_supervisor(run)
        await _scene(run, 7, lambda: crash_and_recover(run, process, path))


async def _with_one_supervisor(run: DemoRun) -> None:
    async with open_supervisor(agents=[coder(run.tempo), process_agent()]) as sup:
        run.show_sessions_of(sup)
        team = await _scene(run, 1, lambda: scenes.spawn(run, sup))
        await _scene(run, 2, lambda: scenes.queue(run, team["backend"]))
        await _scene(run, 3, lambda: scenes.steer(run, team["frontend"]))
        await _scene(run, 4, lambda: scenes.interrupt(run, team["tests"]))
        await _scene(run, 5, lambda: scenes.stall(run, team["tests"]))
        await _scene(run, 6, lambda: scenes.crash(run, sup))
        run.show_no_sessions()


async def _scene(run: DemoRun, number: int, work: Callable[[], Awaitable[T]]) -> T:
    word, sentence = SCENES[number - 1]
    run.output.scene(number, len(SCENES), word, sentence)
    answer = await work()
    await run.pause()
    return answer
