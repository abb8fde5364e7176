"""Driver of one ACP agent process, from its start to its end; see `port.Driver`.

Rule 1: one task runs as long as the agent does and reports exactly one end: start failed, exited or
        closed. When it reports an exit, no process of the agent is left.
Rule 2: driver calls return at once. A turn that is requested before the agent is attached starts
        when the agent is attached.
Rule 3: closing escalates: cancel the turn and call `session/close`, close the input, SIGTERM,
        SIGKILL. The session's ladder bounds each step. The code that opened the process checks
        that it is dead.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final, Literal

import trio

from supervisor.core import agent_events
from supervisor.core.agent_options import OptionValue
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import ConfigError, StoreDegraded
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.state import Agent, Capabilities, Decision, Failure, LadderStep
from supervisor.core.text import describe_error
from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import BlockedOn, DriverContext
from supervisor.drivers.process.processes import AgentProcess, LaunchFailed
from supervisor.drivers.process_state import process_blocked_on
from supervisor.drivers.runtime import DriverRuntime, ReportedAgent
from supervisor.json_rpc.rpc_connection import ConnectionLost, RpcConnection

from .acp_session import AcpSession
from .agent_exit import close_agent, forget_exited, wait_exit
from .agent_spec import AcpAgentSpec
from .client import AcpClient
from .handshake import Authenticator, Handshake, HandshakeFailed, HandshakeResult
from .option_setter import OptionSetter
from .own_tools import OwnTools
from .turn_result import exit_failure, start_failure, with_stderr_tail

logger = logging.getLogger("supervisor")

LADDER: Final[tuple[LadderStep, ...]] = ("ask", "close", "terminate", "kill")
# Time to read what an exited agent left in its output pipe.
_DRAIN_SECONDS: Final = 2.0


class AcpDriver:
    """Driver of one agent for one session."""

    def __init__(self, agent: AcpAgentSpec, context: DriverContext, runtime: DriverRuntime) -> None:
        self._agent = agent
        self._context = context
        self._runtime = runtime
        self._scope = trio.CancelScope()
        self._process: AgentProcess | None = None
        # The process recorded in the store for this session.
        self._identity: ProcessIdentity | None = None
        self._session: AcpSession | None = None
        # From the end of the handshake; an earlier wish is in the context's `wanted_options`.
        self._options: OptionSetter | None = None
        self._last_turn: TurnId | None = None
        # A turn ordered before the agent was attached.
        self._pending_turn: StartTurn | None = None
        # Set by close(), by a lost connection or by the exit, whichever comes first.
        self._ended = trio.Event()
        self._lost_reason: str | None = None
        self._is_closing = self._is_dropped = self._is_gone = self._was_attached = False
        # The zombie turn: ended for the session, still running in the process.
        self._abandoned: TurnId | None = None
        self._blocked_on: BlockedOn | None = BlockedOn("start", "the agent waits to start")

    # Driver calls -------------------------------------------------------------------------

    def start(self) -> None:
        self._runtime.start_soon(self._run, name=f"{self._agent.name} {self._context.session_id}")

    def start_turn(self, effect: StartTurn) -> None:
        self._last_turn = effect.turn
        if self._session is None:
            self._pending_turn = effect
        else:
            self._session.start_turn(effect)

    def adopt_turn(self, effect: AdoptTurn) -> None:
        self._last_turn = effect.turn
        if self._session is not None:
            self._session.adopt_turn(effect)

    def offer_steering(self, offer: OfferSteering) -> None:
        if self._session is not None and offer.handed:
            self._session.steer(offer)

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        if self._session is not None and self._session.is_running_turn(turn):
            self._session.withdraw_steering(input_id)

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        if self._pending_turn is not None and self._pending_turn.turn == turn:
            self._pending_turn = None
            self._report_cancelled_before_start(turn)
        if (
            self._session is None
            or self._process is None
            or not self._session.is_running_turn(turn)
        ):
            return
        if step != "ask":
            self._session.retire_agent()
        match step:
            case "ask":
                self._session.cancel_turn()
            case "close":
                self._process.close_input()
            case "terminate":
                self._process.terminate()
            case "kill":
                self._process.kill()

    def abandon_turn(self, turn: TurnId) -> None:
        if self._session is not None and self._session.is_running_turn(turn):
            self._abandon(turn)
        elif turn == self._last_turn:  # the turn ended before the session gave it up
            self._context.report_eventually(
                agent_events.ZombieEnded(turn=turn, **self._context.stamp())
            )

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        if self._session is not None and self._session.is_running_turn(turn):
            self._session.cancel_call(call)

    def stop_background_work(self) -> None:
        if self._session is not None:
            self._session.client.stop_background_work()

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        if self._session is not None:
            self._session.client.answer_permission(request, decision)

    def set_options(self, options: Mapping[str, OptionValue]) -> None:
        if self._session is not None:
            self._session.set_options(options)
        elif self._options is not None:  # being set, before the agent is attached
            self._options.want(options)

    def close(self) -> None:
        self._is_closing = True
        if self._is_gone:
            self._report_closed()
        elif self._session is None:
            self._scope.cancel(reason="the session closed its agent")
        else:
            self._ended.set()

    def blocked_on(self) -> BlockedOn | None:
        if self._session is None or self._process is None:
            return self._blocked_on
        return process_blocked_on(self._process.identity)

    def discard(self) -> None:
        self._is_dropped = True
        if self._session is not None and self._session.turn is not None and not self._is_gone:
            self._abandon(self._session.turn)
        self._scope.cancel(reason="the session's actor has ended")

    # The task -----------------------------------------------------------------------------

    async def _run(self) -> None:
        failure: Failure | None = None
        try:
            with self._scope:
                failure = await self._run_process()
        except Exception as error:
            # A bug of ours. It must not end other sessions, so it becomes this agent's failure.
            logger.exception("driver of %s crashed", self._agent.name)
            failure = Failure("unknown", describe_error(error))
        finally:
            self._is_gone = True
            self._session = None
            if self._identity is not None:
                name = self._agent.name
                failure = forget_exited(name, self._context, self._identity) or failure
            if self._abandoned is not None:
                self._runtime.remove_zombie(self._abandoned)
        self._report_end(failure)

    def _report_end(self, failure: Failure | None) -> None:
        stamp = self._context.stamp
        if self._is_dropped:
            pass
        elif self._is_closing:
            self._report_closed()
        elif self._was_attached:
            self._context.report_eventually(agent_events.AgentExited(failure=failure, **stamp()))
        else:
            failure = failure or Failure("startup", "it left before it was up")
            self._context.report_eventually(agent_events.StartFailed(failure=failure, **stamp()))
        # Last: it allows the next turn, which must not be sent to an agent that has exited.
        if self._abandoned is not None:
            self._context.report_eventually(
                agent_events.ZombieEnded(turn=self._abandoned, **stamp())
            )

    async def _run_process(self) -> Failure | None:
        """Wait for a process slot and run the process.

        Return the failure, None after a clean exit.
        """
        runtime = self._runtime
        if not runtime.process_slots.available_tokens:
            self._blocked_on = BlockedOn(
                "start", f"all {runtime.process_slots.total_tokens} agent processes are in use"
            )
            runtime.evict_idle_process()
        try:
            async with runtime.process_slots, AsyncExitStack() as starting:
                await starting.enter_async_context(runtime.start_slots)
                self._blocked_on = BlockedOn("start", "the agent is starting")
                root = await self._context.workspace_root()
                launch = self._agent.launch(self._context.workspace).in_folder(root)
                async with runtime.processes.open(
                    launch, before_exec=self._record_process
                ) as process:
                    self._process = process
                    tools = OwnTools(
                        self._agent, self._context, runtime.agent_tools, process.identity
                    )
                    with tools:
                        return await self._run_session(process, root, starting, tools)
        except (LaunchFailed, ConfigError) as error:
            return Failure("startup", str(error))
        except StoreDegraded as error:
            return Failure("storage", str(error))

    async def _record_process(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        await self._context.record_process(identity)

    async def _run_session(
        self,
        process: AgentProcess,
        root: WorkspaceRoot | None,
        starting: AsyncExitStack,
        tools: OwnTools,
    ) -> Failure | None:
        failure: Failure | None
        async with trio.open_nursery() as nursery:
            connection = RpcConnection(
                process.send,
                process.receive,
                name=self._agent.name,
                line_budget=self._runtime.line_budget,
                request_budget=self._runtime.request_budget,
                pace=self._context.pace,
                written=lambda: process.input_bytes,
            )
            client = AcpClient(
                self._agent, self._context, self._runtime, nursery, process, workspace_root=root
            )
            authenticator = Authenticator(
                self._agent, self._context, connection, release_start_slot=starting.aclose
            )
            handshake = Handshake(
                self._agent,
                self._context,
                connection,
                client,
                authenticator=authenticator,
                own_tools=tools,
            )
            nursery.start_soon(self._serve, connection, client)
            nursery.start_soon(self._watch_exit, process)
            try:
                result = await handshake.run()
            except HandshakeFailed as error:
                exit_ = await wait_exit(process, seconds=self._context.ladder.kill_seconds)
                failure = start_failure(process, exit_, error.kind, str(error))
            else:
                await starting.aclose()
                options = await self._set_first_options(connection, client, result.session_id)
                self._attach(
                    result,
                    connection,
                    client,
                    nursery,
                    authenticator=authenticator,
                    options=options,
                )
                await self._ended.wait()
                failure = await self._close_or_report(process, handshake)
            nursery.cancel_scope.cancel(reason="the agent has exited")
        return failure

    async def _set_first_options(
        self, connection: RpcConnection, client: AcpClient, session_id: str
    ) -> OptionSetter:
        """Set the options that the session wants, before the agent is attached."""
        self._options = OptionSetter(
            self._context,
            connection,
            client,
            session_id=session_id,
            wanted=self._context.wanted_options,
        )
        with suppress(ConnectionLost):  # the exit of the agent is noticed once it is attached
            await self._options.apply()
        return self._options

    def _attach(
        self,
        result: HandshakeResult,
        connection: RpcConnection,
        client: AcpClient,
        nursery: trio.Nursery,
        authenticator: Authenticator,
        *,
        options: OptionSetter,
    ) -> None:
        assert self._process is not None
        self._was_attached = True
        self._session = client.session = AcpSession(
            session_id=result.session_id,
            connection=connection,
            context=self._context,
            nursery=nursery,
            client=client,
            authenticator=authenticator,
            options=options,
            on_lost=self._note_lost,
        )
        self._session.sends_history = result.is_new
        capabilities = Capabilities(
            steering="native" if result.supports_steering else "none",
            cancels_calls=client.has_terminals,
            loads_sessions=result.can_resume_session,
            ladder=LADDER,
        )
        version = client.capabilities.version
        self._runtime.reported_agents[self._agent.name] = ReportedAgent(capabilities, version)
        agent = Agent(capabilities, result.session_id, self._process.identity.pid)
        self._context.report_eventually(
            agent_events.AgentAttached(
                agent=agent, options=client.offered_options(), **self._context.stamp()
            )
        )
        client.report_choices()
        pending, self._pending_turn = self._pending_turn, None
        if pending is not None:
            self._session.start_turn(pending)

    async def _close_or_report(self, process: AgentProcess, handshake: Handshake) -> Failure | None:
        """Close the agent if close() was called.

        Otherwise return the failure that it exited with.
        """
        if self._is_closing:
            await close_agent(process, handshake, self._session, self._context.ladder)
            return None
        if self._session is not None:
            await self._session.wait_reported()
        exit_ = await wait_exit(process, seconds=self._context.ladder.kill_seconds)
        if exit_ is not None and handshake.client.kill_reason is not None:
            return Failure("protocol", with_stderr_tail(process, handshake.client.kill_reason))
        return exit_failure(process, exit_, self._lost_reason)

    # Background tasks ---------------------------------------------------------------------

    async def _serve(self, connection: RpcConnection, client: AcpClient) -> None:
        self._note_lost(await connection.serve(client.handlers()))

    def _note_lost(self, reason: str) -> None:
        self._lost_reason = self._lost_reason or reason
        self._ended.set()

    async def _watch_exit(self, process: AgentProcess) -> None:
        await process.wait()
        with trio.move_on_after(_DRAIN_SECONDS):
            await self._ended.wait()
        self._ended.set()

    # Inside -------------------------------------------------------------------------------

    def _abandon(self, turn: TurnId) -> None:
        self._abandoned = turn
        pid = self._process.identity.pid if self._process is not None else None
        owner = f"{self._agent.name} in {self._context.session_id} (process {pid})"
        self._runtime.add_zombie(turn, owner)

    def _report_cancelled_before_start(self, turn: TurnId) -> None:
        ended = agent_events.TurnEnded(
            turn=turn, outcome="interrupted", stop_reason="cancelled", **self._context.stamp()
        )
        self._context.report_eventually(ended)

    def _report_closed(self) -> None:
        self._context.report_eventually(agent_events.AgentClosed(**self._context.stamp()))
