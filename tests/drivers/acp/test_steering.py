"""Steering of an ACP agent: taken, declined, unknown, or a new turn; see acp/steering.py."""

from __future__ import annotations

import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.effects import OfferSteering
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.acp.steering import (
    STEERING_ANSWER_SECONDS,
    STEERING_SETTLE_SECONDS,
    SteeringDelivery,
)
from supervisor.json_rpc.rpc_connection import RpcConnection
from supervisor.json_rpc.rpc_handlers import RpcHandlers
from tests.support.acp_driver import (
    STEERING,
    STEERS,
    at_work,
    open_harness,
    open_manual_agent,
    texts,
)
from tests.support.driver_context import FakeDriverContext

# Delivery ----------------------------------------------------------------------------------


async def test_native_steering_is_reported_only_for_agents_that_offer_it() -> None:
    for flags, steering in ((("--steering", "injected"), "native"), ((), "none")):
        async with open_harness(*flags) as harness:
            harness.driver.start()
            attached = await harness.context.heard(agent_events.AgentAttached)
            assert attached.agent.capabilities.steering == steering


async def test_steering_is_sent_and_taken() -> None:
    async with open_harness("--steering", "injected") as harness:
        await harness.come_up()
        turn = harness.order("steering")
        await settle()
        harness.hand(turn, "in_2", "more")
        taken = await harness.context.heard(agent_events.SteeringTaken)
        harness.hand(turn, "in_3", "enough")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (taken.turn, taken.inputs) == (turn, ("in_2",))
        assert ended.text == "more; enough; "


async def test_steering_asks_the_agent_not_to_start_a_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        asked = await manual_agent.hears(STEERING)
        manual_agent.answers(asked, {"outcome": "injected"})
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        assert asked["params"]["_meta"] == {"steering": {"idleBehavior": "promptRequired"}}
        assert set(asked["params"]) == {"sessionId", "prompt", "_meta"}


async def test_steering_that_is_only_offered_is_not_sent() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.steer(turn, "in_2", "not on record")
        await settle()
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.heard(STEERING) == []


async def test_steering_is_never_sent_before_the_prompt() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        await harness.come_up()
        for _ in range(20):
            turn = harness.order("go")
            harness.hand(turn, "in_2", "more")
            ends = len(harness.context.all(agent_events.TurnEnded)) + 1
            prompt = await manual_agent.hears("session/prompt", times=ends)
            manual_agent.answers(
                await manual_agent.hears(STEERING, times=ends), {"outcome": "injected"}
            )
            manual_agent.updates("hello")
            manual_agent.ends(prompt)
            await harness.context.heard(agent_events.TurnEnded, times=ends)

        assert harness.methods() == ["session/prompt", STEERING] * 20


async def test_steering_for_an_unsent_prompt_is_declined_at_once() -> None:
    async with open_manual_agent(STEERS) as (harness, _):
        await harness.come_up()
        turn = harness.order("go")
        harness.hand(turn, "in_2", "more")
        harness.driver.cancel_turn(turn, "ask")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringDeclined", "TurnEnded"]
        assert (harness.methods(), trio.current_time()) == ([], 0.0)


async def test_queued_steering_is_sent_in_one_call_in_order() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        for name in ("one", "two", "three", "four"):
            harness.hand(turn, f"in_{name}", name)
            await settle()
        first = await manual_agent.hears(STEERING)
        manual_agent.answers(first, {"outcome": "injected"})
        second = await manual_agent.hears(STEERING, times=2)
        manual_agent.answers(second, {"outcome": "injected"})
        taken = await harness.context.heard(agent_events.SteeringTaken, times=2)
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        assert (texts(first), texts(second)) == (["one"], ["two", "three", "four"])
        assert taken.inputs == ("in_two", "in_three", "in_four")


async def test_withdrawn_steering_is_not_sent() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        for name in ("one", "two", "three"):
            harness.hand(turn, f"in_{name}", name)
            await settle()
        harness.withdraw(turn, "in_two")
        manual_agent.answers(await manual_agent.hears(STEERING), {"outcome": "injected"})
        second = await manual_agent.hears(STEERING, times=2)
        manual_agent.answers(second, {"outcome": "injected"})
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        assert texts(second) == ["three"]


# Outcomes ----------------------------------------------------------------------------------


async def test_declined_steering_is_reported_before_the_turn_end() -> None:
    async with open_harness("--steering", "promptRequired") as harness:
        await harness.come_up()
        turn = harness.order("sleep 1\nsay hello")
        await settle()
        harness.hand(turn, "in_2", "more")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringDeclined", "TurnEnded"]


async def test_refused_steering_is_declined() -> None:
    async with open_harness("--steering", "injected", "--fail-at", "steering") as harness:
        await harness.come_up()
        turn = harness.order("sleep 1\nsay hello")
        await settle()
        harness.hand(turn, "in_2", "more")
        declined = await harness.context.heard(agent_events.SteeringDeclined)

        assert declined.inputs == ("in_2",)


async def test_steering_with_an_unknown_answer_is_unanswered() -> None:
    async with open_harness("--steering", "injected", "--rubbish-at", "steering") as harness:
        await harness.come_up()
        turn = harness.order("sleep 1\nsay hello")
        await settle()
        harness.hand(turn, "in_2", "more")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringUnanswered", "TurnEnded"]


