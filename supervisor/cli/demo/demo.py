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
from .proof import KilledSupervisor, Proof, kill_supervisor, prove, start_kill_target
from .scenes import player, stagehand
from .stage import JsonStage, PlainStage, Play, Stage

_MAX_SECONDS: Final = 120.0
# Narrower terminals have no room for a tree.
_MIN_WIDTH: Final = 50
# A pipe has no viewers.
_PIPE_TEMPO: Final = 0.4


@click.command()
@json_option
def demo(*, as_json: bool) -> int:
    """Show the main features in about ten seconds, and leave nothing behind.

    Sessions are spawned, queue inputs, are steered and interrupted, stall, crash and recover; then
    a supervisor is killed with -9, and nothing is lost. The demo needs no agent, no network and no
    daemon. On a terminal it shows a live tree, in a pipe it prints lines.
    """
    screen = Screen(as_json=as_json)
    stage = _stage(screen)
    is_live = stage.breath_seconds > 0
    with _log_disabled():
        return run_async(screen, partial(_perform, stage, 1.0 if is_live else _PIPE_TEMPO))


def _stage(screen: Screen) -> Stage:
    if screen.as_json:
        return JsonStage(screen)
    if (
        not screen.is_ansi_terminal
        or (screen.width or 0) < _MIN_WIDTH
        or not screen.has_box_characters
    ):
        return PlainStage(screen)
    from .show_live import LiveStage  # noqa: PLC0415 - rich takes its time

    return LiveStage()


async def _perform(stage: Stage, tempo: float) -> int:
    import trio  # noqa: PLC0415 - late

    from .demo import perform  # noqa: PLC0415 - late
    from .stage import Play  # noqa: PLC0415 - late

    began = time.monotonic()
    play = Play(stage, tempo)
    with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder, stage.lit():
        try:
            with trio.fail_after(_MAX_SECONDS):
                nothing_lost = await perform(play, Path(folder))
        except trio.TooSlowError:
            raise SupervisorError(
                f"the demo did not end within {_MAX_SECONDS:.0f} s",
                hint="try again when the machine is less busy, or run `understudy doctor`",
            ) from None
        seconds = time.monotonic() - began
        how = "nothing was lost" if nothing_lost else "something was lost, which must not be"
        stage.tell(
            "done",
            f"that took {seconds:.1f} s, {how}, and no files or processes remain."
            " Next: `understudy chat`, or `understudy --help`",
            ok=nothing_lost,
            **play.facts,
        )
    return OK if nothing_lost else ERROR


@contextmanager
def _log_disabled() -> Iterator[None]:
    """Disable the log in the block: the crashes are part of the demo."""
    logger = logging.getLogger("supervisor")
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was


async def crash_and_recover(play: Play, process: trio.Process, path: Path) -> bool:
    """Run the last scene; return True if every acknowledged input was found in the file."""
    play.tell(
        "crash", f"another supervisor works in process {process.pid}, with a file as its store"
    )

    def count(acknowledged: int) -> None:
        play.remark = f"Process {process.pid} has acknowledged {acknowledged} inputs."

    killed = await kill_supervisor(process, on_count=count)
    play.remark = "The supervisor is dead."
    _tell_of_death(play, killed)
    await play.breathe_shortly()
    async with open_supervisor(path, agents=[stagehand()]) as sup:
        play.enter(sup)
        proof = await prove(sup, killed)
        _tell_of_recovery(play, proof)
        await play.breathe_shortly()
        play.leave()
    play.remark = "The show is over."
    play.facts = {
        "acknowledged": proof.acknowledged,
        "found": proof.found,
        "lost": len(proof.missing),
        "agent_gone_seconds": killed.agent_gone_seconds,
    }
    return not proof.missing and killed.agent_gone_seconds is not None


def _tell_of_death(play: Play, killed: KilledSupervisor) -> None:
    play.tell(
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
    play.tell("crash", f"its agent, process {killed.agent_pid}, {fate}")


def _tell_of_recovery(play: Play, proof: Proof) -> None:
    play.tell(
        "recovery",
        f"the file is opened again: {proof.found} of {proof.acknowledged} acknowledged inputs are"
        f" there, {len(proof.missing)} are lost",
    )
    play.tell("recovery", f"the turn that ran is closed as {proof.turn_outcome}, once and for all")
    play.tell("recovery", f"what waited ran, in its order: {', '.join(proof.replies)}")


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


async def perform(play: Play, folder: Path) -> bool:
    """Run all scenes; return True if every acknowledged input was found at the end."""
    path = folder / "state.db"
    # The kill target starts while the other scenes run: the last scene need not wait for it.
    async with run_and_cancelling(play.show), start_kill_target(path) as process:
        await _with_one_supervisor(play)
        return await _scene(play, 7, lambda: crash_and_recover(play, process, path))


async def _with_one_supervisor(play: Play) -> None:
    async with open_supervisor(agents=[player(play.tempo), stagehand()]) as sup:
        play.enter(sup)
        cast = await _scene(play, 1, lambda: scenes.spawn(play, sup))
        await _scene(play, 2, lambda: scenes.queue(play, cast["lights"]))
        await _scene(play, 3, lambda: scenes.steer(play, cast["sound"]))
        await _scene(play, 4, lambda: scenes.interrupt(play, cast["props"]))
        await _scene(play, 5, lambda: scenes.stall(play, cast["props"]))
        await _scene(play, 6, lambda: scenes.crash(play, sup))
        play.leave()


async def _scene(play: Play, number: int, work: Callable[[], Awaitable[T]]) -> T:
    word, sentence = SCENES[number - 1]
    play.stage.scene(number, len(SCENES), word, sentence)
    answer = await work()
    await play.breathe()
    return answer
