"""Turns that an ACP agent starts by itself from late steering; see acp/acp_turn.py."""

from __future__ import annotations

import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.effects import AdoptTurn
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.acp.acp_session import ADOPTION_SECONDS
from supervisor.drivers.acp.turn_result import FIRST_OUTPUT_SECONDS, SILENCE_SECONDS
from tests.support.acp_driver import (
    STEERING,
    STEERS,
    at_work,
    open_harness,
    open_manual_agent,
    texts,
)


async def test_a_turn_that_the_agent_starts_is_a_new_turn() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("say one\nsleep 1000")
        await settle()
        harness.hand(first, "in_2", "say two\nsleep 1\nsay three")
        ended = await harness.context.heard(agent_events.TurnEnded)

        began = harness.context.all(agent_events.SteeringBeganTurn)
        assert [(event.turn, event.input) for event in began] == [(first, "in_2")]
        assert (ended.turn, ended.outcome, ended.text) == ("turn_2", "completed", "twothree")
        assert harness.context.kinds() == ["SteeringBeganTurn", "TurnEnded"]
        assert harness.context.output[0] == (first, "agent_text", "one")


async def test_an_agent_started_turn_ends_after_silence() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("sleep 1000")
        await settle()
        harness.hand(first, "in_2", "say two\nsleep 1\nsay three")
        await harness.context.heard(agent_events.TurnEnded)

        assert trio.current_time() == 1 + SILENCE_SECONDS
        # Silence is a guess: a turn that still runs is cancelled before the next prompt.
        assert len(harness.heard("session/cancel")) == 1
        # If it still runs, the cancel ends it before the next prompt.
        assert len(harness.heard("session/cancel")) == 1


async def test_an_agent_started_turn_gets_longer_before_its_first_output() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("sleep 1000")
        await settle()
        harness.hand(first, "in_2", f"sleep {FIRST_OUTPUT_SECONDS - 1}\nsay at last")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.text) == ("completed", "at last")


async def test_an_agent_started_turn_without_output_ends_within_a_bound() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("sleep 1000")
        await settle()
        harness.hand(first, "in_2", "sleep 1")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "failed"
        assert trio.current_time() == FIRST_OUTPUT_SECONDS


async def test_the_first_of_two_steering_texts_starts_the_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        harness.hand(turn, "in_3", "two")
        steering = await manual_agent.hears(STEERING)
        manual_agent.ends(prompt)
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        manual_agent.updates("both")
        await harness.context.heard(agent_events.TurnEnded)

        assert texts(steering) == ["one", "two"]
        assert harness.context.kinds() == ["SteeringTaken", "SteeringBeganTurn", "TurnEnded"]


async def test_an_agent_may_start_a_turn_before_it_answers_the_prompt() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        manual_agent.updates("new")
        await settle()
        manual_agent.ends(prompt)
        await settle()
        manual_agent.updates("er")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.turn, ended.text) == ("turn_2", "newer")


async def test_an_agent_started_turn_can_be_steered_into_another_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        manual_agent.answers(await manual_agent.hears(STEERING), {"outcome": "startedNewTurn"})
        manual_agent.ends(prompt)
        manual_agent.updates("second")
        await settle()
        harness.hand(
            harness.context.all(agent_events.SteeringBeganTurn)[0].turn, "in_x", "of the first"
        )
        harness.hand(harness.latest_turn, "in_3", "and more")
        manual_agent.answers(
            await manual_agent.hears(STEERING, times=2), {"outcome": "startedNewTurn"}
        )
        manual_agent.updates("third")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.turn, ended.text) == ("turn_3", "third")
        assert texts(await manual_agent.hears(STEERING, times=2)) == ["and more"]


async def test_an_agent_started_turn_can_be_cancelled() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("sleep 1000")
        await settle()
        harness.hand(first, "in_2", "say two\nsleep 1000")
        await harness.context.heard(agent_events.SteeringBeganTurn)
        await trio.sleep(1)
        harness.driver.cancel_turn(harness.latest_turn, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.turn, ended.outcome) == ("turn_2", "interrupted")
        assert trio.current_time() <= 1 + SILENCE_SECONDS


async def test_an_agent_that_exits_in_its_own_turn_reports_no_turn_end() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("sleep 1000")
        await settle()
        harness.hand(first, "in_2", "say two\nsleep 1\ncrash")
        await harness.context.heard(agent_events.AgentExited)

        assert harness.context.kinds() == ["SteeringBeganTurn", "AgentExited"]


