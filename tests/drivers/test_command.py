"""Agents that are a command: what is run for a turn, and what it says."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.effects import StartTurn
from supervisor.core.errors import ConfigError, StoreDegraded
from supervisor.core.ids import InputId, TurnId
from supervisor.core.session import Capabilities
from supervisor.drivers.command.agent import command
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import Workshop
from tests.drivers.command_desk import DONE, JSON, at_desk, turn
from tests.drivers.office import StandInOffice
from tests.drivers.process_fake import FakeProcesses, Play


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
async def workshop(nursery: trio.Nursery, processes: FakeProcesses) -> Workshop:
    return Workshop(nursery, processes=processes, max_agent_processes=1)


# What an agent may be ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"command": "tool"}, "a list of words"),
        ({"command": []}, "the program and its arguments"),
        ({"name": " "}, "some text"),
        ({"output": "yaml"}, "text, json_lines"),
        ({"output": "text", "text": "result"}, "leave text"),
        ({"text": "a..b"}, "names with dots"),
        ({"session_id_at": "a[b]"}, "names with dots"),
        ({"resume_command": "tool"}, "a list of words"),
        ({"env": {"A=": "x"}}, "NAME"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(
    wrong: dict[str, Any], hint: str
) -> None:
    given = {"name": "tool", "command": ["tool"], **wrong}

    with pytest.raises(ConfigError) as refused:
        command(given.pop("name"), given.pop("command"), **given)

    assert hint in refused.value.hint


def test_the_keys_of_an_agent_are_not_shown() -> None:
    assert "hidden" not in repr(command("tool", ["tool"], env={"KEY": "hidden"}))


async def test_a_command_is_up_as_soon_as_it_is_asked_to_be(workshop: Workshop) -> None:
    office = StandInOffice()
    office.agent_session_id = "known"
    desk = at_desk(workshop, "tool", "{session_id}", office=office)

    desk.driver.start()

    (up,) = office.all(ev.AgentAttached)
    assert (up.agent.session_id, up.agent.pid) == ("known", None)
    assert up.agent.capabilities == Capabilities(
        steering="none",
        cancels_calls=False,
        loads_sessions=True,
        ladder=("ask", "terminate", "kill"),
    )


# What is run ---------------------------------------------------------------------------------


async def test_a_prompt_is_given_by_standard_input_which_then_ends(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(answers=lambda data: data.decode().upper().encode()))
    desk = at_desk(workshop, "tool", "-v", office=StandInOffice(workspace="/work"))

    ended = await turn(desk, "grüße")

    assert (ended.outcome, ended.stop_reason, ended.text) == ("completed", "end_turn", "GRÜSSE")
    assert processes.last.sent == "grüße".encode()
    assert processes.last.is_input_closed
    assert processes.launches[0].command == ("tool", "-v")
    assert processes.launches[0].cwd == "/work"


async def test_a_prompt_may_be_a_word_and_nothing_in_it_means_anything(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(exits=DONE))
    desk = at_desk(workshop, "tool", '{"a": {}}', "say {prompt}!", "{prompt}")

    await turn(desk, "{session_id} {prompt} $HOME")

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
    workshop: Workshop, processes: FakeProcesses, words: tuple[str, ...], last: str
) -> None:
    processes.plan(Play(exits=DONE))

    await turn(at_desk(workshop, *words), "--force")

    assert processes.launches[0].command[-1] == last


async def test_a_command_gets_the_allowed_environment_and_what_is_given_for_it(
    workshop: Workshop, processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_TOKEN", "ours")
    processes.plan(Play(exits=DONE))

    await turn(at_desk(workshop, env={"KEY": "its own"}))

    environment = processes.launches[0].environment
    assert environment["KEY"] == "its own"
    assert "PATH" in environment
    assert "UNDERSTUDY_TOKEN" not in environment


async def test_attachments_are_left_out_and_that_is_said(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(exits=DONE))
    desk = at_desk(workshop)
    desk.office.begin(TurnId("turn_1"))

    desk.driver.start_turn(StartTurn(TurnId("turn_1"), InputId("in_1"), "look", ({"a": 1},)))
    await desk.office.heard(ev.TurnEnded)

    assert [kind for _, kind, _ in desk.office.output] == ["warning"]


async def test_a_process_is_on_record_as_long_as_it_lives(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    desk = at_desk(workshop)
    desk.order("go")
    await settle()
    noted = list(desk.office.processes)

    processes.last.leave(DONE)
    await desk.office.heard(ev.TurnEnded)

    assert noted == [processes.last.identity]
    assert desk.office.processes == []


async def test_a_process_that_cannot_be_put_on_record_fails_its_turn(workshop: Workshop) -> None:
    class Degraded(StandInOffice):
        async def note_process(self, identity: ProcessIdentity) -> None:
            await trio.lowlevel.checkpoint()
            raise StoreDegraded("the disk is full", hint="make room")

        def forget_process(self, identity: ProcessIdentity) -> None:
            """It was not noted."""

    ended = await turn(at_desk(workshop, office=Degraded()))

    assert ended.outcome == "failed"
    assert "the disk is full" in (ended.error or "")


# What it says --------------------------------------------------------------------------------


async def test_text_is_said_as_it_comes_with_whole_characters(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    desk = at_desk(workshop)
    desk.order("go")
    await settle()
    process = processes.last
    for piece in (b"a\xc3", b"\xa4", b"\xff", b"b\xe2\x82"):
        process.say(piece)
        await settle()
    said = [body for _, _, body in desk.office.output]
    process.leave(DONE)
    ended = await desk.office.heard(ev.TurnEnded)

    assert said == ["a", "ä", "\ufffd", "b"]
    assert ended.text == "aä\ufffdb\ufffd"


async def test_the_texts_in_lines_of_json_are_said_and_the_rest_is_not(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    lines = b'{"type":"start"}\n{"result":"one "}\r\n\n{"result":null}\n{"result":"two"}'
    processes.plan(Play(output=(lines[:30], lines[30:]), exits=DONE))
    desk = at_desk(workshop, **JSON)

    ended = await turn(desk)

    assert [body for _, _, body in desk.office.output] == ["one ", "two"]
    assert (ended.outcome, ended.text) == ("completed", "one two")


async def test_what_is_no_line_of_json_is_passed_over_and_counted(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    output = (b'warning!\n[1]\n{"result":"ok"}\n',)
    processes.plan(Play(output=output, exits=DONE))
    desk = at_desk(workshop, **JSON)

    ended = await turn(desk)

    assert (ended.outcome, ended.text) == ("completed", "ok")
    assert desk.office.output[-1][1:] == (
        "warning",
        {"text": "2 lines of its output were no JSON objects"},
    )


async def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_read(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    flood = (b"x" * 65536,) * 40
    processes.plan(Play(output=(*flood, b'\n{"result":"after"}\n'), exits=DONE))
    desk = at_desk(workshop, **JSON)

    ended = await turn(desk)

    assert ended.text == "after"
    assert "longer than 1048576 bytes" in desk.office.output[-1][2]["text"]


async def test_a_command_that_says_too_much_is_killed_and_fails_its_turn(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"x" * 600,) * 2))
    desk = at_desk(workshop, office=StandInOffice(max_turn_bytes=1000))

    ended = await turn(desk)

    assert (ended.outcome, ended.text) == ("failed", "x" * 600)
    assert "OutputTooLarge" in (ended.error or "")
    assert processes.last.signals[-1] == "kill"


async def test_a_command_is_not_read_while_the_store_is_behind(
    workshop: Workshop, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"one", b"two"), exits=DONE))
    desk = at_desk(workshop)
    desk.office.fall_behind()
    turn_id = desk.order("go")
    await settle()
    said = desk.office.said(turn_id)
    desk.office.catch_up()
    ended = await desk.office.heard(ev.TurnEnded)

    assert (said, ended.text) == ("one", "onetwo")
