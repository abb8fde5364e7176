"""A fake `DriverContext`, which tests/drivers/test_driver_context.py compares with the real one.

`events` are the reported events, `output` what was written. Between `fill()` and `make_room()` the
session's mailbox is full; between `fall_behind()` and `catch_up()` the store is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import trio
from trio.lowlevel import ParkingLot

from supervisor.core.agent_events import TurnEnded
from supervisor.core.agent_options import OptionValue
from supervisor.core.creation import Message
from supervisor.core.effects import OfferSteering, StartTurn
from supervisor.core.errors import OutputTooLarge, PermissionDenied, SpawnRefused
from supervisor.core.events import Event
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.limits import Ladder
from supervisor.core.permissions import Permissions
from supervisor.core.records import DataKind
from supervisor.core.state import Decision, Usage
from supervisor.core.workspace_root import WorkspaceRoot, is_inside
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import (
    AgentKind,
    ChildHandle,
    ChildRequest,
    News,
    Stamp,
    TextKind,
    TurnHandle,
)
from supervisor.drivers.runtime import DriverRuntime
from supervisor.drivers.workspaces import find_root

E = TypeVar("E", bound=Event)


class FakeDriverContext:
    """A `port.DriverContext` without a session."""

    def __init__(
        self,
        *,
        workspace: str | None = None,
        permissions: Permissions | None = None,
        max_turn_bytes: int = 1_000_000,
        past: Sequence[Message] = (),
    ) -> None:
        self.session_id = SessionId("s_1")
        self.epoch = 1
        self.workspace = workspace
        self._root = None if workspace is None else find_root(workspace)
        self.permissions = permissions or Permissions()
        self.events: list[Event] = []
        self.output: list[tuple[TurnId, str, Any]] = []
        # Called with each event at once: a session that reacts before any other task runs.
        self.on_report: Callable[[Event], None] = lambda _: None
        self.ladder = Ladder()
        self.agent_session_id: str | None = None
        self.agent_session_cost = 0.0
        self.wanted_options: dict[str, OptionValue] = {}
        self.given_servers: list[dict[str, Any]] = []
        self.missing_servers: list[str] = []
        # The processes that are recorded now, and all that ever were.
        self.processes: list[ProcessIdentity] = []
        self.processes_ever: list[ProcessIdentity] = []
        self._max_turn_bytes = max_turn_bytes
        self._past = past
        self._turn: TurnId | None = None
        self._bytes = 0
        # Calls of `mark_progress`.
        self.progress = 0
        self._ids = 0
        self._is_full = self._is_behind = False
        self._late: list[Event] = []
        self._changed = ParkingLot()

    # For the test -------------------------------------------------------------------------

    def begin(self, turn: TurnId) -> None:
        """Accept output of this turn from now on."""
        self._turn, self._bytes = turn, 0

    async def heard(self, kind: type[E], *, times: int = 1) -> E:
        """Wait until such an event was reported that often, and return the last of them."""
        while len(self.all(kind)) < times:
            await self._changed.park()
        return self.all(kind)[times - 1]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def fill(self) -> None:
        self._is_full = True

    def make_room(self) -> None:
        self._is_full = False
        late, self._late = self._late, []
        for event in late:
            self.report(event)
        self._changed.unpark_all()

    def fall_behind(self) -> None:
        self._is_behind = True

    def catch_up(self) -> None:
        self._is_behind = False
        self._changed.unpark_all()

    # For the driver -----------------------------------------------------------------------

    async def workspace_root(self) -> WorkspaceRoot | None:
        await trio.lowlevel.checkpoint()
        return self._root

    async def is_in_workspace(self, path: str) -> bool:
        await trio.lowlevel.checkpoint()
        return self._root is not None and is_inside(
            str(Path(self._root.path, path)), self._root.path
        )

    async def record_process(self, identity: ProcessIdentity) -> None:
        await trio.lowlevel.checkpoint()
        self.processes.append(identity)
        self.processes_ever.append(identity)

    def forget_process(self, identity: ProcessIdentity) -> None:
        self.processes.remove(identity)

    def stamp(self) -> Stamp:
        now = trio.current_time()
        return {"at": now, "steady_at": now, "fresh": TurnId(self.new_id("turn"))}

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{self._ids}"

    def report(self, event: Event) -> bool:
        if self._is_full:
            return False
        if isinstance(event, TurnEnded) and event.text is None:
            # As in a session: the text of a turn is known at its end.
            event = event.changed(text=self.received_text(event.turn))
        self.events.append(event)
        self._changed.unpark_all()
        self.on_report(event)
        return True

    async def report_when_possible(self, event: Event) -> None:
        while not self.report(event):
            await self._changed.park()
        await trio.lowlevel.checkpoint()

    def report_eventually(self, event: Event) -> None:
        if not self.report(event):
            self._late.append(event)

    async def before_call(
        self, turn: TurnId, call: CallId, name: str, tool_input: Mapping[str, Any] | None
    ) -> None:
        """Allow every call."""

    async def before_request(
        self, turn: TurnId, request: RequestId, details: Mapping[str, Any]
    ) -> str | None:
        return None

    def record_usage(self, turn: TurnId, usage: Usage) -> None:
        """Accept any usage."""

    async def spawn(self, turn: TurnHandle, agent: str, text: str, **options: Any) -> ChildHandle:  # noqa: ANN401
        raise SpawnRefused(
            "a fake session has no children", hint="none", limit="max_children", used=0, allowed=0
        )

    async def descendant(self, turn: TurnHandle, session_id: str) -> ChildHandle:
        raise PermissionDenied("a fake session has no descendants", hint="none")

    def news(self, turn: TurnId) -> list[News]:
        return []

    def requests(self) -> list[ChildRequest]:
        return []

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        raise PermissionDenied("a fake session has no descendants", hint="none")

    def write_text(
        self, turn: TurnId, kind: TextKind, text: str, *, continues: bool = True
    ) -> None:
        self._write(turn, kind, text, size=len(text.encode()))

    def count_output(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        self._grow(turn, len(str(body)))

    def write(self, turn: TurnId, kind: DataKind, body: Mapping[str, Any]) -> None:
        self._write(turn, kind, body, size=len(str(body)))

    def written(self, kind: str) -> list[Any]:
        """Return the bodies of all records of that kind."""
        return [body for _, written, body in self.output if written == kind]

    def received_text(self, turn: TurnId) -> str:
        if turn != self._turn:
            return ""
        return "".join(
            body for written, kind, body in self.output if (written, kind) == (turn, "agent_text")
        )

    def write_answer(self, turn: TurnId, text: str) -> None:
        if text != self.received_text(turn):
            self.write_text(turn, "agent_text", text, continues=False)

    def mark_progress(self) -> None:
        self.progress += 1

    @property
    def is_writable(self) -> bool:
        return not self._is_behind

    async def pace(self, messages: int) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_writable(self) -> None:
        while self._is_behind:
            await self._changed.park()
        await trio.lowlevel.checkpoint()

    async def history(self, turn: TurnId) -> Sequence[Message]:
        await trio.lowlevel.checkpoint()
        return self._past

    async def prepare_turn(self, turn: TurnId) -> Sequence[Message]:
        return await self.history(turn)

    def _write(self, turn: TurnId, kind: str, body: object, *, size: int) -> None:
        if self._grow(turn, size):
            self.output.append((turn, kind, body))

    def _grow(self, turn: TurnId, size: int) -> bool:
        if turn != self._turn:
            return False  # the turn is over
        if self._bytes + size > self._max_turn_bytes:
            raise OutputTooLarge("too much", hint="say less")
        self._bytes += size
        return True


class DriverHarness:
    """A driver with a fake session, controlled by a test."""

    def __init__(
        self, agent: AgentKind, runtime: DriverRuntime, context: FakeDriverContext | None = None
    ) -> None:
        self.context = context or FakeDriverContext()
        self.runtime = runtime
        self.driver = agent.make_driver(self.context, runtime)
        self._turns = 0

    def order(self, text: str) -> TurnId:
        """Start a turn with that input."""
        self._turns += 1
        turn = TurnId(f"turn_{self._turns}")
        self.context.begin(turn)
        self.driver.start_turn(StartTurn(turn, InputId(f"in_{self._turns}"), text))
        return turn

    def steer(self, turn: TurnId, name: str, text: str) -> None:
        self.driver.offer_steering(OfferSteering(turn, InputId(name), text))

    def withdraw(self, turn: TurnId, name: str) -> None:
        self.driver.withdraw_steering(turn, InputId(name))
