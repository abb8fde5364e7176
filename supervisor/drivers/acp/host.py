"""What an agent has of us while it is up: files, terminals, somebody to ask and to talk to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from supervisor.core import events as ev
from supervisor.core.creation import Message
from supervisor.core.effects import StartTurn
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.life.failing import shown
from supervisor.drivers.acp.life.offers import AgentOffers, client_capabilities
from supervisor.drivers.acp.news.ending import Did
from supervisor.drivers.acp.news.surfaced import Surfaced
from supervisor.drivers.acp.news.updates import Updates
from supervisor.drivers.acp.rpc.serving import Handlers, RequestHandler
from supervisor.drivers.acp.services.files import Files
from supervisor.drivers.acp.services.grants import Grants
from supervisor.drivers.acp.services.ground import Pin
from supervisor.drivers.acp.services.permissions import PermissionDesk
from supervisor.drivers.acp.services.questions import Questions
from supervisor.drivers.acp.services.terminals.recorded import RecordedProcesses
from supervisor.drivers.acp.services.terminals.terminals import Terminals
from supervisor.drivers.acp.turns.context import context_blocks
from supervisor.drivers.acp.turns.prompts import prompt_blocks
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import Office, Workshop
from supervisor.drivers.process.environment import environment_for
from supervisor.drivers.process.port import Process

from .agent import AcpAgent

if TYPE_CHECKING:
    from supervisor.drivers.acp.turns.talk import Talk

# Threads for looks at the disk; one agent that waits for a slow one keeps no other waiting.
_THREADS: Final = 4


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
        self._shown: Mapping[str, object] = {}
        # What people should know, as soon as there is a turn to say it in.
        self._warnings: list[str] = []
        # Why it had to be ended, if it had to.
        self.went_too_far: str | None = None

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
        self._warnings.append(shown(text))

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

    def end_agent(self, why: str) -> None:
        """It has gone too far, and that is why it is gone."""
        self.went_too_far = why
        self._process.kill()


def _choices(surfaced: Surfaced) -> dict[str, object]:
    """What people choose from; how full its context is changes all the time, and is no choice."""
    choices: dict[str, object] = {
        "mode": surfaced.mode,
        "modes": list(surfaced.modes),
        "config_options": list(surfaced.config_options),
        "commands": list(surfaced.commands),
    }
    return {name: choice for name, choice in choices.items() if choice}


async def _nobody_minds(_: ProcessIdentity) -> None:
    """It is on record; nothing else is to be done before it runs."""
