"""Sessions whose agents are ACP processes: their starts, deaths, interrupts and comebacks."""

from __future__ import annotations

import json

import pytest
import trio

from actors.testing import settle
from supervisor import AgentStartFailed, Ladder, Phase, Restart, Session, Settings
from supervisor.core.session import LadderStep
from supervisor.drivers.acp import driver as acp_driver
from supervisor.drivers.acp.agent import acp, scripted_process
from tests.drivers.in_memory import InMemoryProcess, InMemoryProcesses
from tests.sessions.acp_house import open_house, open_session
from tests.sessions.cast import outcomes, records

ways = pytest.mark.parametrize("way", ["--load", "--resume", None])


def flags_of(way: str | None) -> list[str]:
    return [] if way is None else [way]


def prompts(process: InMemoryProcess) -> list[list[str]]:
    """The texts of each prompt that it got."""
    said = [json.loads(line) for side, line in process.wire if side == "client"]
    sent = [message["params"] for message in said if message.get("method") == "session/prompt"]
    return [[block["text"] for block in params["prompt"]] for params in sent]


# Starting ----------------------------------------------------------------------------------


async def test_a_session_knows_its_process_and_what_its_agent_calls_it() -> None:
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
async def test_one_that_does_not_come_up_is_said_to_whoever_wanted_it(
    flags: tuple[str, ...], kind: str
) -> None:
    async with open_house(scripted_process("agent", flags)) as (sup, _):
        with pytest.raises(AgentStartFailed):
            await sup.create("agent")
        [info] = (await sup.list()).items

        assert (info.phase, info.stop_reason) == (Phase.STOPPED, "start_failed")
        assert info.last_failure is not None
        assert info.last_failure.kind == kind


async def test_one_that_waits_for_a_login_says_so() -> None:
    flags = ("--auth", "key", "--hang-at", "authenticate")
    agent = acp("agent", scripted_process(flags=flags).command, auth="key")
    async with open_house(agent) as (sup, _), trio.open_nursery() as nursery:
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


async def test_an_idle_one_gives_way_and_comes_back() -> None:
    settings = Settings(max_agent_processes=1)
    async with open_house(scripted_process("agent", ["--load"]), settings=settings) as (sup, them):
        first = await sup.create("agent")
        await first.prompt("say one")
        second = await sup.create("agent")
        assert (await first.info()).phase is Phase.SUSPENDED

        assert (await first.prompt("say two")).text == "two"
        assert (await second.info()).phase is Phase.SUSPENDED
        assert them.most_alive == 1


async def test_no_more_start_at_once_than_may() -> None:
    settings = Settings(start_concurrency=2)
    agent = scripted_process("agent", ["--delay", "5"])
    async with open_house(agent, settings=settings) as (sup, them):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(sup.create, "agent")
            await trio.sleep(9)
            assert len(them.all) == 2

        assert len(them.alive) == 5


async def test_those_are_on_record_who_are_alive() -> None:
    async with open_house(scripted_process("agent")) as (sup, processes):
        first, second = await sup.create("agent"), await sup.create("agent")
        await first.stop()
        await second.send("hang")
        await settle()
        await second.interrupt()
        await second.prompt("say on")
        await settle()

        noted = {process.pid for process in await sup._house.store.processes()}
        assert noted == {process.identity.pid for process in processes.alive}
        assert len(noted) == 1


# Dying -------------------------------------------------------------------------------------


@ways
async def test_a_death_in_mid_turn_loses_the_turn_and_nothing_else(way: str | None) -> None:
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
async def test_an_agent_that_can_goes_on_with_its_own_conversation(way: str) -> None:
    async with open_session(way) as (session, processes):
        await session.prompt("say my name is Ada")
        await session.prompt("crash")
        await session.prompt("say on")

        assert (await session.info()).agent_session_id == "scripted-1"
        assert prompts(processes.all[1]) == [["say on"]]
        replayed = await records(session, "agent_text")
        assert [record.body["text"] for record in replayed] == ["my name is Ada", "on"]


async def test_an_agent_that_cannot_is_told_what_was_said_and_once() -> None:
    async with open_session() as (session, processes):
        await session.prompt("say my name is Ada")
        await session.prompt("crash")
        await session.prompt("say on")
        await session.prompt("say more")

        [[context, first], [second]] = prompts(processes.all[1])
        assert (first, second) == ("say on", "say more")
        assert "my name is Ada" in context


async def test_what_waited_runs_in_its_order_when_it_is_back() -> None:
    async with open_session("--load") as (session, _):
        await session.send("sleep 1\ncrash")
        for word in ("one", "two", "three"):
            await session.send(f"say {word}")
        assert (await session.prompt("say four")).text == "four"

        said = await records(session, "agent_text")
        assert [record.body["text"] for record in said] == ["one", "two", "three", "four"]


async def test_one_that_dies_again_and_again_is_given_up_and_its_queue_is_held() -> None:
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
async def test_an_exit_when_idle_is_a_completion_if_it_is_clean(code: int, reason: str) -> None:
    settings = Settings(restart=Restart(policy="never"))
    async with open_session(settings=settings) as (session, _):
        await session.prompt(f"say hello\nanswer\nsleep 5\nexit {code}")
        await session.wait_stopped()

        assert (await session.info()).stop_reason == reason


async def test_a_clean_exit_in_mid_turn_is_a_crash() -> None:
    async with open_session() as (session, _):
        assert (await session.prompt("say half\nexit 0")).outcome == "lost"
        assert (await session.info()).restarts == 1


