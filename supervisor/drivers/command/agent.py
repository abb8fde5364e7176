"""Agents that are a command (`claude -p`, `codex exec`, any script), and their driver.

Rule 1: no process exists between turns. The agent is attached as soon as it is started, and a
        process that dies fails only its own turn.
Rule 2: the ladder is SIGINT, as Ctrl-C sends it, SIGTERM, SIGKILL. Closing the input is not a step,
        because the input is closed once the prompt was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal, get_args

import attrs

from supervisor.core import agent_events
from supervisor.core.effects import AdoptTurn, OfferSteering, StartTurn
from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.ids import CallId, InputId, RequestId, TurnId
from supervisor.core.state import Agent, Capabilities, Decision, LadderStep
from supervisor.core.validation import check_agent_name
from supervisor.drivers.port import BlockedOn, DriverContext
from supervisor.drivers.process.environment import check_command, check_env
from supervisor.drivers.runtime import DriverRuntime, ReportedAgent

from .output import parse_json_path
from .run import CommandRun
from .template import SESSION_ID, CommandTemplate, OutputForm, has_placeholder

# The port documents its methods.
# ruff: noqa: D102


LADDER: Final[tuple[LadderStep, ...]] = ("ask", "terminate", "kill")


class CommandDriver:
    """`port.Driver` of a command."""

    def __init__(
        self, template: CommandTemplate, context: DriverContext, runtime: DriverRuntime
    ) -> None:
        self._template = template
        self._context = context
        self._runtime = runtime
        self._run: CommandRun | None = None

    def start(self) -> None:
        capabilities = Capabilities(
            steering="none",
            cancels_calls=False,
            loads_sessions=self._template.keeps_conversations,
            ladder=LADDER,
        )
        self._runtime.reported_agents[self._template.name] = ReportedAgent(capabilities)
        agent = Agent(capabilities, self._context.agent_session_id)
        self._context.report_eventually(
            agent_events.AgentAttached(agent=agent, **self._context.stamp())
        )

    def start_turn(self, effect: StartTurn) -> None:
        self._run = CommandRun(self._template, effect, self._context, self._runtime)
        self._runtime.start_soon(self._run.run, name=effect.turn)

    def adopt_turn(self, effect: AdoptTurn) -> None:
        """Do nothing: a command starts no turn by itself."""

    def offer_steering(self, offer: OfferSteering) -> None:
        """Do nothing: a command takes no steering."""

    def withdraw_steering(self, turn: TurnId, input_id: InputId) -> None:
        """Do nothing: a command takes no steering."""

    def cancel_turn(self, turn: TurnId, step: LadderStep) -> None:
        run = self._running(turn)
        if run is not None:
            run.take_ladder_step(step)

    def abandon_turn(self, turn: TurnId) -> None:
        run = self._running(turn)
        if run is not None:
            run.abandon()

    def cancel_call(self, turn: TurnId, call: CallId) -> None:
        """Do nothing: a command reports no tool calls."""

    def stop_background_work(self) -> None:
        """Do nothing: all processes of a command end with its turn."""

    def answer(self, request: RequestId, decision: Decision | Literal["cancelled"]) -> None:
        """Do nothing: a command makes no permission requests."""

    def set_options(self, options: object) -> None:
        """Do nothing: a command offers no options."""

    def blocked_on(self) -> BlockedOn | None:
        return None if self._run is None or self._run.is_over else self._run.blocked_on()

    def close(self) -> None:
        run = self._run
        if run is None or run.is_over or run.is_abandoned:
            self._report_closed()
        else:
            run.close(within_seconds=self._context.ladder.terminate_seconds)
            self._runtime.start_soon(self._close_after, run)

    def discard(self) -> None:
        if self._run is not None and not self._run.is_over:
            self._run.abandon()
            self._run.close(within_seconds=0.0)

    async def _close_after(self, run: CommandRun) -> None:
        await run.finished.wait()
        self._report_closed()

    def _report_closed(self) -> None:
        self._context.report_eventually(agent_events.AgentClosed(**self._context.stamp()))

    def _running(self, turn: TurnId) -> CommandRun | None:
        return self._run if self._run is not None and self._run.turn == turn else None


@attrs.frozen(kw_only=True)
class CommandAgent(CommandTemplate):
    """An agent that is one process per turn; `supervisor.command(...)` returns one."""

    # A process exists only while a turn runs, so it waits for a process slot then.
    runs_process: ClassVar[bool] = False

    def make_driver(self, context: DriverContext, runtime: DriverRuntime) -> CommandDriver:
        """Return a new driver for one session."""
        return CommandDriver(self, context, runtime)


def command(
    name: str,
    command: Iterable[str],
    *,
    env: Mapping[str, str] | None = None,
    resume_command: Iterable[str] = (),
    output: OutputForm | None = None,
    text: str | None = None,
    session_id_at: str | None = None,
) -> CommandAgent:
    """Return an agent that runs a command once per turn, like `command("wc", ["wc", "-w"])`.

    The prompt replaces `{prompt}` in the command; without that placeholder it goes to standard
    input. The command must exit by itself, with code 0 on success. `output` is the format of its
    output: `text`, or `json_lines`, where `text` is the path of the text in each line (`result`,
    `message.text`).

    `{session_id}` is replaced by the id of the conversation: created by the supervisor, or read
    from the output at the path `session_id_at`. Once a conversation has an id, `resume_command` is
    run instead, if it is given. `env` is added to the few variables that every agent inherits, with
    `"$NAME"` as in `supervisor.acp`. Raise `ConfigError` for an invalid argument.
    """
    if output is None:
        output = "text" if text is None and session_id_at is None else "json_lines"
    if output not in get_args(OutputForm):
        raise ConfigError(
            f"the output of agent {short_repr(name)} is {short_repr(output)}",
            hint=f"give one of {', '.join(get_args(OutputForm))}",
        )
    if output == "text" and not (text is None and session_id_at is None):
        raise ConfigError(
            f"agent {short_repr(name)} has plain text output, which takes no text or session_id_at",
            hint='omit text and session_id_at, or give output="json_lines"',
        )
    resumes = check_command(name, resume_command) if resume_command else ()
    if resumes and not has_placeholder(resumes, SESSION_ID):
        raise ConfigError(
            f"the resume_command of agent {short_repr(name)} has no conversation placeholder",
            hint="add {session_id} to it",
        )
    return CommandAgent(
        name=check_agent_name(name),
        command=check_command(name, command),
        env=check_env(name, env),
        resume_command=resumes,
        output=output,
        text=parse_json_path("text", text or "text") if output == "json_lines" else None,
        session_id_at=None
        if session_id_at is None
        else parse_json_path("session_id_at", session_id_at),
    )
