"""`understudy run`: send one text to an agent and print its answer.

`RunOptions` are the options of `run` and `chat`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

import attrs
import click
from trio_util import run_and_cancelling

from supervisor.cli.async_runner import run_async
from supervisor.cli.common_options import chosen_host, refuse_typed_host
from supervisor.cli.failures import OK, REFUSED
from supervisor.cli.options import DURATION, config_option, input_text, json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_outcome, turn_exit_code
from supervisor.cli.target import load_configuration, open_target
from supervisor.cli.text_format import Cell
from supervisor.configuration import Configuration, make_agents, presets
from supervisor.core.agent_list import agent_unknown
from supervisor.core.records import Item, Record

from .conversation import (
    AskUser,
    OutputPrinter,
    PermissionPrompt,
    open_user_terminal,
    read_line,
    run_interruptible,
)

if TYPE_CHECKING:
    from supervisor.core.receipts import TurnResult
    from supervisor.handles.session import Session
    from supervisor.handles.supervisor import Supervisor

F = TypeVar("F", bound=Callable[..., Any])
BUILT_IN: Final = ("echo", "scripted")
MODES: Final = ("deny_all", "approve_reads", "approve_all")


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options as given on the command line."""

    agent: str
    state: str | None
    config_path: str | None
    workspace: str | None
    mode: str | None
    timeout_seconds: float | None


def add_run_options(function: F) -> F:
    """Add the options of `RunOptions`."""
    for option in (
        click.option("--yes", is_flag=True, help="Allow everything the agent requests."),
        click.option("--mode", type=click.Choice(MODES), help="What is allowed without asking."),
        click.option(
            "--timeout", metavar="TIME", type=DURATION, help="Maximum time of a turn: 90s, 10m."
        ),
        click.option(
            "--workspace",
            metavar="FOLDER",
            type=click.Path(exists=True, file_okay=False),
            help="Working directory of the agent (default: this directory).",
        ),
        config_option,
        click.option(
            "--state",
            metavar="PATH",
            type=click.Path(),
            help="Keep the session in this store file.",
        ),
        click.option(
            "--agent", default="echo", show_default=True, metavar="NAME", help="Agent to use."
        ),
    ):
        function = option(function)
    return function


def parse_run_options(
    *,
    agent: str,
    state: str | None,
    config_path: str | None,
    workspace: str | None,
    timeout: float | None,
    mode: str | None,
    yes: bool,
) -> RunOptions:
    """Return the options; raise `click.UsageError` if `--yes` and `--mode` are both given."""
    if yes and mode is not None:
        raise click.UsageError("--yes means --mode approve_all; give only one of them.")
    return RunOptions(
        agent=agent,
        state=state,
        config_path=config_path,
        workspace=None if workspace is None else str(Path(workspace).absolute()),
        mode="approve_all" if yes else mode,
        timeout_seconds=timeout,
    )


@asynccontextmanager
async def open_session(options: RunOptions) -> AsyncIterator[tuple[Supervisor, Session]]:
    """Yield a session of the agent in a supervisor that runs during the block.

    Raise `AgentUnknown` if no such agent is configured, `AgentStartFailed` if it does not start,
    and the errors of `supervisor.open`.
    """
    from supervisor.runtime import open as open_supervisor  # noqa: PLC0415 - slow to import

    configuration = _configuration(options)
    create_options = session_options(configuration, options)
    agents = make_agents(configuration, environ=os.environ)
    async with open_supervisor(
        options.state or ":memory:", agents=agents, settings=configuration.settings
    ) as sup:
        yield sup, await sup.create(options.agent, **create_options)


def session_options(configuration: Configuration, options: RunOptions) -> dict[str, Any]:
    """Return the options for `create`: from the command line, else from the agent's table."""
    from supervisor.core.permissions import Permissions  # noqa: PLC0415 - slow to import

    known = {agent.name: agent for agent in configuration.agents}
    create_options = known[options.agent].session_defaults() if options.agent in known else {}
    workspace = options.workspace or create_options.get("workspace")
    create_options["workspace"] = workspace or os.getcwd()  # noqa: PTH109 - a string is needed
    if options.mode is not None:
        rights = create_options.get("permissions") or Permissions()
        create_options["permissions"] = attrs.evolve(rights, mode=options.mode)
    if options.timeout_seconds is not None:
        create_options["turn_deadline_seconds"] = options.timeout_seconds
    return create_options


def _configuration(options: RunOptions) -> Configuration:
    """Return the configuration with only the agents that the command needs."""
    configuration = load_configuration(options.config_path)
    known = {agent.name: agent for agent in configuration.agents}
    if options.agent not in (*BUILT_IN, *known):
        flags = {f"agents.{options.agent}.preset": _installed_preset(options.agent, configuration)}
        configuration = load_configuration(options.config_path, flags=flags)
    if options.state is not None:
        return configuration  # sessions in the file may belong to any agent
    wanted = tuple(agent for agent in configuration.agents if agent.name == options.agent)
    return attrs.evolve(configuration, agents=wanted)


def _installed_preset(name: str, configuration: Configuration) -> str:
    """Return the installed preset of that name.

    It is used without an entry in the configuration.
    """
    found = presets(os.environ)
    if any(preset.name == name and preset.found_at is not None for preset in found):
        return name
    names = (*BUILT_IN, *(agent.name for agent in configuration.agents))
    hints = {preset.name: preset.hint for preset in found if preset.found_at is None}
    raise agent_unknown(name, names, hints)


