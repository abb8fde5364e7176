"""`understudy demo`: all that it does, in a few seconds."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click

from supervisor.cli.ground.failures import ERROR, OK
from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import SupervisorError

from .stage import JsonStage, PlainStage, Stage

_LONGEST_SECONDS: Final = 120.0
# Below that, a tree has no room.
_NARROWEST: Final = 50
# Nobody watches a pipe.
_HURRIED: Final = 0.4


@click.command()
@json_option
def demo(*, as_json: bool) -> int:
    """Show what this is, in a few seconds, and leave nothing behind.

    Sessions are spawned, queue their input, are steered and interrupted, stall, crash and recover;
    then a supervisor is killed with -9, and nothing is lost. It needs no agent of yours, no network
    and no daemon. On a terminal the tree is live, in a pipe there are lines.
    """
    screen = Screen(as_json=as_json)
    stage = _stage(screen)
    is_live = stage.breath_seconds > 0
    with _quiet():
        return run_async(screen, partial(_perform, stage, 1.0 if is_live else _HURRIED))


def _stage(screen: Screen) -> Stage:
    if screen.as_json:
        return JsonStage(screen)
    if not screen.is_lively or (screen.width or 0) < _NARROWEST or not screen.has_box_characters:
        return PlainStage(screen)
    from .live import LiveStage  # noqa: PLC0415 - rich takes its time

    return LiveStage()


async def _perform(stage: Stage, tempo: float) -> int:
    import trio  # noqa: PLC0415 - late

    from .performance import perform  # noqa: PLC0415 - late
    from .play import Play  # noqa: PLC0415 - late

    began = time.monotonic()
    play = Play(stage, tempo)
    with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder, stage.lit():
        try:
            with trio.fail_after(_LONGEST_SECONDS):
                nothing_lost = await perform(play, Path(folder))
        except trio.TooSlowError:
            raise SupervisorError(
                f"the demo was not over after {_LONGEST_SECONDS:.0f} s",
                hint="try again when this machine has less to do; `understudy doctor` looks around",
            ) from None
        seconds = time.monotonic() - began
        how = "nothing was lost" if nothing_lost else "something was lost, which must not be"
        stage.tell(
            "done",
            f"that took {seconds:.1f} s, {how}, and nothing is left of it."
            " Next: `understudy chat`, or `understudy --help`",
            ok=nothing_lost,
            **play.facts,
        )
    return OK if nothing_lost else ERROR


@contextmanager
def _quiet() -> Iterator[None]:
    """What the log would say about deaths is what the story tells."""
    logger = logging.getLogger("supervisor")
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was
