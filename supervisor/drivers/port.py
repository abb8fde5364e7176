"""The contract between a session and the driver of its agent.

`Driver` and `AgentKind` are what the author of a driver implements. `DriverContext` and
`DriverRuntime` are what a driver receives and may call.

Rule 1: the methods of a driver return at once. Results are reported as events of the core
        (`DriverContext.report` and its variants); each method names the events that may follow it.
Rule 2: an event about a turn carries the turn's id, so that the session can tell a late event from
        a current one.
Rule 3: a turn may be started before AgentAttached was reported; the driver keeps it until then.
Rule 4: a method that raises ends the agent, as if its start had failed or it had exited; `discard`
        is then the last call. A method that returns an awaitable, or reports anything but an agent
        event (`agent_events.DRIVER_EVENTS`), raises.
Rule 5: a start and a close are reported in time: the start of an in-process agent within 60 s, a
        close within the ladder and 5 s. Otherwise the driver is discarded, as if it had failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

import attrs

from supervisor.core.agent_options import OptionValue
from supervisor.core.creation import Message, PromptOptions, SendOptions, SpawnOptions
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.events import Event
from supervisor.core.ids import CallId, InputId, RequestId, SessionId, TurnId
from supervisor.core.info import Info
from supervisor.core.limits import Ladder
from supervisor.core.permissions import Permissions
from supervisor.core.receipts import InterruptReport, Receipt, TurnResult
from supervisor.core.records import DataKind
from supervisor.core.scopes import Scope
from supervisor.core.state import Decision, LadderStep, Outcome, Usage
from supervisor.core.workspace_root import WorkspaceRoot

from .identity import ProcessIdentity
from .runtime import DriverRuntime

TextKind: TypeAlias = Literal["agent_text", "thought"]


class Stamp(TypedDict):
    """The fields that every event has: its time by both clocks, and an unused turn id."""

    at: float
    steady_at: float
    fresh: TurnId


class TurnHandle(Protocol):
    """The turn on whose behalf an agent acts."""

    @property
    def id(self) -> TurnId:
        """The id of the turn."""

    def raise_if_over(self) -> None:
        """Raise `TurnOver` if the turn has ended, was interrupted or was abandoned."""


class DriverContext(Protocol):
    """The session as its driver sees it: settings, events, output, hooks and children."""

    @property
    def session_id(self) -> SessionId:
        """The id of the session."""

    @property
    def epoch(self) -> int:
        """The epoch of the incarnation that the driver belongs to."""

    @property
    def workspace(self) -> str | None:
        """The working directory of the agent; None if the session has none."""

    async def workspace_root(self) -> WorkspaceRoot | None:
        """Return the folder of the workspace, before it is used; None if the session has none.

        Raise `ConfigError` if it is not the folder that the session was given.
        """

    async def is_in_workspace(self, path: str) -> bool:
        """Return True if a path, relative to the workspace, is inside it, links resolved."""

    @property
    def permissions(self) -> Permissions:
        """The current permissions of the session."""

    @property
    def ladder(self) -> Ladder:
        """The durations of the steps by which an agent is stopped."""

    @property
    def agent_session_id(self) -> str | None:
        """The agent's own id of the conversation, from an earlier incarnation; None if unknown."""

    @property
    def wanted_options(self) -> Mapping[str, OptionValue]:
        """The options that the session wants, by id or short name; for a start of the agent."""

    @property
    def given_servers(self) -> Sequence[Mapping[str, Any]]:
        """The MCP servers that a caller gave to the session, as in ACP; they may hold secrets."""

    @property
    def missing_servers(self) -> Sequence[str]:
        """Names of servers that were given before the supervisor was restarted, and are gone."""

    @property
    def agent_session_cost(self) -> float:
        """The cost counted so far for the conversation `agent_session_id`."""

    async def record_process(self, identity: ProcessIdentity) -> None:
        """Record durably that this process belongs to the session, before it runs any code.

        Raises `StoreDegraded` if the store cannot write.
        """

    def forget_process(self, identity: ProcessIdentity) -> None:
        """Remove a recorded process. The driver must have seen that the process is dead."""

    def stamp(self) -> Stamp:
        """Return the time and the unused turn id of an event that is about to be reported."""

    def new_id(self, prefix: str) -> str:
        """Return an unused id that starts with the prefix."""

    def report(self, event: Event) -> bool:
        """Send an event to the session; return False, with nothing sent, if its mailbox is full."""

    async def report_when_possible(self, event: Event) -> None:
        """Send an event to the session, waiting until its mailbox has room.

        Cancelled while it waits, it has sent nothing.
        """

    def report_eventually(self, event: Event) -> None:
        """Send an event to the session now, or as soon as its mailbox has room."""

    def write_text(
        self, turn: TurnId, kind: TextKind, text: str, *, continues: bool = True
    ) -> None:
        """Add text to the turn's output; raise `OutputTooLarge`.

        The text is merged with the text before it, unless `continues` is False.
        """

    def received_text(self, turn: TurnId) -> str:
        """Return the agent text of the turn so far, at most 1 MiB from its start."""

    def write_answer(self, turn: TurnId, text: str) -> None:
        """Write the final text of the turn, unless it is all agent text of the turn so far.

        Raise `OutputTooLarge` as `write_text` does.
        """

    def write(self, turn: TurnId, kind: DataKind, body: Mapping[str, Any]) -> None:
        """Add a record of another kind to the turn's output; raise `OutputTooLarge`."""

    def count_output(self, turn: TurnId, body: Mapping[str, Any]) -> None:
        """Count the body of an event towards the turn's output limit; raise `OutputTooLarge`."""

    def mark_progress(self) -> None:
        """Count work of the agent that writes nothing as progress of its turn."""

    @property
    def is_writable(self) -> bool:
        """True while `wait_writable` would return at once."""

    async def wait_writable(self) -> None:
        """Wait until the store has caught up with the output."""

    async def pace(self, messages: int) -> None:
        """Wait until the agent may send more, after `messages`; those without output count.

        Always a checkpoint.
        """

    async def history(self, turn: TurnId) -> Sequence[Message]:
        """Return the messages of the current chapter before the turn."""

    async def prepare_turn(self, turn: TurnId) -> Sequence[Message]:
        """Return the history, and load the notifications, so that `news` can return them at once.

        Raise `ConfigError` as `workspace_root` does. Not always a checkpoint.
        """

    async def before_call(
        self, turn: TurnId, call: CallId, name: str, tool_input: Mapping[str, Any] | None
    ) -> None:
        """Ask the blocking hooks about a tool call; raise `PermissionDenied` if one denies it."""

    async def before_request(
        self, turn: TurnId, request: RequestId, details: Mapping[str, Any]
    ) -> str | None:
        """Ask the blocking hooks about a permission request.

        Return the name of the hook that denies it, or None. `details` has the keys tool, question,
        kind, input and options.
        """

    def record_usage(self, turn: TurnId, usage: Usage) -> None:
        """Count usage of the turn against the budgets; raise `BudgetSpent` if one is exhausted."""

    async def spawn(
        self, turn: TurnHandle, agent: str, text: str, **options: Unpack[SpawnOptions]
    ) -> ChildHandle:
        """Spawn a child with an input and wait until its agent is attached; raise `SpawnRefused`.

        Cancelling the wait does not undo the spawn.
        """

    async def descendant(self, turn: TurnHandle, session_id: str) -> ChildHandle:
        """Return a handle of a descendant; raise `PermissionDenied` for any other session."""

    def news(self, turn: TurnId) -> list[News]:
        """Return the notifications about children that were not returned before."""

    def requests(self) -> list[ChildRequest]:
        """Return pending permission requests of descendants, if the session may answer them."""

    async def answer_request(self, request_id: str, decision: Decision) -> None:
        """Answer a permission request of a descendant.

        Raises `PermissionDenied` if the session itself may not do what the decision allows.
        """