@asynccontextmanager
async def open_daemon_session(
    screen: Screen, options: RunOptions
) -> AsyncIterator[tuple[Supervisor, Session]]:
    """Yield a new session in the daemon, which is started if it is not running."""
    from supervisor.core.permissions import Permissions  # noqa: PLC0415 - slow to import

    create_options: dict[str, Any] = {"workspace": options.workspace}
    if options.workspace is None and chosen_host() is None:
        create_options["workspace"] = os.getcwd()  # noqa: PTH109 - a string is needed
    if options.mode is not None:
        create_options["permissions"] = Permissions(mode=options.mode)  # type: ignore[arg-type]  # click has checked it
    if options.timeout_seconds is not None:
        create_options["turn_deadline_seconds"] = options.timeout_seconds
    async with open_target(screen, start=True) as sup:
        yield sup, await sup.create(options.agent, **create_options)


@click.command()
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option("--daemon", "in_daemon", is_flag=True, help="Run the session in the daemon.")
@add_run_options
@json_option
def run(*, words: tuple[str, ...], in_daemon: bool, as_json: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Send one text to an agent, print its output as it comes, and exit.

    Without TEXT, or with -, the text is read from standard input. Permission requests are shown to
    you, and rejected if there is no terminal. Ctrl-C interrupts the turn, a second Ctrl-C exits.
    The session is kept only if --state names a file, or in the daemon with --daemon; there, the
    turn goes on after a second Ctrl-C. With --json, every record is printed as a line, and the
    result as the last line.
    """
    screen = Screen(as_json=as_json)
    if not in_daemon:
        refuse_typed_host("give --daemon too")
    elif options["state"] is not None or options["config_path"] is not None:
        raise click.UsageError("The daemon has its own store and configuration; leave them out.")
    command = _RunCommand(
        screen, parse_run_options(**options), input_text(words), in_daemon=in_daemon
    )
    return run_async(
        screen, partial(run_interruptible, screen, command.run, interrupt=command.interrupt)
    )


class _RunCommand:
    """Sends one text and prints the output until its turn has ended."""

    def __init__(
        self, screen: Screen, options: RunOptions, text: str, *, in_daemon: bool = False
    ) -> None:
        self._screen = screen
        self._options = options
        self._text = text
        self._in_daemon = in_daemon
        self._printer = OutputPrinter(screen, with_asides=screen.is_ansi_stderr)
        self._session: Session | None = None

    async def interrupt(self) -> bool:
        """Interrupt the turn; return True if one was running."""
        self._printer.start_below_ctrl_c()
        self._screen.note("Interrupting; press Ctrl-C again to exit.")
        if self._session is None:
            return False
        report = await self._session.interrupt("turn", reason="Ctrl-C")
        return report.matched > 0

    async def run(self) -> int:
        """Open a session, send the text, print the output, and return the exit code."""
        async with self._open_session() as (sup, session):
            prompt = PermissionPrompt(
                self._screen,
                sup,
                self._user_prompt(),
                start_line=self._printer.end_line,
                is_remote=self._in_daemon,
            )
            async with run_and_cancelling(prompt.run):
                result = await self._run_turn(session, prompt)
            return await self._report(session, result)

    def _open_session(self) -> AbstractAsyncContextManager[tuple[Supervisor, Session]]:
        if self._in_daemon:
            return open_daemon_session(self._screen, self._options)
        return open_session(self._options)

    async def _run_turn(self, session: Session, prompt: PermissionPrompt) -> TurnResult:
        async with session.watch() as feed:
            self._session = session
            receipt = await session.send(self._text)
            async for item in feed:
                if not self._screen.as_json:
                    self._printer.print_item(item)
                elif isinstance(item, Record):
                    self._screen.data(item)
                if self._in_daemon and _is_question(item):
                    prompt.add(item.body["request_id"])
                if isinstance(item, Record) and _is_end(item, receipt.input_id):
                    break
        self._printer.end_line()
        return await session.result(receipt.input_id)

    async def _report(self, session: Session, result: TurnResult) -> int:
        screen = self._screen
        info = await session.info()
        if screen.as_json:
            screen.data({"result": result, "session_id": session.id})
        else:
            show_outcome(screen, result)
        is_kept = self._in_daemon or self._options.state is not None
        if is_kept and screen.is_ansi_stderr:
            screen.note(Cell(f"session {session.id}", "dim"))
        is_spent = info.stop_reason in ("budget_exceeded", "max_turns")
        return REFUSED if is_spent and turn_exit_code(result) != OK else turn_exit_code(result)

    def _user_prompt(self) -> AskUser | None:
        stream = None if self._screen.as_json else open_user_terminal()
        if stream is None:
            return None

        async def ask(question: str) -> str | None:
            self._screen.prompt(question)
            return await read_line(stream)

        return ask


def _is_question(item: Item) -> TypeGuard[Record]:
    return isinstance(item, Record) and item.kind == "permission_asked"


def _is_end(record: Record, input_id: str) -> bool:
    """Return True if the record settles the input, or ends the turn that the input started."""
    match record.kind:
        case "turn_ended" | "session_stopped":
            return True
        case "input_settled":
            is_ours = bool(record.body["input_id"] == input_id)
            return is_ours and record.body["outcome"] != "delivered"
        case _:
            return False
