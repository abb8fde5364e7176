"""A conversation that goes on with another process: continued by the agent, or told to it."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Message
from supervisor.core import events as ev
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.agent import acp, scripted_process
from supervisor.drivers.acp.turns.context import MAX_CONTEXT_BYTES, context_blocks
from tests.drivers.acp.driver_desk import AcpDesk, Puppet, open_desk, open_puppet
from tests.drivers.in_memory import InMemoryProcesses
from tests.drivers.office import StandInOffice

SECONDS = 20.0
PAST = (Message("user", "my name is Ada", 0.0), Message("agent", "hello Ada", 1.0))
ways = pytest.mark.parametrize("way", ["load", "resume"])


def office_of(known: str | None) -> StandInOffice:
    """Of a session whose agent was another process before."""
    office = StandInOffice(past=PAST)
    office.agent_session_id = known
    return office


async def remembered(*flags: str) -> InMemoryProcesses:
    """Processes that have kept a conversation under the name `scripted-1`."""
    processes = InMemoryProcesses()
    async with open_desk(*flags, processes=processes) as desk:
        await desk.come_up()
        await desk.run("say once upon a time")
    return processes


async def come_back(desk: AcpDesk) -> str | None:
    """Bring it up; gives by which name it knows the conversation."""
    desk.driver.start()
    return (await desk.office.heard(ev.AgentAttached)).agent.session_id


@ways
async def test_it_goes_on_with_the_conversation_that_it_knows(way: str) -> None:
    processes = await remembered(f"--{way}")
    async with open_desk(f"--{way}", processes=processes, office=office_of("scripted-1")) as desk:
        assert await come_back(desk) == "scripted-1"
        await desk.run("say on")

        assert desk.heard(f"session/{way}")
        assert desk.heard("session/new") == []
        assert desk.prompts() == [["say on"]]


@pytest.mark.parametrize("flags", [("--load",), ("--resume", "--resume-replays")])
async def test_what_is_replayed_is_history_and_no_news(flags: tuple[str, ...]) -> None:
    processes = await remembered(*flags)
    async with open_desk(*flags, processes=processes, office=office_of("scripted-1")) as desk:
        await come_back(desk)
        await settle()

        assert any(b"once upon a time" in line for _, line in desk.process.wire)
        assert desk.office.output == []
        assert desk.office.kinds() == ["AgentAttached"]


async def test_resuming_is_preferred_to_loading() -> None:
    flags = ("--load", "--resume")
    processes = await remembered(*flags)
    async with open_desk(*flags, processes=processes, office=office_of("scripted-1")) as desk:
        await come_back(desk)

        assert desk.heard("session/resume")
        assert desk.heard("session/load") == []


async def test_one_that_offers_to_resume_and_cannot_is_asked_to_load() -> None:
    can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    known = office_of("puppet-7")
    async with open_puppet(
        {"agentCapabilities": can}, manual=("session/resume", "session/load"), office=known
    ) as (desk, puppet):
        desk.driver.start()
        puppet.refuses(await puppet.hears("session/resume"), -32601, "no such method")
        puppet.answers(await puppet.hears("session/load"), {})
        attached = await desk.office.heard(ev.AgentAttached)

        assert attached.agent.session_id == "puppet-7"


async def test_one_that_says_nothing_of_continuing_is_not_asked_to() -> None:
    async with open_desk(office=office_of("scripted-7")) as desk:
        assert await come_back(desk) == "scripted-1"

        assert desk.heard("session/load") == desk.heard("session/resume") == []


def says_cost(puppet: Puppet, amount: float, session: str) -> None:
    cost = {"amount": amount, "currency": "USD"}
    update = {"sessionUpdate": "usage_update", "cost": cost}
    params = {"sessionId": session, "update": update}
    puppet.says({"jsonrpc": "2.0", "method": "session/update", "params": params})


@pytest.mark.parametrize(("goes_on", "spent"), [("yes", 0.25), ("no", 2.0)])
async def test_what_a_conversation_has_cost_before_is_not_counted_again(
    goes_on: str, spent: float
) -> None:
    known = office_of("puppet-7")
    known.agent_session_cost = 1.75
    can = {"loadSession": goes_on == "yes"}
    async with open_puppet({"agentCapabilities": can}, manual=("session/load",), office=known) as (
        desk,
        puppet,
    ):
        desk.driver.start()
        if goes_on == "yes":
            puppet.answers(await puppet.hears("session/load"), {})
        attached = await desk.office.heard(ev.AgentAttached)
        desk.order("go")
        prompt = await puppet.hears("session/prompt")
        says_cost(puppet, 2.0, str(attached.agent.session_id))
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        assert [event.usage.cost for event in desk.office.all(ev.UsageReported)] == [spent]


# Told what was said ------------------------------------------------------------------------


async def test_one_that_knows_nothing_is_told_what_was_said_once() -> None:
    async with open_desk(office=office_of("gone")) as desk:
        await come_back(desk)
        await desk.run("say on")
        await desk.run("say more")

        [[context, first], [second]] = desk.prompts()
        assert (first, second) == ("say on", "say more")
        assert "user: my name is Ada\n\nagent: hello Ada" in context


@ways
async def test_one_that_has_forgotten_begins_anew_and_is_told(way: str) -> None:
    async with open_desk(f"--{way}", office=office_of("never-heard-of")) as desk:
        assert await come_back(desk) == "scripted-1"
        await desk.run("say on")

        assert "hello Ada" in desk.prompts()[0][0]


@ways
async def test_one_that_refuses_to_go_on_begins_anew_and_is_told(way: str) -> None:
    async with open_desk(f"--{way}", "--fail-at", way, office=office_of("scripted-1")) as desk:
        await come_back(desk)
        await desk.run("say on")

        assert len(desk.prompts()[0]) == 2
        [warning] = desk.office.written("warning")
        assert "does not go on with its own session" in warning["text"]


@ways
async def test_one_that_hangs_on_its_past_begins_anew_within_the_bound(way: str) -> None:
    command = scripted_process(flags=(f"--{way}", "--hang-at", way)).command
    hangs = acp("scripted", command, handshake_seconds=SECONDS)
    async with open_desk(agent=hangs, office=office_of("scripted-1")) as desk:
        await come_back(desk)

        assert trio.current_time() == SECONDS
        assert desk.heard("session/new")
        await desk.run("say on")
        assert len(desk.prompts()[0]) == 2


@ways
async def test_one_that_dies_of_its_past_says_so_and_what_to_do(way: str) -> None:
    async with open_desk(f"--{way}", "--die-at", way, office=office_of("scripted-1")) as desk:
        desk.driver.start()
        failed = await desk.office.heard(ev.AgentStartFailed)

        assert failed.failure.kind == "load_session"
        assert f"session/{way}" in failed.failure.detail
        assert "clear()" in failed.failure.detail
        assert "told to die" in failed.failure.detail


@ways
async def test_rubbish_for_an_answer_is_a_yes(way: str) -> None:
    office = office_of("scripted-1")
    async with open_desk(f"--{way}", "--rubbish-at", way, office=office) as desk:
        assert await come_back(desk) == "scripted-1"


# When what was said is told, and when it is not --------------------------------------------


async def test_a_turn_that_ends_before_it_is_sent_leaves_the_past_to_be_told() -> None:
    async with open_desk(office=office_of("gone")) as desk:
        await come_back(desk)
        turn = desk.order("say first")
        desk.driver.cancel_turn(turn, "ask")
        await desk.office.heard(ev.TurnEnded)
        await desk.run("say second")

        assert [len(prompt) for prompt in desk.prompts()] == [2]


async def test_a_prompt_that_is_refused_for_want_of_a_login_leaves_it_too() -> None:
    async with open_puppet(office=office_of("gone")) as (desk, puppet):
        await come_back(desk)
        desk.order("first")
        puppet.refuses(await puppet.hears("session/prompt"), -32000, "who are you?")
        await desk.office.heard(ev.TurnEnded)
        desk.order("second")
        puppet.ends(await puppet.hears("session/prompt", times=2))
        await desk.office.heard(ev.TurnEnded, times=2)

        assert [len(prompt) for prompt in desk.prompts()] == [2, 2]


class Blind(StandInOffice):
    """Its store cannot be read."""

    async def history(self, turn: TurnId) -> tuple[Message, ...]:
        await trio.lowlevel.checkpoint()
        raise StoreDegraded("the disk is gone", hint="wait")


async def test_a_past_that_cannot_be_read_fails_the_turn_and_not_the_agent() -> None:
    async with open_desk(office=Blind()) as desk:
        await come_back(desk)
        ended = await desk.run("say hello")
        await settle()

        assert ended.outcome == "failed"
        assert "the disk is gone" in (ended.error or "")
        assert desk.office.kinds() == ["AgentAttached", "TurnEnded"]


# The words ---------------------------------------------------------------------------------


def test_nothing_said_needs_no_words() -> None:
    assert context_blocks(()) == []


def test_of_a_long_past_the_end_is_told() -> None:
    past = [Message("user", f"{number} " + "x" * 1000, 0.0) for number in range(1000)]

    [block] = context_blocks(past)

    assert "user: 999 " in block["text"]
    assert "user: 0 " not in block["text"]
    assert "left out" in block["text"]
    assert len(block["text"]) < MAX_CONTEXT_BYTES + 10_000


def test_of_one_endless_message_the_end_is_told() -> None:
    endless = "x" * 10_000_000 + "the end"

    [block] = context_blocks([Message("user", "before", 0.0), Message("agent", endless, 1.0)])

    assert "the end" in block["text"]
    assert len(block["text"].encode()) < MAX_CONTEXT_BYTES + 10_000


def test_no_character_is_cut_in_half() -> None:
    [block] = context_blocks(
        [Message("agent", "\N{SMILING FACE WITH SMILING EYES}" * 1_000_000, 0.0)]
    )

    assert "\N{REPLACEMENT CHARACTER}" not in block["text"]
