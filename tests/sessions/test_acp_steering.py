"""Steering and permission requests of sessions whose agents are ACP processes."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, get_args

import pytest
import trio

from actors.testing import settle
from supervisor import Deny, HookEvent, NotRunning, QueueFull, Settings, Supervisor
from supervisor.drivers.acp.agent import scripted_process
from tests.support.acp_supervisor import open_acp_supervisor, open_session
from tests.support.fake_agents import outcomes, records, waiting_texts

# Steering ----------------------------------------------------------------------------------


async def test_steering_is_recorded_before_it_is_sent_at_once() -> None:
    async with open_session("--steering", "injected") as (session, _):
        await session.send("steering")
        await settle()
        receipt = await session.steer("more")
        await settle()
        await session.steer("enough")
        await settle()

        assert (await outcomes(session))[receipt.input_id] == ["steered"]
        kinds = [record.kind for record in await records(session)]
        assert kinds.index("input_changed") < kinds.index("steered")
        [_, ended, *_] = await records(session, "turn_started", "turn_ended")
        assert ended.body["text"] == "more; enough; "


async def test_declined_steering_is_queued_for_its_own_turn() -> None:
    async with open_session("--steering", "promptRequired") as (session, _):
        await session.send("sleep 5\nsay one")
        await session.send("say three")
        await settle()
        receipt = await session.steer("say four")
        await settle()
        assert await waiting_texts(session) == ["say three", "say four"]
        await trio.sleep(10)

        assert (await outcomes(session))[receipt.input_id] == ["delivered"]
        said = await records(session, "agent_text")
        assert [record.body["text"] for record in said] == ["one", "three", "four"]


async def test_unanswered_steering_fails_with_an_unknown_outcome() -> None:
    async with open_session("--steering", "injected", "--hang-at", "steering") as (session, _):
        await session.send("sleep 5\nsay one")
        await settle()
        receipt = await session.steer("more")
        waits = await session.steer("say two")
        await trio.sleep(60)

        ends = await records(session, "input_settled")
        settled = {one.body["input_id"]: one.body for one in ends}
        assert settled[receipt.input_id]["outcome"] == "failed"
        assert settled[receipt.input_id]["detail"] == "unknown"
        # The second text was never sent, so the agent certainly has not read it.
        assert settled[waits.input_id]["outcome"] == "delivered"


async def test_an_agent_that_starts_a_turn_from_steering_has_a_new_turn() -> None:
    async with open_session("--steering", "startedNewTurn") as (session, _):
        await session.send("say one\nsleep 1000")
        await settle()
        receipt = await session.steer("say two\nsleep 2\nsay three")
        await session.send("say four")
        await trio.sleep(60)

        assert (await outcomes(session))[receipt.input_id] == ["delivered"]
        ended = await records(session, "turn_ended")
        assert [one.body["text"] for one in ended] == ["one", "twothree", "four"]
        assert {one.body["outcome"] for one in ended} == {"completed"}


async def test_an_agent_started_turn_can_be_interrupted() -> None:
    async with open_session("--steering", "startedNewTurn") as (session, processes):
        await session.send("sleep 1000")
        await settle()
        await session.steer("say two\nsleep 1000")
        await trio.sleep(1)
        report = await session.interrupt()

        assert (report.stopped, report.ladder_step) == (1, "ask")
        assert (await session.prompt("say on")).text == "on"
        assert len(processes.all) == 1


async def test_steering_for_a_starting_agent_is_sent_after_its_start() -> None:
    settings = Settings(suspend_after_seconds=10.0)
    flags = ("--steering", "injected", "--delay", "3")
    async with open_session(*flags, settings=settings) as (session, _):
        await trio.sleep(30)
        await session.send("steering")
        receipt = await session.steer("more")
        await session.steer("enough")
        await trio.sleep(30)

        assert (await outcomes(session))[receipt.input_id] == ["steered"]
        [ended] = await records(session, "turn_ended")
        assert ended.body["text"].endswith("enough; ")


@pytest.mark.parametrize(("fallback", "texts"), [("queue", ["one", "two"]), ("interrupt", ["two"])])
async def test_steering_of_an_agent_without_support_follows_the_fallback(
    fallback: Literal["queue", "interrupt"], texts: list[str]
) -> None:
    settings = Settings(steer_fallback=fallback)
    async with open_session(settings=settings) as (session, _):
        await session.send("sleep 5\nsay one")
        await settle()
        await session.steer("say two")
        await trio.sleep(60)

        said = await records(session, "agent_text")
        assert [record.body["text"] for record in said] == texts


async def test_steering_that_crashes_the_agent_is_not_sent_again() -> None:
    async with open_session("--steering", "injected", "--die-at", "steering") as (session, them):
        await session.send("sleep 1000")
        await settle()
        receipt = await session.steer("more")
        await trio.sleep(60)

        assert (await outcomes(session))[receipt.input_id] == ["failed"]
        assert sum(b"_session/steering" in line for one in them.all for _, line in one.wire) == 1


# Steering around the end of a turn --------------------------------------------------------

Answer = Literal["injected", "promptRequired", "startedNewTurn"]


@pytest.mark.parametrize("answer", get_args(Answer))
async def test_steering_accepted_as_the_turn_ends_is_never_lost(answer: Answer) -> None:
    async with open_session("--steering", answer) as (session, _):
        receipts: list[str] = []

        async def steer_until_the_end() -> None:
            await trio.sleep(1)
            with suppress(NotRunning, QueueFull):
                while True:
                    receipts.append((await session.steer("think")).input_id)

        for _ in range(5):
            await session.send("sleep 1\nsay one")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(steer_until_the_end)
                nursery.start_soon(steer_until_the_end)
            await session.wait_idle()

        settled = await outcomes(session)
        assert receipts
        assert {settled[receipt][0] for receipt in receipts} <= {"steered", "delivered"}


async def test_steering_accepted_before_a_hook_denies_the_turn_is_queued() -> None:
    agent = scripted_process("agent", ["--steering", "injected"])
    async with open_acp_supervisor(agent) as (sup, _):
        session, is_steered = await sup.create("agent"), trio.Event()

        async def deny_once(event: HookEvent) -> Deny | None:
            await is_steered.wait()
            return Deny("not now") if event.data["text"] == "say one" else None

        sup.hooks.add("turn_start", deny_once)
        await session.send("say one")
        receipt = await session.steer("say two")
        is_steered.set()
        await session.wait_idle()

        assert (await outcomes(session))[receipt.input_id] == ["delivered"]


# Permission requests -----------------------------------------------------------------------


async def the_question(sup: Supervisor) -> str:
    await settle()
    [request] = await sup.permissions()
    return request.id


async def test_a_permission_request_waits_for_a_decision() -> None:
    async with open_acp_supervisor(scripted_process("agent")) as (sup, _):
        session = await sup.create("agent")
        await session.send("ask bash")
        request = await the_question(sup)
        assert (await session.info()).badge == "waiting-for-you"
        await sup.answer(request, "allow_once")
        await trio.sleep(1)

        [ended] = await records(session, "turn_ended")
        assert ended.body["text"] == "bash: allowed\n"


async def test_an_unanswered_permission_request_is_rejected() -> None:
    settings = Settings(permission_timeout_seconds=30.0)
    async with open_session(settings=settings) as (session, _):
        result = await session.prompt("ask bash")

        assert result.text == "bash: rejected\n"
        assert trio.current_time() == 30.0


async def test_allow_always_is_not_asked_again() -> None:
    async with open_acp_supervisor(
        scripted_process("agent", ["--offers", "allow_once,allow_always"])
    ) as (
        sup,
        _,
    ):
        session = await sup.create("agent")
        await session.send("ask bash\nask bash")
        await sup.answer(await the_question(sup), "allow_always")
        await trio.sleep(1)

        [ended] = await records(session, "turn_ended")
        assert ended.body["text"] == "bash: allowed\nbash: allowed\n"


async def test_an_interrupt_cancels_the_permission_request_and_the_turn() -> None:
    async with open_acp_supervisor(scripted_process("agent")) as (sup, processes):
        session = await sup.create("agent")
        await session.send("ask bash\nsay so what")
        await the_question(sup)
        report = await session.interrupt()

        assert (report.stopped, report.ladder_step) == (1, "ask")
        assert report.seconds < 0.1
        assert await sup.permissions() == ()
        [answered] = await records(session, "permission_answered")
        assert answered.body["decision"] == "cancelled"
        [ended] = await records(session, "turn_ended")
        assert (ended.body["outcome"], ended.body["text"]) == ("interrupted", "")
        assert len(processes.all) == 1


async def test_a_hook_can_reject_a_permission_request() -> None:
    async with open_acp_supervisor(scripted_process("agent")) as (sup, _):

        async def deny(_: HookEvent) -> Deny:
            return Deny("not here")

        sup.hooks.add("permission", deny)
        session = await sup.create("agent")

        assert (await session.prompt("ask bash")).text == "bash: rejected\n"


async def test_the_permission_request_of_a_crashed_agent_is_cancelled() -> None:
    async with open_acp_supervisor(scripted_process("agent")) as (sup, processes):
        session = await sup.create("agent")
        await session.send("ask bash")
        await the_question(sup)
        processes.all[0].kill()
        await trio.sleep(5)

        assert await sup.permissions() == ()
        [ended] = await records(session, "turn_ended")
        assert ended.body["outcome"] == "lost"
