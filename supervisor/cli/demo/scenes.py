"""The scenes, one function each: something is done, and what came of it is told.

Rule 1: a scene waits for facts, never for time; what is told has happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

import supervisor
from supervisor.cli.terminal.times import duration
from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Watcher
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.supervisor import Supervisor

from .proof import agents, kill_one, prove
from .stage import Stage

STALLED_AFTER_SECONDS: Final = 1.0
CHILDREN: Final = 3


@attrs.define
class Play:
    """What the scenes have in common: where they are shown, and who is on."""

    stage: Stage
    sup: Supervisor
    director: Session
    tempo: float

    def tell(self, word: str, sentence: str, **facts: object) -> None:
        """Something has happened."""
        self.stage.tell(word, sentence, **facts)

    async def breathe(self) -> None:
        """Let people look at it."""
        await trio.sleep(self.stage.breath_seconds)


async def spawn(play: Play) -> dict[str, Session]:
    """Children up to the cap, and one more."""
    cast = {}
    for name, agent in (("lights", "scripted"), ("sound", "musician"), ("props", "carpenter")):
        child = await play.director.spawn(agent, "say ready" if agent == "scripted" else "wait")
        await child.set(title=name)
        cast[name] = child
    return cast


async def until(feed: Watcher, kind: str, **wanted: object) -> Record:
    """Wait for a record of that kind, with that in its body."""
    async for item in feed:
        if isinstance(item, Record) and item.kind == kind:
            if all(item.body.get(name) == value for name, value in wanted.items()):
                return item
    raise supervisor.SupervisorError(
        f"nobody will ever write {kind}", hint="this is a defect of the demo"
    )


@asynccontextmanager
async def followed(session: Session) -> AsyncIterator[Watcher]:
    """What is written about a session from now on."""
    last = (await session.info()).last_seq
    async with session.watch(after=last) as feed:
        yield feed


def told(path: Path) -> str:
    """A file's name, for people."""
    return path.name


__all__ = ["agents", "duration", "kill_one", "prove"]
