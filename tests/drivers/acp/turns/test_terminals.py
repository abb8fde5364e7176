"""What an ACP agent has us run: on record while it lives, and gone with its turn or its agent."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.permissions import Permissions
from supervisor.drivers.process.port import Launch
from supervisor.drivers.scripted import ScriptedAgent
from tests.drivers.acp.driver_desk import AcpDesk, Puppet, open_desk
from tests.drivers.in_memory import MODULE, Agent, InMemoryProcesses
from tests.drivers.office import StandInOffice


class Command(Puppet):
    """Says what its command is, and stays if that is to sleep."""

    def __init__(self, words: tuple[str, ...]) -> None:
        super().__init__()
        self._output.append(f"{' '.join(words)}\n".encode())
        if "sleep" not in words:
            self.leaves(0)

    def hear_end(self) -> None:
        """Nobody ever writes to it."""


def run(launch: Launch) -> Agent:
    return ScriptedAgent() if MODULE in launch.command else Command(launch.command)


@pytest.fixture
def office(tmp_path: Path) -> StandInOffice:
    return StandInOffice(workspace=str(tmp_path), permissions=Permissions(mode="approve_all"))


async def at_sleep(desk: AcpDesk) -> None:
    """Its turn runs a command that takes long."""
    await desk.come_up()
    desk.order("terminal sleep 1000")
    await desk.office.heard(ev.CallStarted)
    await trio.sleep(1)  # while a thread works time stands still
    assert len(desk.processes.alive) == 2
    assert len(desk.office.processes) == 2


async def test_a_command_is_on_record_until_it_is_over(office: StandInOffice) -> None:
    async with open_desk(office=office, processes=InMemoryProcesses(run)) as desk:
        await desk.come_up()
        ended = await desk.run("terminal echo hello")
        await settle()

        assert "echo hello" in (ended.text or "")
        assert len(office.processes_ever) == 2
        assert office.processes == [desk.processes.all[0].identity]


async def test_a_command_ends_with_its_turn(office: StandInOffice) -> None:
    async with open_desk(office=office, processes=InMemoryProcesses(run)) as desk:
        await at_sleep(desk)
        [turn] = [event.turn for event in office.all(ev.CallStarted)]
        desk.driver.cancel_turn(turn, "ask")
        await office.heard(ev.TurnEnded)
        await settle()

        assert desk.processes.alive == [desk.processes.all[0]]
        assert office.processes == [desk.processes.all[0].identity]


async def test_one_call_is_ended_and_nothing_else(office: StandInOffice) -> None:
    async with open_desk(office=office, processes=InMemoryProcesses(run)) as desk:
        await at_sleep(desk)
        call = office.all(ev.CallStarted)[0]
        desk.driver.cancel_call(call.turn, call.call)
        ended = await office.heard(ev.CallEnded)
        over = await office.heard(ev.TurnEnded)

        assert (ended.call, ended.outcome) == (call.call, "interrupted")
        assert over.outcome == "completed"


@pytest.mark.parametrize("how", ["close", "drop", "kill"])
async def test_a_command_ends_with_its_agent(office: StandInOffice, how: str) -> None:
    async with open_desk(office=office, processes=InMemoryProcesses(run)) as desk:
        await at_sleep(desk)
        match how:
            case "close":
                desk.driver.close()
            case "drop":
                desk.driver.drop()
            case _:
                desk.processes.all[0].kill()
        await trio.sleep(20)

        assert desk.processes.alive == []
        assert office.processes == []
