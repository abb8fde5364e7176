"""Both sides of the counter: what a driver does for a session, and what it gets from it.

Rule 1: a driver's methods return at once. What comes of them is reported, as events of the core.
Rule 2: news of a turn names it, so that what comes late can be told from what is news.
Rule 3: a turn may be ordered before the agent is up; the driver keeps it until then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVarTuple

import attrs
import trio

from supervisor.core.creation import Message
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.events import Event
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.limits import Ladder
from supervisor.core.permissions import Permissions
from supervisor.core.session import Decision, LadderStep, Outcome, Usage

from .identity import ProcessIdentity
from .process.port import Processes

Args = TypeVarTuple("Args")
TextKind: TypeAlias = Literal["agent_text", "thought"]


class Stamp(TypedDict):
    """What every event brings: when, and an id that nobody has used."""

    at: float
    fresh: TurnId


class Turn(Protocol):
    """What others have to know of a turn: which it is, and whether it still counts."""

    @property
    def id(self) -> TurnId:
        """Which it is."""

    def refuse_if_over(self) -> None:
        """Raise `TurnOver` if it is over."""


class Office(Protocol):
    """What a driver has of its session: somewhere to report to, and a log to write into."""

    @property
    def session_id(self) -> SessionId:
        """Whose it is."""

    @property
    def workspace(self) -> str | None:
        """Where the agent is to work."""

    @property
    def permissions(self) -> Permissions:
        """What the session may touch, as of now."""

    @property
    def ladder(self) -> Ladder:
        """How patient to be with an agent that is to go."""

    @property
    def agent_session_id(self) -> str | None:
        """By which name an agent before this one knew the conversation, if by any."""

    @property
    def agent_session_cost(self) -> float:
        """What was counted of that conversation so far."""

    async def note_process(self, identity: ProcessIdentity) -> None:
        """Have it on record that this process is ours, before it is used.

        Raises `StoreDegraded` if that cannot be written.
        """

    def forget_process(self, identity: ProcessIdentity) -> None:
        """The process is dead, and was seen so."""

    def stamp(self) -> Stamp:
        """For an event that is about to be reported."""

    def new_id(self, prefix: str) -> str:
        """An id that nobody has used."""

    def report(self, event: Event) -> bool:
        """Tell the session; False if it has no room just now, and then it was not told."""

    async def report_soon(self, event: Event) -> None:
        """Tell the session, and wait until it has room for the news."""

    def report_surely(self, event: Event) -> None:
        """Tell the session, now or as soon as it has room for the news."""

    def write_text(
        self, turn: TurnId, kind: TextKind, text: str, *, continues: bool = True
    ) -> None:
        """Add text to the turn's output; raises `OutputTooLarge`.

        It is merged with what was put out before, unless it is said not to continue that.
        """

    def said(self, turn: TurnId) -> str:
        """All that the agent has said in the turn."""

    def write(
        self, turn: TurnId, kind: Literal["tool_update", "plan", "warning"], body: Mapping[str, Any]
    ) -> None:
        """Add another record to the turn's output; raises `OutputTooLarge`."""

    def charge(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        """Count what goes into a report as output too; raises `OutputTooLarge`."""

    @property
    def has_room(self) -> bool:
        """Whether `wait_for_room` would return at once."""

    async def wait_for_room(self) -> None:
        """Wait until the store has caught up with the output."""

    async def history(self, turn: TurnId) -> Sequence[Message]:
        """What was said in this chapter before the turn."""

    async def before_call(
        self, turn: TurnId, call: CallId, name: str, given: Mapping[str, Any] | None
    ) -> None:
        """Have hooks asked about a tool call; raises `PermissionDenied`."""

    async def before_request(
        self, turn: TurnId, request: RequestId, asked: Mapping[str, Any]
    ) -> str | None:
        """Have hooks asked about a question; gives the one that says no, if one does."""

    def spend(self, turn: TurnId, usage: Usage) -> None:
        """Count what the turn has used, at once; raises `BudgetSpent` if there was nothing left."""

    async def spawn(self, turn: Turn, agent: str, text: str, **options: Any) -> Child:  # noqa: ANN401
        """A child of the session, up and at work on the text; raises `SpawnRefused`."""

    async def descendant(self, turn: Turn, session_id: str) -> Child:
        """One below the session; raises `PermissionDenied` for anyone else."""

    async def load_news(self) -> None:
        """Have what is to be told of its children at hand."""

    def news(self, turn: TurnId) -> list[News]:
        """What the agent has not been told of its children; from now on it has."""

    def requests(self) -> list[ChildRequest]:
        """What those below the session wait to be allowed, if it may answer that."""

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        """Decide for one below; raises `PermissionDenied` if that is more than it may itself."""


@attrs.frozen
class News:
    """What became of a child: it began, or its errand or the child itself ended.

    `outcome` is that of the text that it was spawned with, `text` what it said last; `reason` says
    why the child itself has stopped, and is None while it has not.
    """

    kind: Literal["child_started", "child_ended"]
    child: SessionId
    agent: str
    name: str | None
    role: str | None
    at: float
    outcome: Outcome | None = None
    text: str = ""
    reason: str | None = None
    detail: str | None = None


@attrs.frozen
class Hindrance:
    """What keeps an agent from working, as far as its driver sees: what it waits for, and why."""

    waits_for: str
    detail: str


@attrs.frozen
class ChildRequest:
    """What a descendant waits to be allowed."""

    id: RequestId
    session_id: SessionId
    tool: str
    question: str
    options: tuple[Decision, ...]


class Child(Protocol):
    """What an agent has of one below it; `supervisor.Child` is one, and says what it can do."""

    @property
    def id(self) -> SessionId:
        """Which it is."""

    async def wait(self) -> Any:  # noqa: ANN401 - a TurnResult
        """The result of the text that it was spawned with."""

    async def send(self, text: str, **options: Any) -> Any:  # noqa: ANN401 - a Receipt
        """Give it another input."""

    async def prompt(self, text: str, **options: Any) -> Any:  # noqa: ANN401 - a TurnResult
        """Give it another input, and wait for what comes of it."""

    async def result(self, input_id: str) -> Any:  # noqa: ANN401 - a TurnResult
        """Wait for what comes of an input that it was given."""

    async def steer(self, text: str) -> Any:  # noqa: ANN401 - a Receipt
        """Guidance for what it is doing."""

    async def interrupt(self, scope: Any = "turn", *, reason: str | None = None) -> Any:  # noqa: ANN401
        """Interrupt what it is doing."""

    async def stop(self) -> None:
        """Stop it, and all that live with it."""

    async def info(self) -> Any:  # noqa: ANN401 - an Info
        """How it is."""


class Driver(Protocol):
    """One agent, at work for one session."""

    def start(self) -> None:
        """Bring the agent up: AgentAttached or AgentStartFailed."""

    def start_turn(self, order: StartTurn) -> None:
        """Run the agent on an input: TurnEnded, or AgentExited."""

    def adopt_turn(self, order: AdoptTurn) -> None:
        """The turn that the agent has begun by itself is this one: TurnEnded, or AgentExited."""

    def offer_steering(self, offer: OfferSteering) -> None:
        """Have this for the turn: SteeringTaken when the agent has taken it.

        One that takes it at once does so only if it was `handed`, and may also report
        SteeringDeclined or SteeringBeganTurn.
        """

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        """Do not give that text to the turn any more, if it has not been given."""

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        """Take a step of the ladder: TurnEnded, or nothing."""

    def abandon_turn(self, turn: TurnId) -> None:
        """The turn is over, whatever the agent does: ZombieEnded when it does no more."""

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        """Cancel one tool call: CallEnded."""

    def end_background(self) -> None:
        """End what the agent has running besides its turn, as far as that is ours to end."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """Hand the decision to whoever asked."""

    def close(self) -> None:
        """Let the agent go: AgentClosed when nothing of it is left, or only a zombie."""

    def hindrance(self) -> Hindrance | None:
        """What keeps the agent from working, looked at now; None if nothing is known to."""

    def drop(self) -> None:
        """Nobody listens any more: cancel what runs, and report only ZombieEnded, if at all."""


class AgentKind(Protocol):
    """What users give to `open()`: a name, and how to drive it."""

    @property
    def name(self) -> str:
        """By which sessions ask for it."""

    @property
    def runs_process(self) -> bool:
        """Whether each agent is a process of its own, for as long as its session is awake.

        Such a driver waits by itself for its turn to start (`Workshop.slots`, `.starting`).
        """

    def make_driver(self, office: Office, workshop: Workshop) -> Driver:
        """A driver for one session."""


class Workshop:
    """Where the work of all drivers runs, apart from the sessions it is for."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        processes: Processes | None = None,
        max_agent_processes: int = 64,
        start_concurrency: int = 4,
    ) -> None:
        self._nursery = nursery
        self._processes = processes
        self.is_closed = False
        # One for each agent that is a process, from before it starts until nothing is left of it;
        # and one for each that is on its way up. Whoever waits for the first may ask for room.
        self.slots = trio.CapacityLimiter(max_agent_processes)
        self.starting = trio.CapacityLimiter(start_concurrency)
        self.make_room: Callable[[], object] = lambda: None
        # Set when the supervisor leaves; work that would never end by itself may look at it.
        self.closing = trio.Event()
        # Turns whose work goes on though they are over, and whose they are.
        self.zombies: dict[TurnId, str] = {}

    @property
    def processes(self) -> Processes:
        """Whoever runs processes here."""
        assert self._processes is not None
        return self._processes

    def start_soon(
        self, work: Callable[[*Args], Awaitable[object]], *args: *Args, name: str | None = None
    ) -> None:
        """Run it in a task of its own; when all has been closed, nothing runs any more."""
        if not self.is_closed:
            self._nursery.start_soon(work, *args, name=name)

    def close(self) -> None:
        """Cancel whatever still runs, and let nothing begin."""
        self.is_closed = True
        self._nursery.cancel_scope.cancel(reason="the supervisor has left")
