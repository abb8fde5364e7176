"""What an agent has of us while it is up: files, terminals, somebody to ask and to talk to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.effects import StartTurn
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import TurnId
from supervisor.core.printable import printable
from supervisor.core.redaction import redacted
from supervisor.core.session import Failure
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import Office, Workshop
from supervisor.drivers.process.environment import environment_for
from supervisor.drivers.process.port import Exit, Process

from .agent import AcpAgent
from .context import context_blocks
from .messages import RpcError
from .news.ending import Did
from .news.surfaced import Surfaced
from .news.updates import Updates
from .offers import AgentOffers, client_capabilities
from .prompts import prompt_blocks
from .questions import Questions
from .recorded import RecordedProcesses
from .services.files import Files
from .services.grants import Grants
from .services.ground import Pin
from .services.permissions import PermissionDesk
from .services.terminals import Terminals
from .serving import Handlers, RequestHandler

if TYPE_CHECKING:
    from .talk import Talk

# Threads for looks at the disk; one agent that waits for a slow one keeps no other waiting.
_THREADS: Final = 4
_MAX_ERROR_LETTERS: Final = 2000
_LAST_LINES: Final = 10


class Host:
    """For one agent process."""

    def __init__(
        self,
        agent: AcpAgent,
        office: Office,
        workshop: Workshop,
        nursery: trio.Nursery,
        process: Process,
    ) -> None:
        self._office = office
        self._process = process
        self._auth = agent.auth
        launch = agent.launch(office.workspace)
        self.cwd = launch.cwd or "/"
        limiter = trio.CapacityLimiter(_THREADS)
        self._grants = Grants()
        # How often it has had us do something, in the turn that runs.
        self._deeds = 0
        pin = Pin.of(office.workspace)
        self.questions = Questions(
            office,
            before_asking=self._wait_adopted,
            before_cancelling=self._wait_told,
            on_too_much=self._end_for,
        )
        self._files = Files(
            office, ask=self.questions.ask, grants=self._grants, limiter=limiter, pin=pin
        )
        self._terminals = Terminals(
            office,
            pin=pin,
            processes=RecordedProcesses(workshop.processes, office),
            nursery=nursery,
            ask=self.questions.ask,
            grants=self._grants,
            limiter=limiter,
            environment=environment_for({}),  # what the agent was trusted with is its own
            before_it_runs=_nobody_minds,
        )
        # What was offered stays so for as long as the agent lives; rights are looked at each time.
        offered = client_capabilities(office)
        self._reads, self._writes = offered["fs"]["readTextFile"], offered["fs"]["writeTextFile"]
        self.has_terminals: bool = offered["terminal"]
        self.updates = Updates(office, reach=self._terminals if self.has_terminals else None)
        self._permissions = PermissionDesk(
            office,
            ask=self.questions.ask,
            grants=self._grants,
            known=self.updates.known,
            limiter=limiter,
            pin=pin,
        )
        self.offers = AgentOffers()
        # Set when the conversation has begun.
        self.talk: Talk | None = None
        self.authenticate: Callable[[], Awaitable[bool]] = _nobody
        # Why the last try to say who we are has failed.
        self.login_problem: str | None = None
        self._shown: Mapping[str, object] = {}
        # What people should know, as soon as there is a turn to say it in.
        self._warnings: list[str] = []
        self._went_too_far: str | None = None

    # Turns --------------------------------------------------------------------------------

    @property
    def _turn(self) -> TurnId | None:
        return None if self.talk is None else self.talk.turn

    def begin_turn(self, turn: TurnId) -> None:
        """What comes from now on is about this turn."""
        self.updates.begin_turn(turn)
        self.questions.begin_turn(turn)
        warnings, self._warnings = self._warnings, []
        for text in warnings:
            self._office.write(turn, "warning", {"text": text})

    def warn(self, text: str) -> None:
        """Say it in the next turn that begins."""
        self._warnings.append(redacted(printable(text))[:_MAX_ERROR_LETTERS])

    def cancel_turn(self, turn: TurnId) -> None:
        """The turn is to end: so is what it runs here."""
        self._terminals.kill_turn(turn)

    def end_background(self) -> None:
        """End what runs here, whichever turn began it."""
        self._terminals.kill_all()

    def end_turn(self) -> Did:
        """It is over; gives what was done in it besides saying something."""
        self.questions.end_turn()
        self._grants.end_turn()
        did = self.updates.end_turn()
        deeds, self._deeds = self._deeds, 0
        return attrs.evolve(did, calls=did.calls + deeds)

    def prompt_blocks(self, order: StartTurn, before: Sequence[Message]) -> list[Mapping[str, Any]]:
        """What the agent is sent for an input."""
        given = prompt_blocks(
            order.text, order.attachments, offers=self.offers, workspace=self._office.workspace
        )
        return [*context_blocks(before), *given]

    # What it may choose from --------------------------------------------------------------

    def absorb(self, answer: object) -> None:
        """Take in what the answer to `session/new` and the like says about choices."""
        self.updates.surfaced = self.updates.surfaced.absorb_answer(answer)

    def show_choices(self) -> None:
        """Put on record what people may choose from, if it is not what was shown last."""
        choices = _choices(self.updates.surfaced)
        if choices != self._shown:
            self._shown = choices
            surfaced = ev.AgentSurfaced(choices=choices, **self._office.stamp())
            self._office.report_surely(surfaced)

    def note_mode(self, mode: str) -> None:
        """It is in that mode now, whether it says so itself or not."""
        self.updates.surfaced = attrs.evolve(self.updates.surfaced, mode=mode)

    # Serving ------------------------------------------------------------------------------

    def handlers(self) -> Handlers:
        """What is done about the agent's messages."""
        requests: dict[str, RequestHandler] = {
            "session/request_permission": self._permissions.request
        }
        if self._reads:
            requests["fs/read_text_file"] = self._counted(self._files.read)
        if self._writes:
            requests["fs/write_text_file"] = self._counted(self._files.write)
        if self.has_terminals:
            requests["terminal/create"] = self._counted(self._create_terminal)
            requests["terminal/output"] = self._terminals.output
            requests["terminal/wait_for_exit"] = self._terminals.wait_for_exit
            requests["terminal/kill"] = self._terminals.kill
            requests["terminal/release"] = self._terminals.release
        return Handlers(requests, {"session/update": self._heed})

    def _counted(self, handler: RequestHandler) -> RequestHandler:
        """What an agent has us do is something that it does in its turn."""

        async def serve(params: object) -> object:
            self._deeds += 1
            return await handler(params)

        return serve

    def _end_for(self, error: OutputTooLarge) -> None:
        if self.talk is not None:
            self.talk.end_for(error)

    async def _wait_adopted(self) -> None:
        if self.talk is not None:
            await self.talk.wait_adopted()

    async def _wait_told(self) -> None:
        if self.talk is not None:
            await self.talk.wait_told()

    async def _create_terminal(self, params: object) -> object:
        return await self._terminals.create(params, turn=self._turn)

    async def _heed(self, params: object) -> None:
        if self.talk is not None:
            await self.talk.heed(params)
        elif isinstance(params, dict):
            await self.updates.take(params.get("update"))

    # Ends ---------------------------------------------------------------------------------

    def end_agent(self, why: str) -> None:
        """It has gone too far, and that is why it is gone."""
        self._went_too_far = why
        self._process.kill()

    def describe(self, error: RpcError) -> str:
        """What the agent says went wrong, as far as it can be shown."""
        detail = error.data if isinstance(error.data, str) else _detail_in(error.data)
        said = f"{error.message}: {detail}" if detail and detail != error.message else error.message
        return redacted(printable(f"{said} (code {error.code})"))[:_MAX_ERROR_LETTERS]

    def how_to_authenticate(self) -> str:
        """What to do about an agent that wants to know who we are."""
        offered = ", ".join(one.id for one in self.offers.auth_methods) or "none that it names"
        wanted = "it wants to be authenticated"
        if self._auth is not None:
            said = f": {self.login_problem}" if self.login_problem else ""
            wanted = f"it was not authenticated by {self._auth!r}{said}"
        return (
            f"{wanted}; its methods are: {offered}. Log in with the agent's own command, or give "
            "the method's id as auth=..."
        )

    async def last_failure(self, kind: str, why: str | None) -> Failure | None:
        """Why the process has left, or has to: None if it has done so cleanly, by itself."""
        exit_: Exit | None = None
        with trio.move_on_after(self._office.ladder.kill_seconds):
            exit_ = await self._process.wait()
        if exit_ is None:
            self._process.kill()
            with trio.move_on_after(self._office.ladder.kill_seconds):
                await self._process.wait()
            return Failure(kind, self._with_stderr(why or "it does not answer"))
        if self._went_too_far is not None:
            return Failure("protocol", self._with_stderr(self._went_too_far))
        if exit_.is_clean and self.talk is not None:
            return None
        if self.talk is not None or kind == "transport":
            kind, why = "process_exit", _shown_exit(exit_)
        return Failure(kind, self._with_stderr(why or _shown_exit(exit_)))

    def _with_stderr(self, what: str) -> str:
        lines = self._process.stderr_tail().strip().splitlines()[-_LAST_LINES:]
        said = "; it said: " + " | ".join(lines) if lines else ""
        return redacted(printable(what + said))[:_MAX_ERROR_LETTERS]


def _shown_exit(exit_: Exit) -> str:
    if not exit_.guarded:
        return "its guardian was killed, and it was ended for that"
    if exit_.signal is not None:
        return f"it was killed by signal {exit_.signal}"
    return f"it exited with code {exit_.code}"


def _detail_in(data: object) -> str | None:
    if isinstance(data, Mapping):
        for name in ("details", "detail", "message", "error"):
            if isinstance(data.get(name), str):
                return str(data[name])
    return None


def _choices(surfaced: Surfaced) -> dict[str, object]:
    """What people choose from; how full its context is changes all the time, and is no choice."""
    choices: dict[str, object] = {
        "mode": surfaced.mode,
        "modes": list(surfaced.modes),
        "config_options": list(surfaced.config_options),
        "commands": list(surfaced.commands),
    }
    return {name: choice for name, choice in choices.items() if choice}


async def _nobody() -> bool:
    return False


async def _nobody_minds(_: ProcessIdentity) -> None:
    """It is on record; nothing else is to be done before it runs."""