async def test_steering_with_an_answer_that_is_not_json_is_unanswered() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, _ = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        manual_agent.writes(b'{"id": %d, "result": {"outcome": NaN}}' % steering["id"])
        unanswered = await harness.context.heard(agent_events.SteeringUnanswered)

        assert unanswered.inputs == ("in_2",)


async def test_unanswered_steering_delays_the_turn_end_within_a_bound() -> None:
    async with open_harness("--steering", "injected", "--hang-at", "steering") as harness:
        await harness.come_up()
        turn = harness.order("sleep 1\nsay hello")
        await settle()
        harness.hand(turn, "in_2", "more")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringUnanswered", "TurnEnded"]
        assert trio.current_time() == 1 + STEERING_SETTLE_SECONDS


async def test_unanswered_steering_cancels_a_possible_agent_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        await manual_agent.hears(STEERING)
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        ended = await harness.context.heard(agent_events.TurnEnded)
        harness.order("next")
        await manual_agent.hears("session/prompt", times=2)

        assert ended.outcome == "completed"
        assert harness.methods()[2:] == ["session/cancel", "session/prompt"]


async def test_steering_queued_behind_an_unanswered_call_is_declined() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        await manual_agent.hears(STEERING)
        harness.hand(turn, "in_3", "and more")
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringDeclined", "SteeringUnanswered", "TurnEnded"]
        assert harness.context.all(agent_events.SteeringDeclined)[0].inputs == ("in_3",)


async def test_steering_never_reaches_another_turn() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        harness.hand(turn, "in_3", "and more")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        harness.order("another")
        await manual_agent.hears("session/prompt", times=2)
        manual_agent.answers(steering, {"outcome": "injected"})  # at last
        await trio.sleep(2 * STEERING_ANSWER_SECONDS)

        assert len(harness.heard(STEERING)) == 1


async def test_steering_answered_after_the_prompt_is_awaited() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "more")
        steering = await manual_agent.hears(STEERING)
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        await trio.sleep(1)
        assert harness.context.kinds() == []
        manual_agent.answers(steering, {"outcome": "injected"})
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringTaken", "TurnEnded"]
        assert trio.current_time() == 1


async def test_steering_that_crashes_the_agent_is_unanswered() -> None:
    async with open_harness("--steering", "injected", "--die-at", "steering") as harness:
        await harness.come_up()
        turn = harness.order("sleep 100")
        await settle()
        harness.hand(turn, "in_2", "more")
        await harness.context.heard(agent_events.AgentExited)

        assert harness.context.kinds() == ["SteeringUnanswered", "AgentExited"]


async def test_steering_for_a_finished_turn_is_not_sent() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        harness.hand(turn, "in_2", "more")
        await settle()

        assert harness.heard(STEERING) == []


# The end of the turn -----------------------------------------------------------------------


async def test_steering_is_not_sent_after_the_prompt_is_answered() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        steering = await manual_agent.hears(STEERING)
        manual_agent.ends(prompt)
        await settle()
        harness.hand(turn, "in_3", "two")
        manual_agent.answers(steering, {"outcome": "injected"})
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringDeclined", "SteeringTaken", "TurnEnded"]
        assert len(harness.heard(STEERING)) == 1


async def test_an_interrupt_declines_steering_that_was_not_sent() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        steering = await manual_agent.hears(STEERING)
        harness.hand(turn, "in_3", "two")
        harness.driver.cancel_turn(turn, "ask")
        manual_agent.answers(steering, {"outcome": "injected"})
        await harness.context.heard(agent_events.SteeringTaken)
        manual_agent.ends(prompt, "cancelled")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringDeclined", "SteeringTaken", "TurnEnded"]
        assert len(harness.heard(STEERING)) == 1


async def test_unanswered_steering_does_not_make_an_interrupt_escalate() -> None:
    async with open_manual_agent(STEERS) as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        harness.hand(turn, "in_2", "one")
        await manual_agent.hears(STEERING)
        manual_agent.ends(prompt)
        await trio.sleep(1)
        harness.driver.cancel_turn(turn, "ask")
        await harness.context.heard(agent_events.TurnEnded)

        assert harness.context.kinds() == ["SteeringUnanswered", "TurnEnded"]
        assert trio.current_time() < 1 + harness.context.ladder.ask_seconds


async def test_steering_that_has_not_left_is_taken_back_at_the_end() -> None:
    context, sent, is_blocked = FakeDriverContext(), list[bytes](), trio.Event()

    async def send(data: bytes) -> None:
        sent.append(data)
        await is_blocked.wait()

    connection = RpcConnection(send, trio.sleep_forever, name="the agent")
    steering = SteeringDelivery(
        TurnId("turn_1"), "theirs", connection, context, on_agent_turn=lambda: None
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve, RpcHandlers())
        nursery.start_soon(connection.notify, "fills the pipe")
        await settle()
        steering.add(OfferSteering(TurnId("turn_1"), InputId("in_2"), "more", handed=True))
        assert steering.start_delivery()
        nursery.start_soon(steering.deliver)
        await settle()
        steering.end()
        is_blocked.set()
        await settle()
        nursery.cancel_scope.cancel()

    assert context.kinds() == ["SteeringDeclined"]
    assert len(sent) == 1
