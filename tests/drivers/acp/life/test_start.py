"""An ACP agent on its way up: whom it waits for, and what it is told meanwhile."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.agent import scripted_process
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import Hindrance, Workshop
from tests.drivers.acp.driver_desk import AcpDesk, open_desk, open_puppet
from tests.drivers.in_memory import InMemoryProcesses
from tests.drivers.office import StandInOffice

# Each hangs there for ever, as far as a test is concerned.
PHASES = {
    "initialize": ("--hang-at", "initialize"),
    "session/new": ("--hang-at", "new"),
    "authenticate": ("--auth", "key", "--hang-at", "authenticate"),
    "slow": ("--delay", "30"),
}
in_each_phase = pytest.mark.parametrize("flags", PHASES.values(), ids=PHASES)


async def started(desk: AcpDesk) -> None:
    """It has come as far as it will."""
    desk.driver.start()
    await settle()
    assert len(desk.processes.alive) == 1


# What it is told meanwhile -----------------------------------------------------------------


async def test_a_turn_that_is_ordered_before_it_is_up_runs_when_it_is() -> None:
    async with open_desk("--delay", "5") as desk:
        desk.order("say hello")
        desk.driver.start()
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.text) == ("completed", "hello")
        assert desk.office.kinds() == ["AgentAttached", "TurnEnded"]


@in_each_phase
async def test_a_turn_that_is_interrupted_before_it_is_up_is_over_at_once(
    flags: tuple[str, ...],
) -> None:
    async with open_desk(*flags) as desk:
        await started(desk)
        turn = desk.order("say hello")
        desk.driver.cancel_turn(turn, "ask")

        ended = await desk.office.heard(ev.TurnEnded)
        assert (ended.turn, ended.outcome) == (turn, "interrupted")


async def test_a_turn_that_was_interrupted_before_it_was_up_never_reaches_it() -> None:
    async with open_desk("--delay", "5") as desk:
        await started(desk)
        turn = desk.order("say hello")
        for step in ("ask", "close", "terminate", "kill"):
            desk.driver.cancel_turn(turn, step)
        await desk.office.heard(ev.AgentAttached)
        ended = await desk.run("say again")

        assert ended.text == "again"
        assert desk.prompts() == [["say again"]]
        assert [end.outcome for end in desk.office.all(ev.TurnEnded)] == [
            "interrupted",
            "completed",
        ]


@in_each_phase
async def test_one_that_is_let_go_before_it_is_up_is_gone_at_once(flags: tuple[str, ...]) -> None:
    async with open_desk(*flags) as desk:
        await started(desk)
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)
        await settle()

        assert desk.processes.alive == []
        assert desk.office.processes == []
        assert [kind for kind in desk.office.kinds() if kind != "AuthenticationAsked"] == [
            "AgentClosed"
        ]


@in_each_phase
async def test_one_that_is_dropped_before_it_is_up_says_nothing_and_leaves_nothing(
    flags: tuple[str, ...],
) -> None:
    async with open_desk(*flags) as desk:
        await started(desk)
        desk.order("say hello")
        desk.driver.drop()
        await settle()

        assert desk.processes.alive == []
        assert desk.office.processes == []
        assert desk.office.all(ev.AgentClosed) == []
        assert desk.office.all(ev.AgentStartFailed) == []


async def test_one_that_is_let_go_before_it_was_started_says_so() -> None:
    async with open_desk() as desk:
        desk.driver.start()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)

        assert desk.processes.all == []


async def test_one_that_is_told_to_close_twice_says_so_once() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        desk.driver.close()
        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)
        await trio.sleep(60)

        assert desk.office.kinds() == ["AgentClosed"]


async def test_abandoning_a_turn_that_it_never_had_is_over_at_once() -> None:
    async with open_desk("--delay", "5") as desk:
        await started(desk)
        turn = desk.order("say hello")
        desk.driver.cancel_turn(turn, "ask")
        desk.driver.abandon_turn(turn)
        desk.driver.abandon_turn(TurnId("another"))

        assert [event.turn for event in desk.office.all(ev.ZombieEnded)] == [turn]


# On record ---------------------------------------------------------------------------------


class Forgetful(StandInOffice):
    """Its store takes no writes."""

    async def note_process(self, identity: ProcessIdentity) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreDegraded("the disk is full", hint="make room")

    def forget_process(self, identity: ProcessIdentity) -> None:
        """It may be on record all the same, so it is forgotten."""


async def test_one_that_cannot_be_put_on_record_does_not_run() -> None:
    async with open_desk(office=Forgetful()) as desk:
        desk.driver.start()
        failed = await desk.office.heard(ev.AgentStartFailed)

        assert failed.failure.kind == "storage"
        assert desk.processes.all == []


async def test_it_is_on_record_before_it_runs_and_until_it_is_gone() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        assert desk.office.processes == [desk.process.identity]

        desk.driver.close()
        await desk.office.heard(ev.AgentClosed)
        assert desk.office.processes == []


# Places ------------------------------------------------------------------------------------


async def three_starts(nursery: trio.Nursery, **terms: int) -> tuple[list[AcpDesk], Workshop]:
    processes = InMemoryProcesses()
    workshop = Workshop(nursery, processes=processes, **terms)
    agent = scripted_process(flags=("--delay", "5"))
    desks = [AcpDesk(agent, workshop, processes) for _ in range(3)]
    for desk in desks:
        desk.driver.start()
        await settle()
    return desks, workshop


async def test_no_more_start_at_once_than_may(nursery: trio.Nursery) -> None:
    desks, _ = await three_starts(nursery, start_concurrency=2)
    assert len(desks[0].processes.alive) == 2

    for desk in desks:
        await desk.office.heard(ev.AgentAttached)
    assert len(desks[0].processes.alive) == 3


async def test_no_more_are_there_than_may_and_one_that_waits_asks_for_room(
    nursery: trio.Nursery,
) -> None:
    desks, workshop = await three_starts(nursery, max_agent_processes=2)
    for desk in desks[:2]:
        await desk.office.heard(ev.AgentAttached)
    assert desks[2].driver.hindrance() == Hindrance("start", "all 2 agent processes are taken")

    desks[0].driver.close()
    await desks[2].office.heard(ev.AgentAttached)

    assert desks[2].processes.most_alive == 2
    assert workshop.slots.borrowed_tokens == 2


async def test_who_waits_for_a_place_asks_for_room_once(nursery: trio.Nursery) -> None:
    asked: list[str] = []
    workshop = Workshop(nursery, processes=InMemoryProcesses(), max_agent_processes=1)
    workshop.make_room = lambda: asked.append("please")
    for _ in range(3):
        AcpDesk(scripted_process(), workshop, InMemoryProcesses()).driver.start()
        await settle()

    assert asked == ["please", "please"]


async def test_a_start_that_waits_for_a_place_can_be_let_go(nursery: trio.Nursery) -> None:
    desks, workshop = await three_starts(nursery, max_agent_processes=2)
    desks[2].driver.close()
    await desks[2].office.heard(ev.AgentClosed)

    assert len(desks[2].processes.all) == 2
    assert workshop.slots.borrowed_tokens == 2


# Choices -----------------------------------------------------------------------------------


async def test_what_it_offers_is_put_on_record_when_it_is_up() -> None:
    async with open_desk("--modes") as desk:
        desk.driver.start()
        surfaced = await desk.office.heard(ev.AgentSurfaced)

        assert desk.office.kinds() == ["AgentAttached", "AgentSurfaced"]
        assert surfaced.choices["mode"] == "code"


async def test_what_it_sends_on_its_way_up_is_no_fault() -> None:
    async with open_puppet(manual=("session/new",)) as (desk, puppet):
        desk.driver.start()
        request = await puppet.hears("session/new")
        puppet.updates("early")
        puppet.says({"method": "_auth/status_update", "params": {}})
        puppet.says({"method": "session/update", "params": None})
        puppet.answers(request, {"sessionId": "puppet"})
        await desk.office.heard(ev.AgentAttached)

        assert desk.office.output == []
