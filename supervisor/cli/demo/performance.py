"""The demo from beginning to end: the scenes in their order, and the tree that is shown beside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import trio

from supervisor.runtime import open as open_supervisor

from . import scenes
from .kill import crash_and_recover
from .play import Play
from .players import player, stagehand
from .proof import doomed

T = TypeVar("T")

SCENES: Final = (
    ("spawn", "Sessions stand in a tree, and the tree has caps."),
    ("queue", "Input for somebody who is busy waits its turn."),
    ("steer", "Guidance reaches a turn that is running."),
    ("interrupt", "An interrupt hits what it names, and nothing else."),
    ("stall", "Whoever falls silent is noticed."),
    ("crash", "An agent that dies is started again."),
    ("crash and recovery", "kill -9 loses nothing that was acknowledged."),
)


async def perform(play: Play, folder: Path) -> bool:
    """All scenes; gives whether the last one has found everything again."""
    path = folder / "state.db"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(play.show)
        # It comes up while the others play, so that nobody has to wait for it.
        async with doomed(path) as process:
            await _with_one_supervisor(play)
            nothing_lost = await _scene(play, 7, lambda: crash_and_recover(play, process, path))
        nursery.cancel_scope.cancel(reason="the play is over")
    return nothing_lost


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
