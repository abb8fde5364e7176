"""An agent process from its start to its end; see `port.Driver`.

Rule 1: one task lives as long as the agent does, and says once what became of it: up, not up, gone,
        or let go. When it says that the agent is gone, nothing of it is left.
Rule 2: orders return at once. What is ordered before the agent is up waits until it is.
"""

# What each method of a port does is said there.
# ruff: noqa: D102

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import Final, Literal

import trio

from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.session import Agent, Capabilities, Decision, Failure, LadderStep
from supervisor.drivers.acp.agent import AcpAgent
from supervisor.drivers.acp.host import Host
from supervisor.drivers.acp.rpc.connection import Connection
from supervisor.drivers.acp.turns.talk import Talk
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.port import Hindrance, Office, Workshop
from supervisor.drivers.process.health import hindrance_of
from supervisor.drivers.process.port import LaunchFailed, Process
from supervisor.drivers.python import shown_error

from .failing import failure_at_work, failure_to_start, wait_exit, with_last_words
from .farewell import let_go
from .handshake import Conversation, Handshake, HandshakeFailed
from .login import Login

logger = logging.getLogger("supervisor")

LADDER: Final[tuple[LadderStep, ...]] = ("ask", "close", "terminate", "kill")
# What an agent that has exited may still have in its pipe is read for so long.
_LAST_WORDS_SECONDS: Final = 2.0


