"""An ACP agent at work for a session that a test plays; and agents whose every word it speaks.

Whatever a test does, when its block is left every line that we have sent is held against the
protocol's schema, nothing is alive, and no process is on record any more.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import trio
from trio.lowlevel import ParkingLot

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.acp.agent import AcpAgent, scripted_process
from supervisor.drivers.port import Workshop
from supervisor.drivers.scripted import Want
from tests.drivers.acp.schema import assert_valid
from tests.drivers.in_memory import InMemoryProcess, InMemoryProcesses
from tests.drivers.office import Desk, StandInOffice

Json: TypeAlias = dict[str, Any]

STEERING: Final = "_session/steering"
# What an agent says that takes guidance.
STEERS: Final = {"_meta": {"steering": {"supported": True}}}


class AcpDesk(Desk):
    """With what a session does by itself: it says which turn it is that an agent has begun."""

    def __init__(
        self,
        agent: AcpAgent,
        workshop: Workshop,
        processes: InMemoryProcesses,
        office: StandInOffice | None = None,
    ) -> None:
        super().__init__(agent, workshop, office)
        self.processes = processes
        self.office.on_report = self._hear

    @property
    def process(self) -> InMemoryProcess:
        """The one that was started last."""
        return self.processes.all[-1]

    @property
    def latest_turn(self) -> TurnId:
        """The one that was begun last, by whomever."""
        return TurnId(f"turn_{self._turns}")

    async def come_up(self) -> None:
        self.driver.start()
        await self.office.heard(ev.AgentAttached)
        await settle()
        self.office.events.clear()

    async def run(self, text: str) -> ev.TurnEnded:
        """A turn, to its end."""
        times = len(self.office.all(ev.TurnEnded)) + 1
        self.order(text)
        return await self.office.heard(ev.TurnEnded, times=times)

    def hand(self, turn: TurnId, name: str, text: str) -> None:
        """Guidance that is on record as handed over."""
        self.driver.offer_steering(OfferSteering(turn, InputId(name), text, handed=True))

    def heard(self, method: str) -> list[Json]:
        """The params of all such messages that the agent was sent."""
        said = [json.loads(line) for side, line in self.process.wire if side == "client"]
        return [message["params"] for message in said if message.get("method") == method]

    def methods(self) -> list[str]:
        """The methods of all that the agent was sent, but for its handshake."""
        said = [json.loads(line) for side, line in self.process.wire if side == "client"]
        return [message["method"] for message in said if "method" in message][2:]

    def prompts(self) -> list[list[str]]:
        """The texts of each prompt that it was sent."""
        sent = self.heard("session/prompt")
        return [[block["text"] for block in prompt["prompt"]] for prompt in sent]

    def _hear(self, event: ev.Event) -> None:
        if isinstance(event, ev.SteeringBeganTurn):
            self._turns += 1
            self.office.begin(self.latest_turn)
            self.driver.adopt_turn(AdoptTurn(self.latest_turn, event.input, ""))


@asynccontextmanager
async def open_desk(
    *flags: str,
    agent: AcpAgent | None = None,
    office: StandInOffice | None = None,
    processes: InMemoryProcesses | None = None,
    **terms: int,
) -> AsyncIterator[AcpDesk]:
    """A desk with a scripted agent of those flags, or another one; nothing is started yet."""
    processes = processes or InMemoryProcesses()
    async with trio.open_nursery() as nursery:
        workshop = Workshop(nursery, processes=processes, **terms)
        desk = AcpDesk(agent or scripted_process(flags=flags), workshop, processes, office)
        try:
            yield desk
        finally:
            workshop.close()
    assert processes.alive == []
    assert processes.overlaps == 0
    for process in processes.all:
        assert_all_valid(process)


def assert_all_valid(process: InMemoryProcess) -> None:
    """Fail unless every line that we have sent is what the protocol has a client say."""
    asked: dict[object, str] = {}
    for side, line in process.wire:
        if side == "agent":
            asked |= _asked_in(line)
        else:
            message = json.loads(line)
            answers = None if "method" in message else asked.get(message["id"])
            assert_valid(message, "client", answers=answers)


def _asked_in(line: bytes) -> dict[object, str]:
    try:
        said = json.loads(line)
        return {said["id"]: said["method"]}
    except (ValueError, KeyError, TypeError):
        return {}


# Puppets ------------------------------------------------------------------------------------


class Puppet:
    """An agent that does nothing by itself but come up, unless `manual` has that method too."""

    overlaps = 0

    def __init__(
        self, offers: Mapping[str, Any] | None = None, manual: tuple[str, ...] = ()
    ) -> None:
        self.processes: InMemoryProcesses | None = None
        self._manual = manual
        self._results: dict[str, Json] = {
            "initialize": {"protocolVersion": 1, **(offers or {})},
            "session/new": {"sessionId": "puppet"},
        }
        self._heard: list[Json] = []
        self._changed = ParkingLot()
        self._output: list[bytes] = []
        self._wants: list[Want] = []
        self._asked = 0

    # For the test -------------------------------------------------------------------------

    async def hears(self, method: str, *, times: int = 1) -> Json:
        """Wait until it was told that so often, and give the last of them."""
        while len(found := [one for one in self._heard if one.get("method") == method]) < times:
            await self._changed.park()
        return found[times - 1]

    async def hears_answer(self, request: int) -> Json:
        """Wait for the answer to what it has asked."""
        while not (found := [one for one in self._heard if self._answers(one, request)]):
            await self._changed.park()
        return found[0]

    def answers(self, request: Json, result: object) -> None:
        self.says({"id": request["id"], "result": result})

    def ends(self, prompt: Json, reason: str = "end_turn") -> None:
        self.answers(prompt, {"stopReason": reason})

    def refuses(self, request: Json, code: int, text: str) -> None:
        self.says({"id": request["id"], "error": {"code": code, "message": text}})

    def updates(self, text: str, *, session: str = "puppet") -> None:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        self.says({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def asks(self, method: str, params: Json) -> int:
        self._asked += 1
        self.says({"id": self._asked, "method": method, "params": params})
        return self._asked

    def says(self, message: Json) -> None:
        self._output.append(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._rouse()

    def leaves(self, code: int) -> None:
        self._wants.append(Want("exit", code))
        self._rouse()

    # For the process ----------------------------------------------------------------------

    def tick(self, now: float) -> None: ...

    def hear(self, line: bytes) -> None:
        message = json.loads(line)
        method = message.get("method", "")
        if method in self._results and method not in self._manual:
            self.answers(message, self._results[method])
        self._heard.append(message)
        self._changed.unpark_all()

    def hear_end(self) -> None:
        self.leaves(0)

    def done(self, want: Want, said: str = "") -> None: ...

    def take_output(self) -> list[bytes]:
        taken, self._output = self._output, []
        return taken

    def take_wants(self) -> list[Want]:
        taken, self._wants = self._wants, []
        return taken

    def next_deadline(self) -> float | None:
        return None

    def _rouse(self) -> None:
        for process in self.processes.all if self.processes is not None else ():
            process.rouse()

    def _answers(self, message: Json, request: int) -> bool:
        return "method" not in message and message.get("id") == request


@asynccontextmanager
async def open_puppet(
    offers: Mapping[str, Any] | None = None,
    *,
    manual: tuple[str, ...] = (),
    office: StandInOffice | None = None,
    agent: AcpAgent | None = None,
) -> AsyncIterator[tuple[AcpDesk, Puppet]]:
    """A desk whose agent is a puppet."""
    puppet = Puppet(offers, manual)
    processes = InMemoryProcesses(lambda _: puppet)
    puppet.processes = processes
    async with open_desk(agent=agent, office=office, processes=processes) as desk:
        yield desk, puppet


async def at_work(desk: AcpDesk, puppet: Puppet) -> tuple[TurnId, Json]:
    """A turn of the puppet: its id, and its prompt."""
    await desk.come_up()
    turn = desk.order("go")
    return turn, await puppet.hears("session/prompt")


def texts(request: Json) -> list[str]:
    """What is in a prompt, or in guidance."""
    return [block["text"] for block in request["params"]["prompt"]]
