"""Agents that are a command: what is run for a turn, and what becomes of it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.effects import StartTurn
from supervisor.core.errors import ConfigError, StoreDegraded
from supervisor.core.ids import InputId, TurnId
from supervisor.core.session import Capabilities
from supervisor.drivers.command.agent import CommandAgent, command
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.port import Workshop
from supervisor.drivers.process.port import Exit
from tests.drivers.office import Desk, StandInOffice
from tests.drivers.process_fake import FakeProcesses, Play

DONE = Exit(0)
JSON: Mapping[str, Any] = {"output": "json_lines", "text": "result"}


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
async def workshop(nursery: trio.Nursery, processes: FakeProcesses) -> Workshop:
    return Workshop(nursery, processes=processes, max_agent_processes=1)


def at_desk(
    workshop: Workshop,
    *words: str,
    office: StandInOffice | None = None,
    **options: Any,  # noqa: ANN401 - of `command`
) -> Desk:
    return Desk(command("tool", words or ("tool",), **options), workshop, office)


async def turn(desk: Desk, text: str = "go") -> ev.TurnEnded:
    """Run one to its end."""
    desk.order(text)
    before = len(desk.office.all(ev.TurnEnded))
    return await desk.office.heard(ev.TurnEnded, times=before + 1)


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
    import orjson  # noqa: PLC0415 - here only

    processes.plan(Play(output=(orjson.dumps({"session_id": name}),), exits=DONE))
    desk = at_desk(workshop, **JSON, session_id_at="session_id")

    await turn(desk)

    assert named(desk) == (["a"] if isinstance(name, list) else [])


def test_an_agent_is_a_value() -> None:
    assert command("tool", ["tool"]) == CommandAgent(name="tool", command=("tool",))
