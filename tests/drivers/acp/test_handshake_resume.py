"""Conversation resumed by a new process, by the agent or with the history; see acp/handshake.py."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import Message
from supervisor.core import agent_events
from supervisor.core.errors import StoreDegraded
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.agent import acp, scripted_process
from supervisor.drivers.acp.prompts import MAX_CONTEXT_BYTES, context_blocks
from tests.support.acp_driver import AcpHarness, ManualAgent, open_harness, open_manual_agent
from tests.support.driver_context import FakeDriverContext
from tests.support.in_memory_processes import InMemoryProcesses

SECONDS = 20.0
PAST = (Message("user", "my name is Ada", 0.0), Message("agent", "hello Ada", 1.0))
ways = pytest.mark.parametrize("way", ["load", "resume"])


def office_of(known: str | None) -> FakeDriverContext:
    """Return the context of a session whose previous agent process has ended."""
    context = FakeDriverContext(past=PAST)
    context.agent_session_id = known
    return context


async def remembered(*flags: str) -> InMemoryProcesses:
    """Return processes that keep a conversation with the id `scripted-1`."""
    processes = InMemoryProcesses()
    async with open_harness(*flags, processes=processes) as harness:
        await harness.come_up()
        await harness.run("say once upon a time")
    return processes


async def come_back(harness: AcpHarness) -> str | None:
    """Start the agent; return its session id."""
    harness.driver.start()
    return (await harness.context.heard(agent_events.AgentAttached)).agent.session_id


@ways
async def test_the_agent_resumes_its_own_conversation(way: str) -> None:
    processes = await remembered(f"--{way}")
    async with open_harness(
        f"--{way}", processes=processes, context=office_of("scripted-1")
    ) as harness:
        assert await come_back(harness) == "scripted-1"
        await harness.run("say on")

        assert harness.heard(f"session/{way}")
        assert harness.heard("session/new") == []
        assert harness.prompts() == [["say on"]]


@pytest.mark.parametrize("flags", [("--load",), ("--resume", "--resume-replays")])
async def test_replayed_updates_make_no_records(flags: tuple[str, ...]) -> None:
    processes = await remembered(*flags)
    async with open_harness(
        *flags, processes=processes, context=office_of("scripted-1")
    ) as harness:
        await come_back(harness)
        await settle()

        assert any(b"once upon a time" in line for _, line in harness.process.wire)
        assert harness.context.output == []
        assert harness.context.kinds() == ["AgentAttached"]


async def test_session_resume_is_preferred_to_session_load() -> None:
    flags = ("--load", "--resume")
    processes = await remembered(*flags)
    async with open_harness(
        *flags, processes=processes, context=office_of("scripted-1")
    ) as harness:
        await come_back(harness)

        assert harness.heard("session/resume")
        assert harness.heard("session/load") == []


async def test_session_load_is_tried_if_session_resume_is_missing() -> None:
    can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    known = office_of("manual_agent-7")
    async with open_manual_agent(
        {"agentCapabilities": can}, manual=("session/resume", "session/load"), context=known
    ) as (harness, manual_agent):
        harness.driver.start()
        manual_agent.refuses(await manual_agent.hears("session/resume"), -32601, "no such method")
        manual_agent.answers(await manual_agent.hears("session/load"), {})
        attached = await harness.context.heard(agent_events.AgentAttached)

        assert attached.agent.session_id == "manual_agent-7"


async def test_an_agent_without_resume_gets_a_new_session() -> None:
    async with open_harness(context=office_of("scripted-7")) as harness:
        assert await come_back(harness) == "scripted-1"

        assert harness.heard("session/load") == harness.heard("session/resume") == []


def says_cost(manual_agent: ManualAgent, amount: float, session: str) -> None:
    cost = {"amount": amount, "currency": "USD"}
    update = {"sessionUpdate": "usage_update", "cost": cost}
    params = {"sessionId": session, "update": update}
    manual_agent.says({"jsonrpc": "2.0", "method": "session/update", "params": params})


@pytest.mark.parametrize(("goes_on", "spent"), [("yes", 0.25), ("no", 2.0)])
async def test_the_cost_before_a_resume_is_not_counted_again(goes_on: str, spent: float) -> None:
    known = office_of("manual_agent-7")
    known.agent_session_cost = 1.75
    can = {"loadSession": goes_on == "yes"}
    async with open_manual_agent(
        {"agentCapabilities": can}, manual=("session/load",), context=known
    ) as (
        harness,
        manual_agent,
    ):
        harness.driver.start()
        if goes_on == "yes":
            manual_agent.answers(await manual_agent.hears("session/load"), {})
        attached = await harness.context.heard(agent_events.AgentAttached)
        harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        says_cost(manual_agent, 2.0, str(attached.agent.session_id))
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        assert [event.usage.cost for event in harness.context.all(agent_events.UsageReported)] == [
            spent
        ]


# History for a new conversation ------------------------------------------------------------


async def test_a_new_conversation_gets_the_history_once() -> None:
    async with open_harness(context=office_of("gone")) as harness:
        await come_back(harness)
        await harness.run("say on")
        await harness.run("say more")

        [[context, first], [second]] = harness.prompts()
        assert (first, second) == ("say on", "say more")
        assert "user: my name is Ada\n\nagent: hello Ada" in context


@ways
async def test_an_agent_that_lost_its_session_gets_the_history(way: str) -> None:
    async with open_harness(f"--{way}", context=office_of("never-heard-of")) as harness:
        assert await come_back(harness) == "scripted-1"
        await harness.run("say on")

        assert "hello Ada" in harness.prompts()[0][0]


@ways
async def test_an_agent_that_refuses_to_resume_gets_the_history(way: str) -> None:
    async with open_harness(
        f"--{way}", "--fail-at", way, context=office_of("scripted-1")
    ) as harness:
        await come_back(harness)
        await harness.run("say on")

        assert len(harness.prompts()[0]) == 2
        [warning] = harness.context.written("warning")
        assert "could not resume its own session" in warning["text"]


@ways
async def test_a_resume_that_hangs_times_out_and_starts_a_new_session(way: str) -> None:
    command = scripted_process(flags=(f"--{way}", "--hang-at", way)).command
    hangs = acp("scripted", command, handshake_seconds=SECONDS)
    async with open_harness(agent=hangs, context=office_of("scripted-1")) as harness:
        await come_back(harness)

        assert trio.current_time() == SECONDS
        assert harness.heard("session/new")
        await harness.run("say on")
        assert len(harness.prompts()[0]) == 2


@ways
async def test_an_agent_that_crashes_on_resume_fails_with_a_hint(way: str) -> None:
    async with open_harness(
        f"--{way}", "--die-at", way, context=office_of("scripted-1")
    ) as harness:
        harness.driver.start()
        failed = await harness.context.heard(agent_events.StartFailed)

        assert failed.failure.kind == "load_session"
        assert f"session/{way}" in failed.failure.detail
        assert "clear()" in failed.failure.detail
        assert "told to die" in failed.failure.detail


@ways
async def test_a_malformed_answer_to_resume_counts_as_success(way: str) -> None:
    context = office_of("scripted-1")
    async with open_harness(f"--{way}", "--rubbish-at", way, context=context) as harness:
        assert await come_back(harness) == "scripted-1"


# When the history is sent ------------------------------------------------------------------


async def test_an_unsent_turn_leaves_the_history_for_the_next() -> None:
    async with open_harness(context=office_of("gone")) as harness:
        await come_back(harness)
        turn = harness.order("say first")
        harness.driver.cancel_turn(turn, "ask")
        await harness.context.heard(agent_events.TurnEnded)
        await harness.run("say second")

        assert [len(prompt) for prompt in harness.prompts()] == [2]


async def test_a_prompt_refused_for_authentication_leaves_the_history_too() -> None:
    async with open_manual_agent(context=office_of("gone")) as (harness, manual_agent):
        await come_back(harness)
        harness.order("first")
        manual_agent.refuses(await manual_agent.hears("session/prompt"), -32000, "who are you?")
        await harness.context.heard(agent_events.TurnEnded)
        harness.order("second")
        manual_agent.ends(await manual_agent.hears("session/prompt", times=2))
        await harness.context.heard(agent_events.TurnEnded, times=2)

        assert [len(prompt) for prompt in harness.prompts()] == [2, 2]


class Blind(FakeDriverContext):
    """A context whose store cannot be read."""

    async def history(self, turn: TurnId) -> tuple[Message, ...]:
        await trio.lowlevel.checkpoint()
        raise StoreDegraded("the disk is gone", hint="wait")


async def test_an_unreadable_history_fails_the_turn_and_keeps_the_agent() -> None:
    async with open_harness(context=Blind()) as harness:
        await come_back(harness)
        ended = await harness.run("say hello")
        await settle()

        assert ended.outcome == "failed"
        assert "the disk is gone" in (ended.error or "")
        assert harness.context.kinds() == ["AgentAttached", "TurnEnded"]


# The history block -------------------------------------------------------------------------


def test_an_empty_history_makes_no_block() -> None:
    assert context_blocks(()) == []


def test_a_long_history_keeps_its_last_messages() -> None:
    past = [Message("user", f"{number} " + "x" * 1000, 0.0) for number in range(1000)]

    [block] = context_blocks(past)

    assert "user: 999 " in block["text"]
    assert "user: 0 " not in block["text"]
    assert "left out" in block["text"]
    assert len(block["text"]) < MAX_CONTEXT_BYTES + 10_000


def test_a_very_long_message_keeps_its_end() -> None:
    endless = "x" * 10_000_000 + "the end"

    [block] = context_blocks([Message("user", "before", 0.0), Message("agent", endless, 1.0)])

    assert "the end" in block["text"]
    assert len(block["text"].encode()) < MAX_CONTEXT_BYTES + 10_000


def test_a_cut_message_has_whole_characters() -> None:
    [block] = context_blocks(
        [Message("agent", "\N{SMILING FACE WITH SMILING EYES}" * 1_000_000, 0.0)]
    )

    assert "\N{REPLACEMENT CHARACTER}" not in block["text"]
