"""`understudy demo`: the main features in a few seconds."""

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

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import ERROR, OK
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen
from supervisor.core.errors import SupervisorError

from .stage import JsonStage, PlainStage, Stage

_MAX_SECONDS: Final = 120.0
# Narrower terminals have no room for a tree.
_MIN_WIDTH: Final = 50
# A pipe has no viewers.
_PIPE_TEMPO: Final = 0.4


@click.command()
@json_option
def demo(*, as_json: bool) -> int:
    """Show the main features in a few seconds, and leave nothing behind.

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

    from .performance import perform  # noqa: PLC0415 - late
    from .play import Play  # noqa: PLC0415 - late

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
            f"that took {seconds:.1f} s, {how}, and nothing is left of it."
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
