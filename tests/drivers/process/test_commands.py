"""Commands as agents, with real processes: what the contract and the fakes cannot show."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from supervisor.core import events as ev
from supervisor.drivers.command.agent import command
from supervisor.drivers.identity import is_alive
from supervisor.drivers.port import Workshop
from supervisor.drivers.process.contained import ContainedProcesses
from tests.drivers.office import Desk, StandInOffice
from tests.drivers.process.programs import PATIENCE_SECONDS, PREAMBLE, alive, known

# A tool that keeps its conversations in files, as those with --resume do.
TOOL = """#!/bin/sh
if [ "$1" = resume ]; then id=$2; else id=c$$; fi
cat >> $id
echo '{"type":"start","id":"'$id'"}'
echo '{"type":"answer","text":"'$(cat $id)'"}'
"""


@pytest.fixture
async def workshop(nursery: trio.Nursery, processes: ContainedProcesses) -> Workshop:
    return Workshop(nursery, processes=processes)


@pytest.fixture
def office(tmp_path: Path) -> StandInOffice:
    office = StandInOffice(workspace=str(tmp_path))

    def remember(event: ev.Event) -> None:
        if isinstance(event, ev.AgentSessionNamed):
            office.agent_session_id = event.session_id

    office.on_report = remember
    return office


async def turn(desk: Desk, text: str) -> ev.TurnEnded:
    desk.order(text)
    before = len(desk.office.all(ev.TurnEnded))
    with trio.fail_after(PATIENCE_SECONDS):
        return await desk.office.heard(ev.TurnEnded, times=before + 1)


async def said(workshop: Workshop, words: list[str], text: str, **options: Any) -> ev.TurnEnded:  # noqa: ANN401 - of `command`
    return await turn(Desk(command("tool", words, **options), workshop), text)


async def test_a_prompt_goes_in_and_text_comes_out(workshop: Workshop) -> None:
    ended = await said(workshop, ["tr", "a-z", "A-Z"], "hello")

    assert (ended.outcome, ended.text) == ("completed", "HELLO")


async def test_a_long_prompt_goes_through_a_command_that_writes_before_it_has_read(
    workshop: Workshop,
) -> None:
    # Either would wait for the other for ever if both did not flow at once.
    program = "head -c 300000 /dev/zero | tr '\\0' x; wc -c"

    ended = await said(workshop, ["sh", "-c", program], "y" * 300_000)

    assert (ended.text or "").strip("x \n") == "300000"


async def test_a_command_need_not_read_its_prompt(workshop: Workshop) -> None:
    assert (await said(workshop, ["echo", "done"], "x" * 300_000)).text == "done\n"


async def test_a_prompt_that_is_too_long_for_a_word_says_what_to_do(workshop: Workshop) -> None:
    ended = await said(workshop, ["echo", "{prompt}"], "x" * 300_000)

    assert ended.outcome == "failed"
    assert "standard input" in (ended.error or "")


async def test_a_command_that_fails_says_what_it_complained_about(workshop: Workshop) -> None:
    ended = await said(workshop, ["sh", "-c", "echo no model >&2; exit 4"], "go")

    assert ended.error == "it has exited with code 4: no model"


async def test_a_tool_goes_on_with_its_conversation(
    workshop: Workshop, office: StandInOffice, tmp_path: Path
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
    desk = Desk(agent, workshop, office)

    assert (await turn(desk, "one\n")).text == "one"
    assert (await turn(desk, "two\n")).text == "one two"
    assert len(desk.office.all(ev.AgentSessionNamed)) == 1
    assert desk.office.processes == []


async def test_an_interrupt_is_what_ctrl_c_would_be_and_what_was_said_stays(
    workshop: Workshop,
) -> None:
    script = "trap 'echo stopped; exit 0' INT; echo working; while :; do sleep 0.01; done"
    desk = Desk(command("tool", ["sh", "-c", script]), workshop)
    turn_id = desk.order("go")
    with trio.fail_after(PATIENCE_SECONDS):
        while not desk.office.said(turn_id):  # noqa: ASYNC110 - nobody tells us
            await trio.sleep(0.001)
        desk.driver.cancel_turn(turn_id, "ask")
        ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.outcome, ended.text) == ("interrupted", "working\nstopped\n")


async def test_nothing_that_a_command_has_started_outlives_its_turn(workshop: Workshop) -> None:
    program = f"{PREAMBLE}\nsay(child(os.setsid)); sys.stdin.read()"
    desk = Desk(command("tool", [sys.executable, "-I", "-S", "-c", program, "{prompt}"]), workshop)
    seen: list[Any] = []
    written = desk.office.write_text

    def look(turn: Any, kind: Any, text: str, **options: Any) -> None:  # noqa: ANN401 - as it comes
        seen.append(known(int(text)))
        written(turn, kind, text, **options)

    desk.office.write_text = look  # type: ignore[method-assign]  # to look while it lives
    ended = await turn(desk, "go")

    assert ended.outcome == "completed"
    assert alive(seen) == []


@pytest.mark.parametrize("end", ["drop", "close"])
async def test_a_command_whose_session_is_gone_is_gone_too(workshop: Workshop, end: str) -> None:
    desk = Desk(command("tool", ["sh", "-c", "trap '' TERM; sleep 1000"]), workshop)
    desk.office.ladder = type(desk.office.ladder)(terminate_seconds=0.01)
    turn_id = desk.order("go")
    with trio.fail_after(PATIENCE_SECONDS):
        while not desk.office.processes:  # noqa: ASYNC110 - nobody tells us
            await trio.sleep(0.001)
        (identity,) = desk.office.processes
        if end == "drop":
            desk.driver.drop()
            assert (await desk.office.heard(ev.ZombieEnded)).turn == turn_id
        else:
            desk.driver.close()
            await desk.office.heard(ev.AgentClosed)

    assert not is_alive(identity)
    assert desk.office.processes == []
