"""Answers to steering that come after the end of its turn; see acp/steering.py."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from tests.support.acp_driver import STEERING, STEERS, at_work, open_manual_agent


async def test_an_answer_after_the_end_of_its_turn_is_dropped() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        steering = await manual_agent.hears(STEERING)
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        await settle()

        assert harness.context.kinds() == ["SteeringUnanswered", "TurnEnded"]


async def test_a_turn_begun_by_a_late_answer_is_cancelled_before_the_next_prompt() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        harness.driver.cancel_turn(turn, "ask")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        heard = len(harness.methods())
        harness.order("next")
        await settle()
        assert harness.methods()[heard:] == []
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        await manual_agent.hears("session/prompt", times=2)

        assert harness.methods()[heard:] == ["session/cancel", "session/prompt"]


async def test_an_interrupt_ends_the_wait_for_a_late_answer() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        await manual_agent.hears(STEERING)
        harness.driver.cancel_turn(turn, "ask")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        began = trio.current_time()
        harness.driver.cancel_turn(harness.order("next"), "ask")
        await harness.context.heard(agent_events.TurnEnded, times=2)

        assert trio.current_time() == began
        assert len(harness.heard("session/prompt")) == 1


@pytest.mark.parametrize("is_answered_first", [True, False])
async def test_a_late_answer_outlasts_an_interrupted_wait_for_it(
    is_answered_first: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        harness.driver.cancel_turn(turn, "ask")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        harness.driver.cancel_turn(harness.order("next"), "ask")
        await harness.context.heard(agent_events.TurnEnded, times=2)
        heard = len(harness.methods())
        if not is_answered_first:
            harness.order("after next")
            await settle()
        assert harness.methods()[heard:] == []
        manual_agent.answers(steering, {"outcome": "startedNewTurn"})
        await settle()
        if is_answered_first:
            harness.order("after next")
        await manual_agent.hears("session/prompt", times=2)

        assert harness.methods()[heard:] == ["session/cancel", "session/prompt"]
