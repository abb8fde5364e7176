"""Agents that are a command: the end of a turn, and the conversation id."""

from __future__ import annotations

import signal
from pathlib import Path

import orjson
import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.errors import ConfigError
from supervisor.drivers.command.agent import CommandAgent, command
from supervisor.drivers.process.processes import ProcessExit
from supervisor.drivers.runtime import DriverRuntime
from supervisor.drivers.workspaces import find_root
from tests.support.command_driver import DONE, JSON, command_harness, turn
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.fake_processes import FakeProcesses, ProcessBehaviour


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
async def runtime(nursery: trio.Nursery, processes: FakeProcesses) -> DriverRuntime:
    return DriverRuntime(nursery, processes=processes, max_agent_processes=1)


async def test_a_command_does_not_start_in_a_replaced_workspace(
    runtime: DriverRuntime,
    processes: FakeProcesses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse() -> None:
        raise ConfigError("it is another folder", hint="put it back")

    context = FakeDriverContext(workspace=str(tmp_path))
    monkeypatch.setattr(context, "workspace_root", refuse)

    failed = await turn(command_harness(runtime, context=context))

    assert (failed.outcome, processes.launches) == ("failed", [])
    assert "it is another folder" in str(failed.error)


async def test_a_command_is_bound_to_the_folder_of_the_workspace(
    runtime: DriverRuntime, processes: FakeProcesses, tmp_path: Path
) -> None:
    processes.plan(ProcessBehaviour(exits=DONE))

    await turn(command_harness(runtime, context=FakeDriverContext(workspace=str(tmp_path))))

    [launch] = processes.launches
    assert (launch.cwd, launch.folder) == (str(tmp_path), find_root(str(tmp_path)).identity)


# How it ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "stderr", "error"),
    [
        (
            ProcessExit(2),
            "first\nno such model\n",
            "the command exited with code 2: first\nno such model",
        ),
        (ProcessExit(1), "", "the command exited with code 1"),
        (ProcessExit(None, signal.SIGSEGV), "", "the command was ended by SIGSEGV"),
        (ProcessExit(None, 99), "", "the command was ended by signal 99"),
        (ProcessExit(None, guarded=False), "", "the guardian of the command was killed"),
    ],
)
async def test_a_command_that_exits_badly_fails_its_turn_with_the_reason(
    runtime: DriverRuntime, processes: FakeProcesses, how: ProcessExit, stderr: str, error: str
) -> None:
    processes.plan(ProcessBehaviour(exits=how, stderr=stderr), ProcessBehaviour(exits=DONE))
    harness = command_harness(runtime)

    failed = await turn(harness)
    after = await turn(harness)

    assert (failed.outcome, failed.error) == ("failed", error)
    assert after.outcome == "completed"
    assert harness.context.kinds() == ["TurnEnded", "TurnEnded"]


async def test_the_end_of_a_long_stderr_is_shown(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(exits=ProcessExit(1), stderr="x" * 10_000 + "the reason"))

    ended = await turn(command_harness(runtime))

    assert (ended.error or "").endswith("the reason")
    assert len(ended.error or "") == 2000


async def test_unparsed_output_is_shown_when_a_command_fails(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"\x1b[31mInvalid API key\n",), exits=ProcessExit(1)))

    ended = await turn(command_harness(runtime, **JSON))

    assert ended.error == "the command exited with code 1: Invalid API key"


async def test_a_missing_program_fails_the_turn_with_the_reason(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(fails="'tool' is not there"), ProcessBehaviour(exits=DONE))
    harness = command_harness(runtime)

    assert (await turn(harness)).error == "'tool' is not there"
    assert (await turn(harness)).outcome == "completed"


async def test_a_command_that_does_not_read_its_prompt_is_killed(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(reads=False))

    ended = await turn(command_harness(runtime))

    assert (ended.outcome, ended.error) == ("failed", "the command has not read its prompt")
    assert processes.alive == []


# Interrupts ----------------------------------------------------------------------------------


async def test_each_ladder_step_is_taken_and_the_turn_ends_interrupted(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"part",), heeds=frozenset()))
    harness = command_harness(runtime)
    turn_id = harness.order("go")
    await settle()

    for step in ("ask", "terminate", "kill"):
        harness.driver.cancel_turn(turn_id, step)
        await settle()
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert processes.last.signals == ["close", "interrupt", "terminate", "kill"]
    assert (ended.outcome, ended.stop_reason, ended.text) == ("interrupted", "cancelled", "part")


async def test_an_interrupted_command_ends_interrupted_for_every_exit_code(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    harness = command_harness(runtime)
    turn_id = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn_id, "ask")
    processes.last.leave(DONE)

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "interrupted"


async def test_a_turn_can_be_interrupted_before_its_process_starts(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(launch_seconds=100.0))
    harness = command_harness(runtime)
    turn_id = harness.order("go")
    await settle()

    harness.driver.cancel_turn(turn_id, "ask")

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "interrupted"
    assert (processes.all, trio.current_time()) == ([], 0.0)


