"""Agents that are a command: the launch of a turn, and its output."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.effects import StartTurn
from supervisor.core.errors import ConfigError, StoreDegraded
from supervisor.core.ids import InputId, TurnId
from supervisor.core.state import Capabilities
from supervisor.drivers.command.agent import command
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.runtime import DriverRuntime
from tests.support.command_driver import DONE, JSON, command_harness, turn
from tests.support.driver_context import FakeDriverContext
from tests.support.fake_processes import FakeProcesses, ProcessBehaviour


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
async def runtime(nursery: trio.Nursery, processes: FakeProcesses) -> DriverRuntime:
    return DriverRuntime(nursery, processes=processes, max_agent_processes=1)


# What an agent may be ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"command": "tool"}, "a list of words"),
        ({"command": []}, "the program and its arguments"),
        ({"name": " "}, "64 letters"),
        ({"output": "yaml"}, "text, json_lines"),
        ({"output": "text", "text": "result"}, "omit text"),
        ({"text": "a..b"}, "names separated by dots"),
        ({"session_id_at": "a[b]"}, "names separated by dots"),
        ({"resume_command": "tool"}, "a list of words"),
        ({"env": {"A=": "x"}}, "NAME"),
    ],
)
def test_command_refuses_invalid_arguments_with_a_hint(wrong: dict[str, Any], hint: str) -> None:
    given = {"name": "tool", "command": ["tool"], **wrong}

    with pytest.raises(ConfigError) as refused:
        command(given.pop("name"), given.pop("command"), **given)

    assert hint in refused.value.hint


def test_the_keys_of_an_agent_are_not_shown() -> None:
    assert "hidden" not in repr(command("tool", ["tool"], env={"KEY": "hidden"}))


async def test_a_command_is_attached_as_soon_as_it_is_started(runtime: DriverRuntime) -> None:
    context = FakeDriverContext()
    context.agent_session_id = "known"
    harness = command_harness(runtime, "tool", "{session_id}", context=context)

    harness.driver.start()

    (up,) = context.all(agent_events.AgentAttached)
    assert (up.agent.session_id, up.agent.pid) == ("known", None)
    assert up.agent.capabilities == Capabilities(
        steering="none",
        cancels_calls=False,
        loads_sessions=True,
        ladder=("ask", "terminate", "kill"),
    )


# What is run ---------------------------------------------------------------------------------


async def test_standard_input_is_closed_after_the_prompt(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(answers=lambda data: data.decode().upper().encode()))
    harness = command_harness(
        runtime, "tool", "-v", context=FakeDriverContext(workspace="/project")
    )

    ended = await turn(harness, "grüße")

    assert (ended.outcome, ended.stop_reason, ended.text) == ("completed", "end_turn", "GRÜSSE")
    assert processes.last.sent == "grüße".encode()
    assert processes.last.is_input_closed
    assert processes.launches[0].command == ("tool", "-v")
    assert processes.launches[0].cwd == "/project"


async def test_a_prompt_in_an_argument_is_passed_unchanged(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(exits=DONE))
    harness = command_harness(runtime, "tool", '{"a": {}}', "say {prompt}!", "{prompt}")

    await turn(harness, "{session_id} {prompt} $HOME")

    prompt = "{session_id} {prompt} $HOME"
    assert processes.launches[0].command == ("tool", '{"a": {}}', f"say {prompt}!", prompt)
    assert processes.last.sent == b""
    assert processes.last.is_input_closed


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("tool", "{prompt}"), " --force"),
        (("tool", "--", "{prompt}"), "--force"),
        (("tool", "--text={prompt}"), "--text=--force"),
    ],
)
async def test_a_prompt_is_never_an_option(
    runtime: DriverRuntime, processes: FakeProcesses, words: tuple[str, ...], last: str
) -> None:
    processes.plan(ProcessBehaviour(exits=DONE))

    await turn(command_harness(runtime, *words), "--force")

    assert processes.launches[0].command[-1] == last


async def test_a_command_gets_inherited_variables_and_its_own(
    runtime: DriverRuntime, processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_TOKEN", "ours")
    processes.plan(ProcessBehaviour(exits=DONE))

    await turn(command_harness(runtime, env={"KEY": "its own"}))

    environment = processes.launches[0].environment
    assert environment["KEY"] == "its own"
    assert "PATH" in environment
    assert "UNDERSTUDY_TOKEN" not in environment


async def test_attachments_are_ignored_with_a_warning(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(exits=DONE))
    harness = command_harness(runtime)
    harness.context.begin(TurnId("turn_1"))

    harness.driver.start_turn(StartTurn(TurnId("turn_1"), InputId("in_1"), "look", ({"a": 1},)))
    await harness.context.heard(agent_events.TurnEnded)

    assert [kind for _, kind, _ in harness.context.output] == ["warning"]


async def test_a_process_is_recorded_while_it_is_alive(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    harness = command_harness(runtime)
    harness.order("go")
    await settle()
    noted = list(harness.context.processes)

    processes.last.leave(DONE)
    await harness.context.heard(agent_events.TurnEnded)

    assert noted == [processes.last.identity]
    assert harness.context.processes == []


async def test_a_process_that_cannot_be_recorded_fails_its_turn(
    runtime: DriverRuntime,
) -> None:
    class Degraded(FakeDriverContext):
        async def record_process(self, identity: ProcessIdentity) -> None:
            await trio.lowlevel.checkpoint()
            raise StoreDegraded("the disk is full", hint="make room")

        def forget_process(self, identity: ProcessIdentity) -> None:
            """Fail to record the process."""

    ended = await turn(command_harness(runtime, context=Degraded()))

    assert ended.outcome == "failed"
    assert "the disk is full" in (ended.error or "")


# What it says --------------------------------------------------------------------------------


async def test_text_output_is_streamed_in_whole_characters(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    harness = command_harness(runtime)
    harness.order("go")
    await settle()
    process = processes.last
    for piece in (b"a\xc3", b"\xa4", b"\xff", b"b\xe2\x82"):
        process.say(piece)
        await settle()
    said = [body for _, _, body in harness.context.output]
    process.leave(DONE)
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert said == ["a", "ä", "\ufffd", "b"]
    assert ended.text == "aä\ufffdb\ufffd"


async def test_only_the_selected_texts_of_json_lines_are_written(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    lines = b'{"type":"start"}\n{"result":"one "}\r\n\n{"result":null}\n{"result":"two"}'
    processes.plan(ProcessBehaviour(output=(lines[:30], lines[30:]), exits=DONE))
    harness = command_harness(runtime, **JSON)

    ended = await turn(harness)

    assert [body for _, _, body in harness.context.output] == ["one ", "two"]
    assert (ended.outcome, ended.text) == ("completed", "one two")


async def test_lines_that_are_not_json_are_skipped_and_counted(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    output = (b'warning!\n[1]\n{"result":"ok"}\n',)
    processes.plan(ProcessBehaviour(output=output, exits=DONE))
    harness = command_harness(runtime, **JSON)

    ended = await turn(harness)

    assert (ended.outcome, ended.text) == ("completed", "ok")
    assert harness.context.output[-1][1:] == (
        "warning",
        {"text": "2 lines of the output are not JSON objects"},
    )


async def test_an_overlong_line_is_skipped_and_the_next_is_read(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    flood = (b"x" * 65536,) * 40
    processes.plan(ProcessBehaviour(output=(*flood, b'\n{"result":"after"}\n'), exits=DONE))
    harness = command_harness(runtime, **JSON)

    ended = await turn(harness)

    assert ended.text == "after"
    assert "longer than 1048576 bytes" in harness.context.output[-1][2]["text"]


async def test_a_command_with_too_much_output_is_killed_and_fails_its_turn(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"x" * 600,) * 2))
    harness = command_harness(runtime, context=FakeDriverContext(max_turn_bytes=1000))

    ended = await turn(harness)

    assert (ended.outcome, ended.text) == ("failed", "x" * 600)
    assert "OutputTooLarge" in (ended.error or "")
    assert processes.last.signals[-1] == "kill"


async def test_a_command_is_not_read_while_the_store_is_behind(
    runtime: DriverRuntime, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"one", b"two"), exits=DONE))
    harness = command_harness(runtime)
    harness.context.fall_behind()
    turn_id = harness.order("go")
    await settle()
    said = harness.context.received_text(turn_id)
    harness.context.catch_up()
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (said, ended.text) == ("one", "onetwo")