@attrs.frozen
class News:
    """A notification about a child: its agent started, or its first input or the child ended.

    `outcome` is the outcome of the input that the child was spawned with, `text` the last text of
    the child. `reason` is the stop reason of the child, and None while the child has not stopped.
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
class BlockedOn:
    """The reason why an agent cannot work at the moment, as far as its driver can see."""

    waits_for: str
    detail: str


@attrs.frozen
class ChildRequest:
    """A pending permission request of a descendant."""

    id: RequestId
    session_id: SessionId
    tool: str
    question: str
    options: tuple[Decision, ...]


class ChildHandle(Protocol):
    """A descendant as an agent sees it. `supervisor.Child` implements it and documents it."""

    @property
    def id(self) -> SessionId:
        """The id of the session."""

    async def wait(self) -> TurnResult:
        """Wait for the result of the input that the child was spawned with."""

    async def send(self, text: str, **options: Unpack[SendOptions]) -> Receipt:
        """Send another input."""

    async def prompt(self, text: str, **options: Unpack[PromptOptions]) -> TurnResult:
        """Send another input and wait for its result."""

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the result of an input."""

    async def steer(self, text: str) -> Receipt:
        """Steer the running turn."""

    async def interrupt(
        self, scope: Scope = "turn", *, reason: str | None = None
    ) -> InterruptReport:
        """Interrupt the running turn, a tool call, the session, or its whole subtree."""

    async def stop(self) -> None:
        """Stop the session and its with_parent descendants."""

    async def info(self) -> Info:
        """Return the current state of the session."""