async def test_a_turn_without_a_process_slot_reports_its_wait(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    asked: list[str] = []
    runtime.set_eviction(lambda: asked.append("room"))
    first, second = command_harness(runtime), command_harness(runtime)
    first.order("go")
    await settle()
    processes.plan(ProcessBehaviour(exits=DONE))
    second.order("go")
    await settle()
    waits = second.driver.blocked_on()

    assert (len(processes.all), asked) == (1, ["room"])
    assert waits is not None
    assert waits.detail == "all 1 agent processes are in use"
    processes.last.leave(DONE)
    assert (await second.context.heard(agent_events.TurnEnded)).outcome == "completed"


async def test_an_unkillable_command_is_a_zombie_until_it_ends(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(unkillable=True))
    harness = command_harness(runtime)
    turn_id = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn_id, "kill")
    harness.driver.abandon_turn(turn_id)
    listed = dict(runtime.zombies)

    processes.last.leave(DONE)
    await harness.context.heard(agent_events.ZombieEnded)

    assert "process 1000" in listed[turn_id]
    assert harness.context.kinds() == ["ZombieEnded"]
    assert runtime.zombies == {}


async def test_closing_a_running_command_terminates_and_then_kills_it(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(heeds=frozenset()))
    harness = command_harness(runtime)
    harness.order("go")
    await settle()

    harness.driver.close()
    await harness.context.heard(agent_events.AgentClosed)

    assert processes.last.signals == ["close", "terminate", "kill"]
    assert harness.context.kinds() == ["AgentClosed"]
    assert trio.current_time() == harness.context.ladder.terminate_seconds


# Conversations -------------------------------------------------------------------------------


def named(harness: DriverHarness) -> list[str]:
    return [event.session_id for event in harness.context.all(agent_events.AgentSessionNamed)]


async def test_a_conversation_gets_an_id_and_keeps_it(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(exits=DONE), ProcessBehaviour(exits=DONE))
    harness = command_harness(
        runtime, "tool", "--id={session_id}", resume_command=["tool", "-r", "{session_id}"]
    )

    await turn(harness)
    (name,) = named(harness)
    harness.context.agent_session_id = name
    await turn(harness)

    assert [launch.command for launch in processes.launches] == [
        ("tool", f"--id={name}"),
        ("tool", "-r", name),
    ]
    assert len(name) == 36
    assert named(harness) == [name]


async def test_a_conversation_has_the_last_id_in_the_output(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    lines = [b'{"session_id":"%s","result":"hi"}\n' % name for name in (b"one", b"two")]
    processes.plan(*(ProcessBehaviour(output=(line,), exits=DONE) for line in lines))
    harness = command_harness(
        runtime, **JSON, session_id_at="session_id", resume_command=["tool", "{session_id}"]
    )

    await turn(harness)
    harness.context.agent_session_id = "one"
    await turn(harness)

    assert processes.launches[1].command == ("tool", "one")
    assert named(harness) == ["one", "two"]
    assert harness.context.kinds()[:2] == ["AgentSessionNamed", "TurnEnded"]


async def test_a_command_without_resume_command_gets_the_same_id_again(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(exits=DONE))
    context = FakeDriverContext()
    context.agent_session_id = "known"
    harness = command_harness(runtime, "tool", "{session_id}", context=context)

    await turn(harness)

    assert processes.launches[0].command == ("tool", "known")
    assert named(harness) == []


async def test_a_failed_turn_sets_no_conversation_id(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    line = b'{"session_id":"gone"}\n'
    processes.plan(
        ProcessBehaviour(output=(line,), exits=ProcessExit(1)),
        ProcessBehaviour(exits=ProcessExit(1)),
    )

    of_its_own = command_harness(runtime, **JSON, session_id_at="session_id")
    of_ours = command_harness(runtime, "tool", "{session_id}")
    for harness in (of_its_own, of_ours):
        await turn(harness)

    assert named(of_its_own) + named(of_ours) == []


async def test_a_turn_interrupted_after_output_can_be_resumed(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"hm",), heeds=frozenset({"interrupt"})))
    harness = command_harness(runtime, "tool", "{session_id}")
    turn_id = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn_id, "ask")
    await harness.context.heard(agent_events.TurnEnded)

    assert len(named(harness)) == 1


@pytest.mark.parametrize("name", ["", "x" * 300, "a\nb", None, True, ["a", ""]])
async def test_an_invalid_conversation_id_is_ignored(
    runtime: DriverRuntime, processes: FakeProcesses, name: object
) -> None:
    processes.plan(ProcessBehaviour(output=(orjson.dumps({"session_id": name}),), exits=DONE))
    harness = command_harness(runtime, **JSON, session_id_at="session_id")

    await turn(harness)

    assert named(harness) == (["a"] if isinstance(name, list) else [])


def test_an_agent_is_a_value() -> None:
    assert command("tool", ["tool"]) == CommandAgent(name="tool", command=("tool",))
