"""Commands as agents, with real processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.drivers.command.agent import command
from supervisor.drivers.identity import is_alive
from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.runtime import DriverRuntime
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.process_programs import PATIENCE_SECONDS, PREAMBLE, alive, known

# A tool that keeps its conversations in files, as those with --resume do.
TOOL = """#!/bin/sh
if [ "$1" = resume ]; then id=$2; else id=c$$; fi
cat >> $id
echo '{"type":"start","id":"'$id'"}'
echo '{"type":"answer","text":"'$(cat $id)'"}'
"""


@pytest.fixture
async def runtime(nursery: trio.Nursery, processes: ContainedProcesses) -> DriverRuntime:
    return DriverRuntime(nursery, processes=processes)


@pytest.fixture
def context(tmp_path: Path) -> FakeDriverContext:
    context = FakeDriverContext(workspace=str(tmp_path))

    def remember(event: ev.Event) -> None:
        if isinstance(event, agent_events.AgentSessionNamed):
            context.agent_session_id = event.session_id

    context.on_report = remember
    return context


async def turn(harness: DriverHarness, text: str) -> agent_events.TurnEnded:
    harness.order(text)
    before = len(harness.context.all(agent_events.TurnEnded))
    with trio.fail_after(PATIENCE_SECONDS):
        return await harness.context.heard(agent_events.TurnEnded, times=before + 1)


async def said(
    runtime: DriverRuntime,
    words: list[str],
    text: str,
    **options: Any,  # noqa: ANN401 - of `command`
) -> agent_events.TurnEnded:
    return await turn(DriverHarness(command("tool", words, **options), runtime), text)


async def test_a_real_command_gets_the_prompt_and_its_text_is_written(
    runtime: DriverRuntime,
) -> None:
    ended = await said(runtime, ["tr", "a-z", "A-Z"], "hello")

    assert (ended.outcome, ended.text) == ("completed", "HELLO")


async def test_a_long_prompt_does_not_deadlock_a_command_that_writes_first(
    runtime: DriverRuntime,
) -> None:
    # Either would wait for the other for ever if both did not flow at once.
    program = "head -c 300000 /dev/zero | tr '\\0' x; wc -c"

    ended = await said(runtime, ["sh", "-c", program], "y" * 300_000)

    assert (ended.text or "").strip("x \n") == "300000"


async def test_a_command_need_not_read_its_prompt(runtime: DriverRuntime) -> None:
    assert (await said(runtime, ["echo", "done"], "x" * 300_000)).text == "done\n"


async def test_a_prompt_too_long_for_an_argument_fails_with_a_hint(runtime: DriverRuntime) -> None:
    ended = await said(runtime, ["echo", "{prompt}"], "x" * 300_000)

    assert ended.outcome == "failed"
    assert "standard input" in (ended.error or "")


async def test_a_failed_command_shows_its_stderr(runtime: DriverRuntime) -> None:
    ended = await said(runtime, ["sh", "-c", "echo no model >&2; exit 4"], "go")

    assert ended.error == "the command exited with code 4: no model"


async def test_a_command_continues_its_conversation(
    runtime: DriverRuntime, context: FakeDriverContext, tmp_path: Path
) -> None:
    tool = tmp_path / "tool"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    agent = command(
        "tool",
        [str(tool)],
        resume_command=[str(tool), "resume", "{session_id}"],
        text="[type=answer].text",
        session_id_at="id",
    )
    harness = DriverHarness(agent, runtime, context)

    assert (await turn(harness, "one\n")).text == "one"
    assert (await turn(harness, "two\n")).text == "one two"
    assert len(harness.context.all(agent_events.AgentSessionNamed)) == 1
    assert harness.context.processes == []


async def test_an_interrupt_sends_sigint_and_keeps_the_output(
    runtime: DriverRuntime,
) -> None:
    script = "trap 'echo stopped; exit 0' INT; echo working; while :; do sleep 0.01; done"
    harness = DriverHarness(command("tool", ["sh", "-c", script]), runtime)
    turn_id = harness.order("go")
    with trio.fail_after(PATIENCE_SECONDS):
        while not harness.context.received_text(turn_id):  # noqa: ASYNC110 - no event to wait for
            await trio.sleep(0.001)
        harness.driver.cancel_turn(turn_id, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, ended.text) == ("interrupted", "working\nstopped\n")


async def test_no_child_of_a_command_outlives_its_turn(
    runtime: DriverRuntime, tmp_path: Path
) -> None:
    # The command ends when the test has seen its child alive, and not before.
    seen_alive = tmp_path / "seen alive"
    program = (
        f"{PREAMBLE}\nimport time\nsay(child(os.setsid))\n"
        f"while not os.path.exists({str(seen_alive)!r}): time.sleep(0.001)"
    )
    harness = DriverHarness(
        command("tool", [sys.executable, "-I", "-S", "-c", program, "{prompt}"]), runtime
    )
    seen: list[Any] = []
    written = harness.context.write_text

    def look(turn: Any, kind: Any, text: str, **options: Any) -> None:  # noqa: ANN401 - as it comes
        seen.append(known(int(text)))
        seen_alive.touch()
        written(turn, kind, text, **options)

    harness.context.write_text = look  # type: ignore[method-assign]  # to look while it lives
    ended = await turn(harness, "go")

    assert ended.outcome == "completed"
    assert alive(seen) == []


@pytest.mark.parametrize("end", ["drop", "close"])
async def test_discarding_the_driver_kills_the_command(runtime: DriverRuntime, end: str) -> None:
    harness = DriverHarness(command("tool", ["sh", "-c", "trap '' TERM; sleep 1000"]), runtime)
    harness.context.ladder = type(harness.context.ladder)(terminate_seconds=0.01)
    turn_id = harness.order("go")
    with trio.fail_after(PATIENCE_SECONDS):
        while not harness.context.processes:  # noqa: ASYNC110 - no event to wait for
            await trio.sleep(0.001)
        (identity,) = harness.context.processes
        if end == "drop":
            harness.driver.discard()
            assert (await harness.context.heard(agent_events.ZombieEnded)).turn == turn_id
        else:
            harness.driver.close()
            await harness.context.heard(agent_events.AgentClosed)

    assert not is_alive(identity)
    assert harness.context.processes == []
