"""What the scenes have in common: where they are shown, who is on, and waiting for facts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from supervisor.core.errors import SupervisorError
from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Watcher
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.supervisor import Supervisor

from .doings import Doings
from .stage import Stage

_LOOK_EVERY_SECONDS: Final = 0.1


@attrs.define
class Play:
    """One performance."""

    stage: Stage
    tempo: float
    # Whose sessions are on the stage, and what they do; None between two supervisors.
    sup: Supervisor | None = None
    doings: Doings = attrs.field(factory=Doings)
    # What is shown while nobody is on.
    remark: str = "The stage is empty."
    # What the last line is made of: the proof, once there is one.
    facts: dict[str, Any] = attrs.field(factory=dict)

    def enter(self, sup: Supervisor) -> None:
        """Have these sessions on the stage."""
        self.sup, self.doings = sup, Doings()
        sup.hooks.add("record_written", self.doings.hear)

    def leave(self) -> None:
        """Have nobody on it."""
        self.sup = None

    def tell(self, word: str, sentence: str, **facts: object) -> None:
        """Something has happened."""
        self.stage.tell(word, sentence, **facts)

    async def breathe(self) -> None:
        """Let people look at it."""
        await trio.sleep(self.stage.breath_seconds)

    async def breathe_shortly(self) -> None:
        """Let people see that there is a state in between."""
        await trio.sleep(self.stage.breath_seconds / 2)

    async def show(self) -> None:
        """Show how everybody is, again and again, until this is cancelled."""
        while True:
            sup = self.sup
            try:
                roots = () if sup is None else await sup.tree()
            except SupervisorError:  # it has just left
                roots = ()
            self.stage.show(roots, self.doings.now, self.remark)
            await trio.sleep(_LOOK_EVERY_SECONDS)


@asynccontextmanager
async def followed(session: Session) -> AsyncIterator[Watcher]:
    """What is written about a session from now on."""
    async with session.watch(after=(await session.info()).last_seq) as feed:
        yield feed


async def until(feed: Watcher, kind: str, **wanted: object) -> Record:
    """Wait for a record of that kind, with that in its body."""
    async for item in feed:
        if not isinstance(item, Record) or item.kind != kind:
            continue
        if all(item.body.get(name) == value for name, value in wanted.items()):
            return item
    raise SupervisorError(
        f"the session is gone, and there was no {kind}", hint="`understudy doctor` looks around"
    )
