"""State shared by the scenes: the stage, the current sessions, what each does, and waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio
from trio_util import periodic

from supervisor.core.errors import SupervisorError
from supervisor.core.records import Record
from supervisor.handles.session import Session
from supervisor.handles.supervisor import Supervisor
from supervisor.sessions.feed import Watcher

from .stage import Stage

if TYPE_CHECKING:
    from supervisor.sessions.hooks import HookEvent


_LONGEST: Final = 200


class Activity:
    """Activity by session; pass `on_record` to `sup.hooks.add("record_written", ...)`."""

    def __init__(self) -> None:
        self.by_session: dict[str, str] = {}
        self._calls: dict[str, dict[str, str]] = {}

    def on_record(self, event: HookEvent) -> None:
        """Update the activity of the record's session."""
        session, body = str(event.session_id), event.data["body"]
        calls = self._calls.setdefault(session, {})
        match event.data["kind"]:
            case "tool_call":
                calls[body["call_id"]] = body["name"]
            case "tool_ended":
                calls.pop(body["call_id"], None)
            case "agent_text":
                self.by_session[session] = f"says: {body['text'].strip()[-_LONGEST:]}"
                return
            case "turn_started" | "turn_ended":
                calls.clear()
                self.by_session[session] = ""
            case "quiet":
                self.by_session[session] = "is quiet"
            case "stalled":
                self.by_session[session] = "is stalled"
            case "agent_restarting":
                calls.clear()
                self.by_session[session] = "its agent died"
        if calls:
            self.by_session[session] = f"at work: {', '.join(calls.values())}"


_LOOK_EVERY_SECONDS: Final = 0.1


@attrs.define
class Play:
    """One run of the demo."""

    stage: Stage
    tempo: float
    # The supervisor on the stage and its activity; None between two supervisors.
    sup: Supervisor | None = None
    activity: Activity = attrs.field(factory=Activity)
    # Shown while the stage is empty.
    remark: str = "The stage is empty."
    # Facts of the last line: the proof, once there is one.
    facts: dict[str, Any] = attrs.field(factory=dict)

    def enter(self, sup: Supervisor) -> None:
        """Put the sessions of a supervisor on the stage."""
        self.sup, self.activity = sup, Activity()
        sup.hooks.add("record_written", self.activity.on_record)

    def leave(self) -> None:
        """Empty the stage."""
        self.sup = None

    def tell(self, word: str, sentence: str, **facts: object) -> None:
        """Print an event."""
        self.stage.tell(word, sentence, **facts)

    async def breathe(self) -> None:
        """Pause, so that viewers can follow."""
        await trio.sleep(self.stage.breath_seconds)

    async def breathe_shortly(self) -> None:
        """Pause briefly, so that viewers see an intermediate state."""
        await trio.sleep(self.stage.breath_seconds / 2)

    async def show(self) -> None:
        """Show the tree periodically until cancelled."""
        # aclosing: a cancelled look leaves the generator suspended, which trio warns about.
        async with aclosing(periodic(_LOOK_EVERY_SECONDS)) as ticks:
            async for _ in ticks:
                sup = self.sup
                try:
                    roots = () if sup is None else await sup.tree()
                except SupervisorError:  # the supervisor has just closed
                    roots = ()
                self.stage.show(roots, self.activity.by_session, self.remark)


@asynccontextmanager
async def followed(session: Session) -> AsyncIterator[Watcher]:
    """Yield a watcher of the session's records from now on."""
    async with session.watch(after=(await session.info()).last_seq) as feed:
        yield feed


async def wait_for_record(feed: Watcher, kind: str, **wanted: object) -> Record:
    """Wait for a record of that kind whose body contains the given values."""
    async for item in feed:
        if not isinstance(item, Record) or item.kind != kind:
            continue
        if all(item.body.get(name) == value for name, value in wanted.items()):
            return item
    raise SupervisorError(
        f"the session ended without a record {kind}", hint="run `understudy doctor`"
    )
