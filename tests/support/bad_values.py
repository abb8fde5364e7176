"""Values that every argument must refuse, and a supervisor to try them on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from supervisor import (
    Session,
    Supervisor,
)
from tests.support.fake_agents import AgentRun, records

LONE_SURROGATE = "\ud800"  # half of a character
BAD_IDS: list[Any] = [
    5,
    1.5,
    True,
    None,
    b"s_1",
    [],
    {},
    "",
    "s",
    "S_1",
    "../etc",
    "s_1/..",
    "a" * 65,
    LONE_SURROGATE,
]


BAD_NAMES: list[Any] = [5, 1.5, True, b"x", ["a"], {"a": "b"}, "", " ", LONE_SURROGATE, "x" * 2000]


@attrs.define
class Scenario:
    """A supervisor in full swing: one session is busy, asks and has a queue, the other is idle.

    Besides there is one that is over, and a file that could be imported.
    """

    sup: Supervisor
    busy: Session
    idle: Session
    stopped: Session
    queued: str
    request: str
    file: Path

    @classmethod
    async def create(
        cls, sup: Supervisor, session: Session, run: AgentRun, folder: Path
    ) -> Scenario:
        """Make the sessions around the running turn of `session`."""
        queued = await session.send("second")
        run.begin(run.turn.ask("may I?", tool="bash"))
        idle, stopped = await sup.create("echo"), await sup.create("echo")
        await stopped.stop()
        file = folder / "session.jsonl"
        file.write_text(await stopped.export("jsonl"))
        await trio.testing.wait_all_tasks_blocked()
        [request] = await sup.permissions()
        return cls(sup, session, idle, stopped, queued.input_id, request.id, file)

    async def picture(self) -> list[object]:
        """All that could have changed."""
        infos = (await self.sup.list()).items
        found: list[object] = [infos, await self.sup.permissions()]
        for info in infos:
            found.append(await records(self.sup.session(info.id)))
            found.append(await self.sup.session(info.id).inputs())
        return found


async def watch(session: Session, after: Any) -> None:  # noqa: ANN401
    async with session.watch(after=after):
        pass


def shown(bad: object) -> str:
    # Without addresses: every worker must give a test the same name.
    return re.sub(" at 0x[0-9a-f]+", "", ascii(bad))[:40]
