"""Guidance for an ACP agent in the middle of a turn: taken, declined, unknown, or a new turn."""

from __future__ import annotations

import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.drivers.acp.turns.guidance import ANSWER_SECONDS
from supervisor.drivers.acp.turns.talk import GUIDANCE_SECONDS
from tests.drivers.acp.driver_desk import STEERING, STEERS, at_work, open_desk, open_puppet, texts

# Who takes it ------------------------------------------------------------------------------


async def test_one_that_says_so_takes_it_at_once_and_one_that_does_not_takes_none() -> None:
    for flags, steering in ((("--steering", "injected"), "native"), ((), "none")):
        async with open_desk(*flags) as desk:
            desk.driver.start()
            attached = await desk.office.heard(ev.AgentAttached)
            assert attached.agent.capabilities.steering == steering


async def test_it_is_handed_over_and_taken() -> None:
    async with open_desk("--steering", "injected") as desk:
        await desk.come_up()
        turn = desk.order("steering")
        await settle()
        desk.hand(turn, "in_2", "more")
        taken = await desk.office.heard(ev.SteeringTaken)
        desk.hand(turn, "in_3", "enough")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (taken.turn, taken.inputs) == (turn, ("in_2",))
        assert ended.text == "more; enough; "


async def test_it_asks_to_be_told_rather_than_have_a_turn_begun() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        asked = await puppet.hears(STEERING)
        puppet.answers(asked, {"outcome": "injected"})
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        assert asked["params"]["_meta"] == {"steering": {"idleBehavior": "promptRequired"}}
        assert set(asked["params"]) == {"sessionId", "prompt", "_meta"}


async def test_what_is_only_offered_is_not_handed_over() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.steer(turn, "in_2", "not on record")
        await settle()
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        assert desk.heard(STEERING) == []


async def test_it_never_comes_before_the_prompt() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        await desk.come_up()
        for _ in range(20):
            turn = desk.order("go")
            desk.hand(turn, "in_2", "more")
            ends = len(desk.office.all(ev.TurnEnded)) + 1
            prompt = await puppet.hears("session/prompt", times=ends)
            puppet.answers(await puppet.hears(STEERING, times=ends), {"outcome": "injected"})
            puppet.updates("hello")
            puppet.ends(prompt)
            await desk.office.heard(ev.TurnEnded, times=ends)

        assert desk.methods() == ["session/prompt", STEERING] * 20


async def test_what_waits_for_a_prompt_that_is_never_sent_is_declined_at_once() -> None:
    async with open_puppet(STEERS) as (desk, _):
        await desk.come_up()
        turn = desk.order("go")
        desk.hand(turn, "in_2", "more")
        desk.driver.cancel_turn(turn, "ask")
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["SteeringDeclined", "TurnEnded"]
        assert (desk.methods(), trio.current_time()) == ([], 0.0)


async def test_what_waits_together_goes_together_in_its_order() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        for name in ("one", "two", "three", "four"):
            desk.hand(turn, f"in_{name}", name)
            await settle()
        first = await puppet.hears(STEERING)
        puppet.answers(first, {"outcome": "injected"})
        second = await puppet.hears(STEERING, times=2)
        puppet.answers(second, {"outcome": "injected"})
        taken = await desk.office.heard(ev.SteeringTaken, times=2)
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        assert (texts(first), texts(second)) == (["one"], ["two", "three", "four"])
        assert taken.inputs == ("in_two", "in_three", "in_four")


async def test_what_was_withdrawn_in_time_is_not_handed_over() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        for name in ("one", "two", "three"):
            desk.hand(turn, f"in_{name}", name)
            await settle()
        desk.withdraw(turn, "in_two")
        puppet.answers(await puppet.hears(STEERING), {"outcome": "injected"})
        second = await puppet.hears(STEERING, times=2)
        puppet.answers(second, {"outcome": "injected"})
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        assert texts(second) == ["three"]


# What it may answer ------------------------------------------------------------------------


async def test_what_is_declined_is_said_so_before_the_turn_is_over() -> None:
    async with open_desk("--steering", "promptRequired") as desk:
        await desk.come_up()
        turn = desk.order("sleep 1\nsay hello")
        await settle()
        desk.hand(turn, "in_2", "more")
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["SteeringDeclined", "TurnEnded"]


async def test_what_is_refused_was_not_taken() -> None:
    async with open_desk("--steering", "injected", "--fail-at", "steering") as desk:
        await desk.come_up()
        turn = desk.order("sleep 1\nsay hello")
        await settle()
        desk.hand(turn, "in_2", "more")
        declined = await desk.office.heard(ev.SteeringDeclined)

        assert declined.inputs == ("in_2",)


async def test_of_an_answer_that_means_nothing_nothing_is_said() -> None:
    async with open_desk("--steering", "injected", "--rubbish-at", "steering") as desk:
        await desk.come_up()
        turn = desk.order("sleep 1\nsay hello")
        await settle()
        desk.hand(turn, "in_2", "more")
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["TurnEnded"]


async def test_one_that_gives_no_answer_holds_up_the_end_of_its_turn_for_a_bound() -> None:
    async with open_desk("--steering", "injected", "--hang-at", "steering") as desk:
        await desk.come_up()
        turn = desk.order("sleep 1\nsay hello")
        await settle()
        desk.hand(turn, "in_2", "more")
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["TurnEnded"]
        assert trio.current_time() == 1 + GUIDANCE_SECONDS


async def test_one_that_may_have_begun_a_turn_with_it_is_told_to_end_that() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        await puppet.hears(STEERING)
        puppet.updates("hello")
        puppet.ends(prompt)
        ended = await desk.office.heard(ev.TurnEnded)
        desk.order("next")
        await puppet.hears("session/prompt", times=2)

        assert ended.outcome == "completed"
        assert desk.methods()[2:] == ["session/cancel", "session/prompt"]


async def test_what_was_never_sent_for_want_of_an_answer_is_declined() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        await puppet.hears(STEERING)
        desk.hand(turn, "in_3", "and more")
        puppet.updates("hello")
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["SteeringDeclined", "TurnEnded"]
        assert desk.office.all(ev.SteeringDeclined)[0].inputs == ("in_3",)


async def test_what_was_meant_for_one_turn_never_reaches_another() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        steering = await puppet.hears(STEERING)
        desk.hand(turn, "in_3", "and more")
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)
        desk.order("another")
        await puppet.hears("session/prompt", times=2)
        puppet.answers(steering, {"outcome": "injected"})  # at last
        await trio.sleep(2 * ANSWER_SECONDS)

        assert len(desk.heard(STEERING)) == 1


async def test_guidance_that_is_answered_after_the_prompt_is_waited_for() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        steering = await puppet.hears(STEERING)
        puppet.updates("hello")
        puppet.ends(prompt)
        await trio.sleep(1)
        assert desk.office.kinds() == []
        puppet.answers(steering, {"outcome": "injected"})
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["SteeringTaken", "TurnEnded"]
        assert trio.current_time() == 1


async def test_one_that_dies_of_guidance_says_nothing_of_it() -> None:
    async with open_desk("--steering", "injected", "--die-at", "steering") as desk:
        await desk.come_up()
        turn = desk.order("sleep 100")
        await settle()
        desk.hand(turn, "in_2", "more")
        await desk.office.heard(ev.AgentExited)

        assert desk.office.kinds() == ["AgentExited"]


async def test_guidance_for_a_turn_that_is_over_is_not_handed_over() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        puppet.updates("hello")
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)
        desk.hand(turn, "in_2", "more")
        await settle()

        assert desk.heard(STEERING) == []