async def test_an_adoption_that_never_comes_is_awaited_only_once() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.context.on_report = lambda _: None  # like a session that is stopping
        harness.hand(turn, "in_2", "more")
        manual_agent.answers(await manual_agent.hears(STEERING), {"outcome": "startedNewTurn"})
        for _ in range(100):
            manual_agent.updates("x")
        manual_agent.ends(prompt)
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.turn, ended.text) == (turn, "x" * 100)
        assert trio.current_time() == ADOPTION_SECONDS + SILENCE_SECONDS


async def test_a_turn_interrupted_before_adoption_ends_with_its_answer() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.context.on_report = lambda _: None  # the session is interrupting and adopts no turn
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        harness.driver.cancel_turn(turn, "ask")
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        for _ in range(100):
            manual_agent.updates("x")
        manual_agent.ends(prompt, "cancelled")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "interrupted"
        assert trio.current_time() <= SILENCE_SECONDS


async def test_a_turn_that_the_agent_starts_after_a_cancel_is_cancelled_too() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.context.on_report = lambda _: None
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        harness.driver.cancel_turn(turn, "ask")
        await manual_agent.hears("session/cancel")
        manual_agent.ends(prompt, "cancelled")
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        await manual_agent.hears("session/cancel", times=2)
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "interrupted"


async def test_a_permission_request_of_an_agent_started_turn_belongs_to_it() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        manual_agent.ends(prompt)
        manual_agent.answers(await manual_agent.hears(STEERING), {"outcome": "startedNewTurn"})
        option = {"optionId": "yes", "name": "yes", "kind": "allow_once"}
        call = {"toolCallId": "c1", "title": "bash"}
        asked = {"sessionId": "manual_agent", "toolCall": call, "options": [option]}
        request = manual_agent.asks("session/request_permission", asked)
        question = await harness.context.heard(agent_events.PermissionAsked)
        await trio.sleep(2 * FIRST_OUTPUT_SECONDS)
        harness.driver.answer(question.request, "allow_once")
        answer = await manual_agent.hears_answer(request)

        assert question.turn == "turn_2"
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
        assert harness.context.all(agent_events.TurnEnded) == []


async def test_an_open_tool_call_is_not_silence() -> None:
    async with open_harness("--steering", "startedNewTurn") as harness:
        await harness.come_up()
        first = harness.order("sleep 1000")
        await settle()
        harness.hand(first, "in_2", "tool tests 600\nsay all pass")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.text) == ("completed", "all pass")
        assert trio.current_time() == 600 + SILENCE_SECONDS


async def test_a_late_adoption_ends_the_adopted_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.context.on_report = lambda _: None  # the session is very slow
        harness.hand(turn, "in_2", "more")
        manual_agent.answers(await manual_agent.hears(STEERING), {"outcome": "startedNewTurn"})
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        harness.driver.adopt_turn(AdoptTurn(TurnId("turn_2"), InputId("in_2"), "more"))

        assert [end.turn for end in harness.context.all(agent_events.TurnEnded)] == [turn, "turn_2"]


async def test_queued_steering_is_declined_when_the_agent_starts_a_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        steering = await manual_agent.hears(STEERING)
        harness.hand(turn, "in_3", "two")
        manual_agent.ends(prompt)
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        manual_agent.updates("x")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringDeclined", "SteeringBeganTurn", "TurnEnded"]
        assert len(harness.heard(STEERING)) == 1


async def test_steering_for_the_old_turn_never_reaches_an_agent_started_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.context.on_report = lambda _: None  # the session has not handled the new turn yet
        harness.hand(turn, "in_2", "one")
        manual_agent.ends(prompt)
        manual_agent.answers(await manual_agent.hears(STEERING), {"outcome": "startedNewTurn"})
        await harness.context.heard(agent_events.SteeringBeganTurn)
        harness.hand(turn, "in_3", "two")
        await settle()

        assert len(harness.heard(STEERING)) == 1
        assert harness.context.kinds() == ["SteeringBeganTurn", "SteeringDeclined"]


async def test_an_answered_turn_ends_when_steering_crashes_the_agent() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        await manual_agent.hears(STEERING)
        harness.hand(turn, "in_3", "two")
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        manual_agent.leaves(0)
        await harness.context.heard(agent_events.AgentExited)

        assert harness.context.kinds() == [
            "SteeringDeclined",
            "SteeringUnanswered",
            "TurnEnded",
            "AgentExited",
        ]