class AcpDriver:
    """One agent, at work for one session."""

    def __init__(self, agent: AcpAgent, office: Office, workshop: Workshop) -> None:
        self._agent = agent
        self._office = office
        self._workshop = workshop
        self._life = trio.CancelScope()
        self._process: Process | None = None
        # Who is on record as ours.
        self._identity: ProcessIdentity | None = None
        self._talk: Talk | None = None
        self._last_turn: TurnId | None = None
        # A turn that was ordered before the agent was up.
        self._order: StartTurn | None = None
        # Why it ends: it was told to, or it left by itself. Set once, whichever comes first.
        self._over = trio.Event()
        self._why_lost: str | None = None
        self._is_closing = self._is_dropped = self._is_gone = self._was_up = False
        # A turn that is over for everybody but the process.
        self._abandoned: TurnId | None = None
        self._hindrance: Hindrance | None = Hindrance("start", "its agent waits to be started")

    # Orders -------------------------------------------------------------------------------

    def start(self) -> None:
        self._workshop.start_soon(self._live, name=f"{self._agent.name} {self._office.session_id}")

    def start_turn(self, order: StartTurn) -> None:
        self._last_turn = order.turn
        if self._talk is None:
            self._order = order
        else:
            self._talk.begin(order)

    def adopt_turn(self, order: AdoptTurn) -> None:
        self._last_turn = order.turn
        if self._talk is not None:
            self._talk.adopt(order)

    def offer_steering(self, offer: OfferSteering) -> None:
        if self._talk is not None and offer.handed:
            self._talk.steer(offer)

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        if self._talk is not None and self._talk.is_at(turn):
            self._talk.withdraw(input_id)

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        if self._order is not None and self._order.turn == turn:
            self._order = None
            self._report_not_begun(turn)
        if self._talk is None or self._process is None or not self._talk.is_at(turn):
            return
        if step != "ask":
            self._talk.doom()
        match step:
            case "ask":
                self._talk.cancel()
            case "close":
                self._process.close_input()
            case "terminate":
                self._process.terminate()
            case "kill":
                self._process.kill()

    def abandon_turn(self, turn: TurnId) -> None:
        if self._talk is not None and self._talk.is_at(turn):
            self._abandon(turn)
        elif turn == self._last_turn:  # it was over before that was decided
            self._office.report_surely(ev.ZombieEnded(turn=turn, **self._office.stamp()))

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        if self._talk is not None and self._talk.is_at(turn):
            self._talk.cancel_call(call)

    def end_background(self) -> None:
        if self._talk is not None:
            self._talk.host.end_background()

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        if self._talk is not None:
            self._talk.host.questions.answer(request, decision)

    def close(self) -> None:
        self._is_closing = True
        if self._is_gone:
            self._report_closed()
        elif self._talk is None:
            self._life.cancel(reason="it is not wanted any more")
        else:
            self._over.set()

    def hindrance(self) -> Hindrance | None:
        if self._talk is None or self._process is None:
            return self._hindrance
        return hindrance_of(self._process.identity)

    def drop(self) -> None:
        self._is_dropped = True
        if self._talk is not None and self._talk.turn is not None and not self._is_gone:
            self._abandon(self._talk.turn)
        self._life.cancel(reason="its session's actor is gone")

    # Life ---------------------------------------------------------------------------------

    async def _live(self) -> None:
        failure: Failure | None = None
        try:
            with self._life:
                failure = await self._through_life()
        except Exception as error:
            # Ours, not the agent's; but it may not bring anybody else down.
            logger.exception("the driver of %s has failed", self._agent.name)
            failure = Failure("unknown", shown_error(error))
        finally:
            self._is_gone = True
            self._talk = None
            failure = self._forget_process() or failure
            if self._abandoned is not None:
                self._workshop.zombies.pop(self._abandoned, None)
        self._say_what_became_of_it(failure)

    def _say_what_became_of_it(self, failure: Failure | None) -> None:
        stamp = self._office.stamp
        if self._is_dropped:
            pass
        elif self._is_closing:
            self._report_closed()
        elif self._was_up:
            self._office.report_surely(ev.AgentExited(failure=failure, **stamp()))
        else:
            failure = failure or Failure("startup", "it left before it was up")
            self._office.report_surely(ev.AgentStartFailed(failure=failure, **stamp()))
        # Last: it lets the next turn begin, and that is not to be given to one who is gone.
        if self._abandoned is not None:
            self._office.report_surely(ev.ZombieEnded(turn=self._abandoned, **stamp()))

    async def _through_life(self) -> Failure | None:
        """Wait for a place, run the process, and give why it ended; None if that was clean."""
        workshop = self._workshop
        if not workshop.slots.available_tokens:
            self._hindrance = Hindrance(
                "start", f"all {workshop.slots.total_tokens} agent processes are taken"
            )
            workshop.make_room()
        try:
            async with workshop.slots, AsyncExitStack() as starting:
                await starting.enter_async_context(workshop.starting)
                self._hindrance = Hindrance("start", "its agent is starting")
                launch = self._agent.launch(self._office.workspace)
                async with workshop.processes.open(launch, before_it_runs=self._note) as process:
                    self._process = process
                    return await self._with_process(process, starting)
        except LaunchFailed as error:
            return Failure("startup", str(error))
        except StoreDegraded as error:
            return Failure("storage", str(error))

    async def _note(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        await self._office.note_process(identity)

    def _forget_process(self) -> Failure | None:
        """It is off the record if it is dead; if nothing can kill it, that is what is wrong."""
        identity = self._identity
        if identity is None:
            return None
        if not is_alive(identity):
            self._office.forget_process(identity)
            return None
        problem = f"unkillable: process {identity.pid} was sent SIGKILL and lives on"
        logger.error("%s of %s is %s", self._agent.name, self._office.session_id, problem)
        return Failure("process_exit", problem)

    async def _with_process(self, process: Process, starting: AsyncExitStack) -> Failure | None:
        failure: Failure | None
        async with trio.open_nursery() as nursery:
            connection = Connection(process.send, process.receive, name=self._agent.name)
            host = Host(self._agent, self._office, self._workshop, nursery, process)
            login = Login(self._agent, self._office, connection, give_way=starting.aclose)
            handshake = Handshake(self._agent, self._office, connection, host, login)
            nursery.start_soon(self._serve, connection, host)
            nursery.start_soon(self._watch, process)
            try:
                conversation = await handshake.shake()
            except HandshakeFailed as error:
                exit_ = await wait_exit(process, seconds=self._office.ladder.kill_seconds)
                failure = failure_to_start(process, exit_, error.kind, str(error))
            else:
                await starting.aclose()
                self._attach(conversation, connection, host, login, nursery)
                await self._over.wait()
                failure = await self._end(process, handshake)
            nursery.cancel_scope.cancel(reason="the agent is gone")
        return failure

    def _attach(
        self,
        conversation: Conversation,
        connection: Connection,
        host: Host,
        login: Login,
        nursery: trio.Nursery,
    ) -> None:
        assert self._process is not None
        self._was_up = True
        self._talk = host.talk = Talk(
            session_id=conversation.session_id,
            connection=connection,
            office=self._office,
            nursery=nursery,
            host=host,
            login=login,
            on_lost=self._note_lost,
        )
        self._talk.tells_history = conversation.is_new
        steering: Literal["native", "none"] = "native" if conversation.takes_steering else "none"
        able = Capabilities(
            steering=steering,
            cancels_calls=host.has_terminals,
            loads_sessions=conversation.can_be_continued,
            ladder=LADDER,
        )
        agent = Agent(able, conversation.session_id, self._process.identity.pid)
        self._office.report_surely(ev.AgentAttached(agent=agent, **self._office.stamp()))
        host.show_choices()
        order, self._order = self._order, None
        if order is not None:
            self._talk.begin(order)

    async def _end(self, process: Process, handshake: Handshake) -> Failure | None:
        """It is over: let it go gently if we are asked to, and say why it left if we were not."""
        if self._is_closing:
            await let_go(process, handshake, self._talk, self._office.ladder)
            return None
        if self._talk is not None:
            await self._talk.wait_reported()
        exit_ = await wait_exit(process, seconds=self._office.ladder.kill_seconds)
        if exit_ is not None and handshake.host.went_too_far is not None:
            return Failure("protocol", with_last_words(process, handshake.host.went_too_far))
        return failure_at_work(process, exit_, self._why_lost)

    # Watching -----------------------------------------------------------------------------

    async def _serve(self, connection: Connection, host: Host) -> None:
        self._note_lost(await connection.serve(host.handlers()))

    def _note_lost(self, reason: str) -> None:
        self._why_lost = self._why_lost or reason
        self._over.set()

    async def _watch(self, process: Process) -> None:
        await process.wait()
        with trio.move_on_after(_LAST_WORDS_SECONDS):
            await self._over.wait()
        self._over.set()

    # Inside -------------------------------------------------------------------------------

    def _abandon(self, turn: TurnId) -> None:
        self._abandoned = turn
        pid = self._process.identity.pid if self._process is not None else None
        whose = f"{self._agent.name} in {self._office.session_id} (process {pid})"
        self._workshop.zombies[turn] = whose

    def _report_not_begun(self, turn: TurnId) -> None:
        self._office.report_surely(
            ev.TurnEnded(
                turn=turn,
                outcome="interrupted",
                stop_reason="cancelled",
                **self._office.stamp(),
            )
        )

    def _report_closed(self) -> None:
        self._office.report_surely(ev.AgentClosed(**self._office.stamp()))