# Interrupts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "step", "seconds"),
    [
        ("sleep 1000", "ask", 0.0),
        ("linger 3", "ask", 3.0),
        ("hang", "close", 5.0),
        ("ignore-eof\nhang", "terminate", 7.0),
        ("ignore-eof\nignore-term\nhang", "kill", 9.0),
        ("stop-self", "terminate", 7.0),
        ("deaf\nsleep 1000", "terminate", 7.0),
    ],
)
@ways
async def test_a_turn_is_ended_as_gently_as_possible_and_the_conversation_goes_on(
    script: str, step: LadderStep, seconds: float, way: str | None
) -> None:
    async with open_session(*flags_of(way)) as (session, processes):
        await session.prompt("say my name is Ada")
        await session.send(f"say half\n{script}")
        await settle()
        report = await session.interrupt()
        after = await session.prompt("say on")

        assert (report.matched, report.stopped, report.ladder_step) == (1, 1, step)
        assert report.seconds == seconds
        assert after.text == "on"
        info = await session.info()
        assert (info.restarts, info.last_failure) == (0, None)
        assert len(processes.all) == (1 if step == "ask" else 2)


async def test_one_that_ends_its_turn_when_its_input_is_closed_already_is_done_for() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("ignore-eof\nlinger 6")  # asked for 5 s, then its input is closed
        await settle()
        report = await session.interrupt()
        after = await session.prompt("say on")

        assert (report.stopped, report.ladder_step, report.seconds) == (1, "terminate", 7.0)
        assert (after.outcome, after.text) == ("completed", "on")
        info = await session.info()
        assert (info.restarts, info.phase) == (0, Phase.IDLE)
        assert len(processes.all) == 2


async def test_one_that_ends_its_turn_and_leaves_when_its_input_is_closed_has_not_completed() -> (
    None
):
    async with open_session("--load") as (session, _):
        await session.send("linger 5")  # both at the same time
        await session.send("say next")
        await settle()
        await session.interrupt()
        after = await session.prompt("say on")

        assert (after.outcome, after.text) == ("completed", "on")
        info = await session.info()
        assert (info.restarts, info.phase, info.stop_reason) == (0, Phase.IDLE, None)


async def test_what_was_said_before_the_end_of_the_ladder_is_kept() -> None:
    async with open_session() as (session, _):
        await session.send("say half\nhang")
        await settle()
        await session.interrupt()
        [ended] = await records(session, "turn_ended")

        assert (ended.body["outcome"], ended.body["text"]) == ("interrupted", "half")


async def test_a_replacement_runs_on_the_next_process() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("hang")
        await settle()
        await session.interrupt(replace_with="say instead")
        await trio.sleep(1)

        assert prompts(processes.all[1]) == [["say instead"]]


async def test_a_turn_whose_agent_is_not_up_is_over_at_once() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("hang")
        await settle()
        await session.interrupt()
        await session.send("sleep 10")  # starts another process
        report = await session.interrupt()

        assert (report.stopped, report.seconds) == (1, 0.0)
        assert (await session.prompt("say on")).text == "on"
        assert len(processes.all) <= 3


async def test_a_stop_while_it_starts_is_no_crash() -> None:
    async with open_session("--load") as (session, processes):
        await session.send("hang")
        await settle()
        await session.interrupt()
        await session.send("say never")
        await session.stop()
        info = await session.info()

        assert (info.stop_reason, info.last_failure) == ("user_cancelled", None)
        assert processes.alive == []


@pytest.mark.parametrize("script", ["sleep 1000", "hang", "stop-self", "ignore-eof\nhang"])
async def test_a_stop_in_mid_turn_takes_no_longer_than_its_ladder_and_is_no_crash(
    script: str,
) -> None:
    async with open_session("--close") as (session, processes):
        await session.send(script)
        await settle()
        began = trio.current_time()
        await session.stop()

        assert trio.current_time() - began <= Ladder().total_seconds
        assert processes.alive == []
        info = await session.info()
        assert (info.stop_reason, info.restarts) == ("user_cancelled", 0)


async def test_one_that_nothing_ends_is_a_zombie_and_the_session_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = InMemoryProcesses(are_immortal=True)
    monkeypatch.setattr(acp_driver, "is_alive", processes.is_alive)
    async with open_session(processes=processes) as (session, _):
        await session.send("ignore-eof\nhang")
        await settle()
        report = await session.interrupt()
        assert (report.stopped, report.unreachable, report.ladder_step) == (0, 1, "kill")
        assert report.seconds == Ladder().total_seconds
        assert (await session.info()).badge == "unhealthy"

        receipt = await session.send("say on")
        await trio.sleep(100)
        assert len(processes.all) == 1
        processes.all[0].die()
        await trio.sleep(10)

        assert (await outcomes(session))[receipt.input_id] == ["delivered"]
        [said] = await records(session, "agent_text")
        assert said.body["text"] == "on"
        processes.all[-1].is_immortal = False


# Resting -----------------------------------------------------------------------------------


@ways
async def test_a_session_that_rests_has_no_process_and_goes_on_when_it_wakes(
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


async def test_a_new_chapter_is_a_new_conversation() -> None:
    async with open_session("--load") as (session, processes):
        await session.prompt("say my name is Ada")
        await session.clear()
        await session.prompt("say who am I")

        [*_, prompt] = prompts(processes.all[-1])
        assert prompt == ["say who am I"]
        assert (await session.info()).agent_session_id == "scripted-2"


async def test_leaving_ends_them_all() -> None:
    settings = Settings(exit_seconds=5.0)
    async with open_house(scripted_process("agent"), settings=settings) as (sup, processes):
        sessions: list[Session] = [await sup.create("agent") for _ in range(4)]
        for session, script in zip(
            sessions, ("say x", "sleep 1000", "hang", "stop-self"), strict=True
        ):
            await session.send(script)
        await settle()
        assert len(processes.alive) == 4
