"""An ACP driver with a fake session, over scripted agents or agents that the test controls.

At the end of each block, every line that we sent is checked against the
protocol's schema, no process is alive, and no process is recorded.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import trio
from trio.lowlevel import ParkingLot

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn, OfferSteering
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.acp.agent import AcpAgent, scripted_process
from supervisor.drivers.runtime import DriverRuntime
from supervisor.drivers.scripted import ProcessAction

from .acp_schema import assert_valid
from .driver_context import DriverHarness, FakeDriverContext
from .in_memory_processes import InMemoryProcess, InMemoryProcesses

Json: TypeAlias = dict[str, Any]

STEERING: Final = "_session/steering"
# Answer to `initialize` of an agent that supports steering.
STEERS: Final = {"_meta": {"steering": {"supported": True}}}


class AcpHarness(DriverHarness):
    """A driver with a fake session that adopts turns that the agent starts by itself."""

    def __init__(
        self,
        agent: AcpAgent,
        runtime: DriverRuntime,
        processes: InMemoryProcesses,
        context: FakeDriverContext | None = None,
    ) -> None:
        super().__init__(agent, runtime, context)
        self.processes = processes
        self.context.on_report = self._hear

    @property
    def process(self) -> InMemoryProcess:
        """The process started last."""
        return self.processes.all[-1]

    @property
    def latest_turn(self) -> TurnId:
        """The turn started last, by the session or the agent."""
        return TurnId(f"turn_{self._turns}")

    async def come_up(self) -> None:
        self.driver.start()
        await self.context.heard(agent_events.AgentAttached)
        await settle()
        self.context.events.clear()

    async def run(self, text: str) -> agent_events.TurnEnded:
        """Run a turn to its end."""
        times = len(self.context.all(agent_events.TurnEnded)) + 1
        self.order(text)
        return await self.context.heard(agent_events.TurnEnded, times=times)

    def hand(self, turn: TurnId, name: str, text: str) -> None:
        """Offer steering that is recorded as handed over."""
        self.driver.offer_steering(OfferSteering(turn, InputId(name), text, handed=True))

    def heard(self, method: str) -> list[Json]:
        """Return the params of all messages of a method that the agent received."""
        said = [json.loads(line) for side, line in self.process.wire if side == "client"]
        return [message["params"] for message in said if message.get("method") == method]

    def methods(self) -> list[str]:
        """Return the methods of all messages that the agent received after the handshake."""
        said = [json.loads(line) for side, line in self.process.wire if side == "client"]
        return [message["method"] for message in said if "method" in message][2:]

    def prompts(self) -> list[list[str]]:
        """Return the texts of each prompt that the agent received."""
        sent = self.heard("session/prompt")
        return [[block["text"] for block in prompt["prompt"]] for prompt in sent]

    def _hear(self, event: ev.Event) -> None:
        if isinstance(event, agent_events.SteeringBeganTurn):
            self._turns += 1
            self.context.begin(self.latest_turn)
            self.driver.adopt_turn(AdoptTurn(self.latest_turn, event.input, ""))


@asynccontextmanager
async def open_harness(
    *flags: str,
    agent: AcpAgent | None = None,
    context: FakeDriverContext | None = None,
    processes: InMemoryProcesses | None = None,
    **terms: int,
) -> AsyncIterator[AcpHarness]:
    """Open a driver of a scripted agent with these flags, or of `agent`; do not start it."""
    processes = processes or InMemoryProcesses()
    async with trio.open_nursery() as nursery:
        runtime = DriverRuntime(nursery, processes=processes, **terms)
        harness = AcpHarness(agent or scripted_process(flags=flags), runtime, processes, context)
        try:
            yield harness
        finally:
            runtime.close()
    assert processes.alive == []
    assert processes.overlaps == 0
    for process in processes.all:
        assert_all_valid(process)


def assert_all_valid(process: InMemoryProcess) -> None:
    """Fail unless every line that we sent is valid for a client."""
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


# Manual agents ------------------------------------------------------------------------------------


class ManualAgent:
    """An agent that answers only the handshake, except for the methods in `manual`."""

    overlaps = 0

    def __init__(
        self, offers: Mapping[str, Any] | None = None, manual: tuple[str, ...] = ()
    ) -> None:
        self.processes: InMemoryProcesses | None = None
        self._manual = manual
        self._results: dict[str, Json] = {
            "initialize": {"protocolVersion": 1, **(offers or {})},
            "session/new": {"sessionId": "manual_agent"},
        }
        self._heard: list[Json] = []
        self._changed = ParkingLot()
        self._output: list[bytes] = []
        self._wants: list[ProcessAction] = []
        self._asked = 0

    # For the test -------------------------------------------------------------------------

    async def hears(self, method: str, *, times: int = 1) -> Json:
        """Wait until the agent has received `times` messages of a method; return the last."""
        while len(found := [one for one in self._heard if one.get("method") == method]) < times:
            await self._changed.park()
        return found[times - 1]

    async def hears_answer(self, request: int) -> Json:
        """Wait for the answer to a request of the agent."""
        while not (found := [one for one in self._heard if self._answers(one, request)]):
            await self._changed.park()
        return found[0]

    def answers(self, request: Json, result: object) -> None:
        self.says({"id": request["id"], "result": result})

    def ends(self, prompt: Json, reason: str = "end_turn") -> None:
        self.answers(prompt, {"stopReason": reason})

    def refuses(self, request: Json, code: int, text: str) -> None:
        self.says({"id": request["id"], "error": {"code": code, "message": text}})

    def updates(self, text: str, *, session: str = "manual_agent") -> None:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        self.says({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def asks(self, method: str, params: Json) -> int:
        self._asked += 1
        self.says({"id": self._asked, "method": method, "params": params})
        return self._asked

    def says(self, message: Json) -> None:
        self.writes(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def writes(self, line: bytes) -> None:
        """Write a line, which need not be a message."""
        self._output.append(line + b"\n")
        self._rouse()

    def leaves(self, code: int) -> None:
        self._wants.append(ProcessAction("exit", code))
        self._rouse()

    # For the process ----------------------------------------------------------------------

    def tick(self, now: float) -> None: ...

    def receive_line(self, line: bytes) -> None:
        message = json.loads(line)
        method = message.get("method", "")
        if method in self._results and method not in self._manual:
            self.answers(message, self._results[method])
        self._heard.append(message)
        self._changed.unpark_all()

    def receive_eof(self) -> None:
        self.leaves(0)

    def action_done(self, want: ProcessAction, said: str = "") -> None: ...

    def take_output(self) -> list[bytes]:
        taken, self._output = self._output, []
        return taken

    def take_actions(self) -> list[ProcessAction]:
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
async def open_manual_agent(
    offers: Mapping[str, Any] | None = None,
    *,
    manual: tuple[str, ...] = (),
    context: FakeDriverContext | None = None,
    agent: AcpAgent | None = None,
) -> AsyncIterator[tuple[AcpHarness, ManualAgent]]:
    """Open a driver whose agent is a manual_agent."""
    manual_agent = ManualAgent(offers, manual)
    processes = InMemoryProcesses(lambda _: manual_agent)
    manual_agent.processes = processes
    async with open_harness(agent=agent, context=context, processes=processes) as harness:
        yield harness, manual_agent


async def at_work(harness: AcpHarness, manual_agent: ManualAgent) -> tuple[TurnId, Json]:
    """Start a turn of the manual_agent; return its id and its prompt."""
    await harness.come_up()
    turn = harness.order("go")
    return turn, await manual_agent.hears("session/prompt")


def texts(request: Json) -> list[str]:
    """Return the texts in a prompt or in steering."""
    return [block["text"] for block in request["params"]["prompt"]]
