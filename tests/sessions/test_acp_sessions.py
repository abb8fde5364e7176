"""Sessions whose agents are ACP processes: starts, crashes, restarts and suspension."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor import AgentStartFailed, Phase, Restart, Session, Settings
from supervisor.drivers.acp.agent import acp, scripted_process
from tests.support.acp_supervisor import (
    flags_of,
    open_acp_supervisor,
    open_session,
    prompts,
    resume_flags,
)
from tests.support.fake_agents import records

# Starting ----------------------------------------------------------------------------------


async def test_a_session_shows_its_process_and_agent_session_id() -> None:
    async with open_session() as (session, processes):
        info = await session.info()

        assert info.pid == processes.all[0].identity.pid
        assert info.agent_session_id == "scripted-1"


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (("--die-at", "initialize"), "process_exit"),
        (("--hang-at", "new"), "timeout"),
        (("--fail-at", "new"), "handshake"),
        (("--protocol", "2"), "protocol"),
        (("--auth", "key"), "auth"),
    ],
)
async def test_a_failed_agent_start_is_reported_to_the_caller(
    flags: tuple[str, ...], kind: str
) -> None:
    async with open_acp_supervisor(scripted_process("agent", flags)) as (sup, _):
        with pytest.raises(AgentStartFailed):
            await sup.create("agent")
        [info] = (await sup.list()).items

        assert (info.phase, info.stop_reason) == (Phase.STOPPED, "start_failed")
        assert info.last_failure is not None
        assert info.last_failure.kind == kind


async def test_a_session_waiting_for_authentication_shows_the_badge() -> None:
    flags = ("--auth", "key", "--hang-at", "authenticate")
    agent = acp("agent", scripted_process(flags=flags).command, auth="key")
    async with open_acp_supervisor(agent) as (sup, _), trio.open_nursery() as nursery:
        nursery.start_soon(give_up_on, sup)
        await trio.sleep(30)
        [info] = (await sup.list()).items
        assert info.badge == "waiting-for-auth"

        await trio.sleep(400)
        [info] = (await sup.list()).items
        assert info.badge == "failed"
        assert info.last_failure is not None
        assert info.last_failure.kind == "auth"


async def give_up_on(sup: object) -> None:
    with pytest.raises(AgentStartFailed):
        await sup.create("agent")  # type: ignore[attr-defined]  # a Supervisor


async def test_the_longest_idle_agent_process_is_suspended_and_resumes() -> None:
    settings = Settings(max_agent_processes=1)
    async with open_acp_supervisor(scripted_process("agent", ["--load"]), settings=settings) as (
        sup,
        them,
    ):
        first = await sup.create("agent")
        await first.prompt("say one")
        second = await sup.create("agent")
        assert (await first.info()).phase is Phase.SUSPENDED

        assert (await first.prompt("say two")).text == "two"
        assert (await second.info()).phase is Phase.SUSPENDED
        assert them.most_alive == 1


async def test_concurrent_agent_starts_are_limited() -> None:
    settings = Settings(start_concurrency=2)
    agent = scripted_process("agent", ["--delay", "5"])
    async with open_acp_supervisor(agent, settings=settings) as (sup, them):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(sup.create, "agent")
            await trio.sleep(9)
            assert len(them.all) == 2

        assert len(them.alive) == 5


async def test_the_store_records_the_live_agent_processes() -> None:
    async with open_acp_supervisor(scripted_process("agent")) as (sup, processes):
        first, second = await sup.create("agent"), await sup.create("agent")
        await first.stop()
        await second.send("hang")
        await settle()
        await second.interrupt()
        await second.prompt("say on")
        await settle()

        noted = {process.pid for process in await sup._services.store.processes()}
        assert noted == {process.identity.pid for process in processes.alive}
        assert len(noted) == 1


# Crashes -----------------------------------------------------------------------------------


@resume_flags
async def test_an_agent_crash_loses_only_the_running_turn(way: str | None) -> None:
    async with open_session(*flags_of(way)) as (session, processes):
        await session.prompt("say my name is Ada")
        lost = await session.prompt("say half\ncrash")
        after = await session.prompt("say on")

        assert (lost.outcome, lost.text) == ("lost", "half")
        assert "the script says crash" in (lost.error or "")
        assert after.text == "on"
        info = await session.info()
        assert (info.restarts, info.phase) == (1, Phase.IDLE)
        assert len(processes.all) == 2


@pytest.mark.parametrize("way", ["--load", "--resume"])
async def test_a_restarted_agent_resumes_its_own_conversation(way: str) -> None:
    async with open_session(way) as (session, processes):
        await session.prompt("say my name is Ada")
        await session.prompt("crash")
        await session.prompt("say on")

        assert (await session.info()).agent_session_id == "scripted-1"
        assert prompts(processes.all[1]) == [["say on"]]
        replayed = await records(session, "agent_text")
        assert [record.body["text"] for record in replayed] == ["my name is Ada", "on"]


async def test_a_restarted_agent_without_resume_gets_the_history_once() -> None:
    async with open_session() as (session, processes):
        await session.prompt("say my name is Ada")
        await session.prompt("crash")
        await session.prompt("say on")
        await session.prompt("say more")

        [[context, first], [second]] = prompts(processes.all[1])
        assert (first, second) == ("say on", "say more")
        assert "my name is Ada" in context


async def test_queued_inputs_run_in_order_after_a_restart() -> None:
    async with open_session("--load") as (session, _):
        await session.send("sleep 1\ncrash")
        for word in ("one", "two", "three"):
            await session.send(f"say {word}")
        assert (await session.prompt("say four")).text == "four"

        said = await records(session, "agent_text")
        assert [record.body["text"] for record in said] == ["one", "two", "three", "four"]


async def test_a_repeatedly_crashing_agent_is_given_up_and_its_queue_kept() -> None:
    settings = Settings(restart=Restart(max_restarts=2, backoff_seconds=0.0))
    async with open_session("--die-at", "prompt", settings=settings) as (session, processes):
        for number in range(5):
            await session.send(f"say {number}")
        await session.wait_stopped()
        info = await session.info()

        assert (info.stop_reason, info.badge, info.restarts) == ("agent_crashed", "failed", 2)
        assert info.queued == 2
        assert len(processes.all) == 3


@pytest.mark.parametrize(("code", "reason"), [(0, "completed"), (3, "agent_crashed")])
async def test_a_clean_exit_of_an_idle_agent_completes_the_session(code: int, reason: str) -> None:
    settings = Settings(restart=Restart(policy="never"))
    async with open_session(settings=settings) as (session, _):
        await session.prompt(f"say hello\nanswer\nsleep 5\nexit {code}")
        await session.wait_stopped()

        assert (await session.info()).stop_reason == reason


async def test_a_clean_exit_in_a_turn_is_a_crash() -> None:
    async with open_session() as (session, _):
        assert (await session.prompt("say half\nexit 0")).outcome == "lost"
        assert (await session.info()).restarts == 1


# Suspension --------------------------------------------------------------------------------


@resume_flags
async def test_a_suspended_session_has_no_process_and_continues_when_resumed(
    way: str | None,
) -> None:
    settings = Settings(suspend_after_seconds=60.0)
    async with open_session(*flags_of(way), settings=settings) as (session, processes):
        await session.prompt("say my name is Ada")
        await trio.sleep(100)
        assert (await session.info()).phase is Phase.SUSPENDED
        assert processes.alive == []

        await session.prompt("say on")
        [prompt] = prompts(processes.all[1])
        assert len(prompt) == (1 if way is not None else 2)


async def test_a_cleared_session_starts_a_new_conversation() -> None:
    async with open_session("--load") as (session, processes):
        await session.prompt("say my name is Ada")
        await session.clear()
        await session.prompt("say who am I")

        [*_, prompt] = prompts(processes.all[-1])
        assert prompt == ["say who am I"]
        assert (await session.info()).agent_session_id == "scripted-2"


async def test_an_agent_gets_appended_messages_once() -> None:
    async with open_session() as (session, processes):
        await session.prompt("say one")
        await session.append("user", "my name is Ada")
        await session.append("agent", "hello Ada")
        await session.prompt("say two")
        await session.prompt("say three")

        [[first], [missed, second], [third]] = prompts(processes.all[-1])
        assert (first, second, third) == ("say one", "say two", "say three")
        assert "user: my name is Ada\n\nagent: hello Ada" in missed
        assert "one" not in missed


@resume_flags
async def test_an_agent_started_later_gets_appended_messages(way: str | None) -> None:
    async with open_session(*flags_of(way)) as (session, processes):
        await session.prompt("say one")
        await session.stop()
        await session.append("user", "my name is Ada")
        await session.prompt("say two")

        [[missed, second]] = prompts(processes.all[-1])
        assert second == "say two"
        assert missed.count("my name is Ada") == 1
        assert ("say one" in missed) == (way is None)  # a new conversation has no history


async def test_closing_the_supervisor_ends_all_agent_processes() -> None:
    settings = Settings(exit_seconds=5.0)
    async with open_acp_supervisor(scripted_process("agent"), settings=settings) as (
        sup,
        processes,
    ):
        sessions: list[Session] = [await sup.create("agent") for _ in range(4)]
        for session, script in zip(
            sessions, ("say x", "sleep 1000", "hang", "stop-self"), strict=True
        ):
            await session.send(script)
        await settle()
        assert len(processes.alive) == 4