class Driver(Protocol):
    """One agent that works for one session.

    Each docstring names the events that the driver reports. A driver reports the end of a turn
    once: TurnEnded, or AgentExited if the agent itself ended with it.
    """

    def start(self) -> None:
        """Start the agent. Reports AgentAttached or StartFailed."""

    def start_turn(self, effect: StartTurn) -> None:
        """Run the agent on an input. Reports TurnEnded or AgentExited."""

    def adopt_turn(self, effect: AdoptTurn) -> None:
        """Give a turn that the agent started by itself its id. Reports TurnEnded or AgentExited.

        Called only after the driver has reported SteeringBeganTurn.
        """

    def offer_steering(self, offer: OfferSteering) -> None:
        """Offer steering text to the running turn. Reports SteeringTaken once the agent took it.

        A driver that delivers steering at once does so only if the offer is `handed`; it may also
        report SteeringDeclined, SteeringUnanswered or SteeringBeganTurn. It reports one of the
        four for every text that has left it, before it reports the end of the turn: any other text
        becomes the input of a later turn. An offer for a turn whose end it has reported is ignored.
        """

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        """Withdraw offered steering text that the agent has not taken yet. Reports nothing."""

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        """Take one step of the interrupt ladder. Reports TurnEnded if the step ends the turn."""

    def abandon_turn(self, turn: TurnId) -> None:
        """Treat the turn as over although its task or process runs on.

        Reports ZombieEnded when that has ended, and nothing else about the turn.
        """

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        """Cancel one tool call and leave the turn running. Reports CallEnded."""

    def stop_background_work(self) -> None:
        """Stop what the agent runs outside of its turn, as far as the driver owns it."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """Deliver the decision on a permission request to the agent that asked."""

    def set_options(self, options: Mapping[str, OptionValue]) -> None:
        """Set options of the agent before its next prompt, at once if no turn runs.

        The names are ids of options, or short names before AgentAttached. Reports
        AgentChoicesReported with the new values, and OptionRefused for each that was not set.
        """

    def close(self) -> None:
        """Close the agent. Reports AgentClosed when nothing of it is left, or only a zombie."""

    def blocked_on(self) -> BlockedOn | None:
        """Return why the agent cannot work at the moment, or None if no reason is known."""

    def discard(self) -> None:
        """Cancel everything, because the session's actor has ended.

        Reports nothing but ZombieEnded.
        """


class AgentKind(Protocol):
    """A kind of agent, as passed to `open()`: a name and a factory of drivers."""

    @property
    def name(self) -> str:
        """The name by which sessions select the agent."""

    @property
    def runs_process(self) -> bool:
        """True if each agent is a process that runs for as long as its session is not suspended.

        The driver of such an agent acquires `DriverRuntime.process_slots` and `start_slots` itself.
        """

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> Driver:
        """Return a new driver for one session."""
