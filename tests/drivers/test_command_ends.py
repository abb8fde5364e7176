"""Agents that are a command: how a turn ends, and how the next one goes on."""

from __future__ import annotations

import signal

import orjson
import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.drivers.command.agent import CommandAgent, command
from supervisor.drivers.port import Workshop
from supervisor.drivers.process.port import Exit
from tests.drivers.command_desk import DONE, JSON, at_desk, turn
from tests.drivers.office import Desk, StandInOffice
from tests.drivers.process_fake import FakeProcesses, Play


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
async def workshop(nursery: trio.Nursery, processes: FakeProcesses) -> Workshop:
    return Workshop(nursery, processes=processes, max_agent_processes=1)


# How it ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "stderr", "error"),
    [
        (Exit(2), "first\nno such model\n", "it has exited with code 2: first\nno such model"),
        (Exit(1), "", "it has exited with code 1"),
        (Exit(None, signal.SIGSEGV), "", "it was ended by SIGSEGV"),
        (Exit(None, 99), "", "it was ended by signal 99"),
        (Exit(None, guarded=False), "", "its guardian was killed, and it with that"),
    ],
)
async def test_a_command_that_does_not_end_well_fails_its_turn_and_says_why(
    workshop: Workshop, processes: FakeProcesses, how: Exit, stderr: str, error: str
) -> None:
    processes.plan(Play(exits=how, stderr=stderr), Play(exits=DONE))
    desk = at_desk(workshop)

    failed = await turn(desk)
    after = await turn(desk)

    assert (failed.outcome, failed.error) == ("failed", error)
    assert after.outcome == "completed"
    assert desk.office.kinds() == ["TurnEnded", "TurnEnded"]


async def test_the_end_of_a_long_complaint_is_what_is_shown(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(exits=Exit(1), stderr="x" * 10_000 + "the reason"))

    ended = await turn(at_desk(workshop))

    assert (ended.error or "").endswith("the reason")
    assert len(ended.error or "") == 2000


async def test_a_command_that_complains_where_lines_should_be_is_heard(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"\x1b[31mInvalid API key\n",), exits=Exit(1)))

    ended = await turn(at_desk(workshop, **JSON))

    assert ended.error == "it has exited with code 1: Invalid API key"


async def test_a_command_that_is_not_there_fails_its_turn_and_says_so(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(fails="'tool' is not there"), Play(exits=DONE))
    desk = at_desk(workshop)

    assert (await turn(desk)).error == "'tool' is not there"
    assert (await turn(desk)).outcome == "completed"


async def test_a_command_that_does_not_read_its_prompt_is_killed(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(reads=False))

    ended = await turn(at_desk(workshop))

    assert (ended.outcome, ended.error) == ("failed", "it has not read its prompt")
    assert processes.alive == []


# Interrupts ----------------------------------------------------------------------------------


async def test_each_step_is_taken_when_it_is_asked_for_and_the_end_is_an_interrupt(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"part",), heeds=frozenset()))
    desk = at_desk(workshop)
    turn_id = desk.order("go")
    await settle()

    for step in ("ask", "terminate", "kill"):
        desk.driver.cancel_turn(turn_id, step)
        await settle()
    ended = await desk.office.heard(ev.TurnEnded)

    assert processes.last.signals == ["close", "interrupt", "terminate", "kill"]
    assert (ended.outcome, ended.stop_reason, ended.text) == ("interrupted", "cancelled", "part")


async def test_one_that_is_interrupted_is_interrupted_however_it_ends(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    desk = at_desk(workshop)
    turn_id = desk.order("go")
    await settle()
    desk.driver.cancel_turn(turn_id, "ask")
    processes.last.leave(DONE)

    assert (await desk.office.heard(ev.TurnEnded)).outcome == "interrupted"


async def test_a_turn_can_be_interrupted_before_its_process_is_there(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(launch_seconds=100.0))
    desk = at_desk(workshop)
    turn_id = desk.order("go")
    await settle()

    desk.driver.cancel_turn(turn_id, "ask")

    assert (await desk.office.heard(ev.TurnEnded)).outcome == "interrupted"
    assert (processes.all, trio.current_time()) == ([], 0.0)


async def test_a_turn_waits_for_room_and_says_that_it_does(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    asked: list[str] = []
    workshop.make_room = lambda: asked.append("room")
    first, second = at_desk(workshop), at_desk(workshop)
    first.order("go")
    await settle()
    processes.plan(Play(exits=DONE))
    second.order("go")
    await settle()
    waits = second.driver.hindrance()

    assert (len(processes.all), asked) == (1, ["room"])
    assert waits is not None
    assert waits.detail == "all 1 agent processes are taken"
    processes.last.leave(DONE)
    assert (await second.office.heard(ev.TurnEnded)).outcome == "completed"


async def test_one_that_nothing_can_kill_is_a_zombie_until_it_ends(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(unkillable=True))
    desk = at_desk(workshop)
    turn_id = desk.order("go")
    await settle()
    desk.driver.cancel_turn(turn_id, "kill")
    desk.driver.abandon_turn(turn_id)
    listed = dict(workshop.zombies)

    processes.last.leave(DONE)
    await desk.office.heard(ev.ZombieEnded)

    assert "process 1000" in listed[turn_id]
    assert desk.office.kinds() == ["ZombieEnded"]
    assert workshop.zombies == {}


async def test_a_command_that_is_let_go_in_its_turn_is_asked_and_then_killed(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(heeds=frozenset()))
    desk = at_desk(workshop)
    desk.order("go")
    await settle()

    desk.driver.close()
    await desk.office.heard(ev.AgentClosed)

    assert processes.last.signals == ["close", "terminate", "kill"]
    assert desk.office.kinds() == ["AgentClosed"]
    assert trio.current_time() == desk.office.ladder.terminate_seconds


# Conversations -------------------------------------------------------------------------------


def named(desk: Desk) -> list[str]:
    return [event.session_id for event in desk.office.all(ev.AgentSessionNamed)]


async def test_a_conversation_gets_a_name_from_us_and_keeps_it(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(exits=DONE), Play(exits=DONE))
    desk = at_desk(
        workshop, "tool", "--id={session_id}", resume_command=["tool", "-r", "{session_id}"]
    )

    await turn(desk)
    (name,) = named(desk)
    desk.office.agent_session_id = name
    await turn(desk)

    assert [launch.command for launch in processes.launches] == [
        ("tool", f"--id={name}"),
        ("tool", "-r", name),
    ]
    assert len(name) == 36
    assert named(desk) == [name]


async def test_a_conversation_has_the_name_that_the_command_gave_it_last(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    lines = [b'{"session_id":"%s","result":"hi"}\n' % name for name in (b"one", b"two")]
    processes.plan(*(Play(output=(line,), exits=DONE) for line in lines))
    desk = at_desk(
        workshop, **JSON, session_id_at="session_id", resume_command=["tool", "{session_id}"]
    )

    await turn(desk)
    desk.office.agent_session_id = "one"
    await turn(desk)

    assert processes.launches[1].command == ("tool", "one")
    assert named(desk) == ["one", "two"]
    assert desk.office.kinds()[:2] == ["AgentSessionNamed", "TurnEnded"]


async def test_a_command_without_another_way_to_resume_is_given_the_same_name_again(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(exits=DONE))
    office = StandInOffice()
    office.agent_session_id = "known"
    desk = at_desk(workshop, "tool", "{session_id}", office=office)

    await turn(desk)

    assert processes.launches[0].command == ("tool", "known")
    assert named(desk) == []


async def test_a_turn_that_failed_names_no_conversation(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    line = b'{"session_id":"gone"}\n'
    processes.plan(Play(output=(line,), exits=Exit(1)), Play(exits=Exit(1)))

    of_its_own = at_desk(workshop, **JSON, session_id_at="session_id")
    of_ours = at_desk(workshop, "tool", "{session_id}")
    for desk in (of_its_own, of_ours):
        await turn(desk)

    assert named(of_its_own) + named(of_ours) == []


async def test_a_turn_that_was_interrupted_after_it_spoke_can_be_gone_on_with(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"hm",), heeds=frozenset({"interrupt"})))
    desk = at_desk(workshop, "tool", "{session_id}")
    turn_id = desk.order("go")
    await settle()
    desk.driver.cancel_turn(turn_id, "ask")
    await desk.office.heard(ev.TurnEnded)

    assert len(named(desk)) == 1


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb", None, True, ["a", ""]])
async def test_what_can_be_no_name_is_none(
    workshop: Workshop, processes: FakeProcesses, name: object
) -> None:
    processes.plan(Play(output=(orjson.dumps({"session_id": name}),), exits=DONE))
    desk = at_desk(workshop, **JSON, session_id_at="session_id")

    await turn(desk)

    assert named(desk) == (["a"] if isinstance(name, list) else [])


def test_an_agent_is_a_value() -> None:
    assert command("tool", ["tool"]) == CommandAgent(name="tool", command=("tool",))
