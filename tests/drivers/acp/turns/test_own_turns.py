"""Turns that an ACP agent begins by itself, with guidance that came when it was through."""

from __future__ import annotations

import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.effects import AdoptTurn
from supervisor.core.ids import InputId, TurnId
from supervisor.drivers.acp.turns.silence import FIRST_WORD_SECONDS, SILENCE_SECONDS
from supervisor.drivers.acp.turns.talk import ADOPTION_SECONDS
from tests.drivers.acp.driver_desk import STEERING, STEERS, at_work, open_desk, open_puppet, texts


async def test_a_turn_that_it_begins_by_itself_is_another_turn() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("say one\nsleep 1000")
        await settle()
        desk.hand(first, "in_2", "say two\nsleep 1\nsay three")
        ended = await desk.office.heard(ev.TurnEnded)

        began = desk.office.all(ev.SteeringBeganTurn)
        assert [(event.turn, event.input) for event in began] == [(first, "in_2")]
        assert (ended.turn, ended.outcome, ended.text) == ("turn_2", "completed", "twothree")
        assert desk.office.kinds() == ["SteeringBeganTurn", "TurnEnded"]
        assert desk.office.output[0] == (first, "agent_text", "one")


async def test_it_is_over_when_it_has_fallen_silent() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("sleep 1000")
        await settle()
        desk.hand(first, "in_2", "say two\nsleep 1\nsay three")
        await desk.office.heard(ev.TurnEnded)

        assert trio.current_time() == 1 + SILENCE_SECONDS
        # That it is over is a guess: if it is not, it ends now, before it gets another prompt.
        assert len(desk.heard("session/cancel")) == 1
        # Should it be at work all the same, it is not when the next prompt comes.
        assert len(desk.heard("session/cancel")) == 1


async def test_a_model_that_thinks_before_its_first_word_is_waited_for() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("sleep 1000")
        await settle()
        desk.hand(first, "in_2", f"sleep {FIRST_WORD_SECONDS - 1}\nsay at last")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.text) == ("completed", "at last")


async def test_one_that_never_says_a_word_is_not_waited_for_for_ever() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("sleep 1000")
        await settle()
        desk.hand(first, "in_2", "sleep 1")
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.outcome == "failed"
        assert trio.current_time() == FIRST_WORD_SECONDS


async def test_of_two_texts_the_first_begins_the_turn_and_the_other_goes_with_it() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "one")
        desk.hand(turn, "in_3", "two")
        steering = await puppet.hears(STEERING)
        puppet.ends(prompt)
        puppet.answers(steering, {"outcome": "startedNewTurn"})
        puppet.updates("both")
        await desk.office.heard(ev.TurnEnded)

        assert texts(steering) == ["one", "two"]
        assert desk.office.kinds() == ["SteeringTaken", "SteeringBeganTurn", "TurnEnded"]


async def test_it_may_say_so_before_it_ends_the_turn_that_was() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        steering = await puppet.hears(STEERING)
        puppet.answers(steering, {"outcome": "startedNewTurn"})
        puppet.updates("new")
        await settle()
        puppet.ends(prompt)
        await settle()
        puppet.updates("er")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.turn, ended.text) == ("turn_2", "newer")


async def test_a_turn_that_it_has_begun_can_be_steered_into_yet_another() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        puppet.answers(await puppet.hears(STEERING), {"outcome": "startedNewTurn"})
        puppet.ends(prompt)
        puppet.updates("second")
        await settle()
        desk.hand(desk.office.all(ev.SteeringBeganTurn)[0].turn, "in_x", "of the first")
        desk.hand(desk.latest_turn, "in_3", "and more")
        puppet.answers(await puppet.hears(STEERING, times=2), {"outcome": "startedNewTurn"})
        puppet.updates("third")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.turn, ended.text) == ("turn_3", "third")
        assert texts(await puppet.hears(STEERING, times=2)) == ["and more"]


async def test_a_turn_that_it_has_begun_is_asked_to_end_like_any_other() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("sleep 1000")
        await settle()
        desk.hand(first, "in_2", "say two\nsleep 1000")
        await desk.office.heard(ev.SteeringBeganTurn)
        await trio.sleep(1)
        desk.driver.cancel_turn(desk.latest_turn, "ask")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.turn, ended.outcome) == ("turn_2", "interrupted")
        assert trio.current_time() <= 1 + SILENCE_SECONDS


async def test_one_that_dies_in_a_turn_that_it_has_begun_reports_no_end_of_it() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("sleep 1000")
        await settle()
        desk.hand(first, "in_2", "say two\nsleep 1\ncrash")
        await desk.office.heard(ev.AgentExited)

        assert desk.office.kinds() == ["SteeringBeganTurn", "AgentExited"]


async def test_a_session_that_will_have_no_other_turn_is_not_waited_for_again_and_again() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.office.on_report = lambda _: None  # as one does that is stopping
        desk.hand(turn, "in_2", "more")
        puppet.answers(await puppet.hears(STEERING), {"outcome": "startedNewTurn"})
        for _ in range(100):
            puppet.updates("x")
        puppet.ends(prompt)
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.turn, ended.text) == (turn, "x" * 100)
        assert trio.current_time() == ADOPTION_SECONDS + SILENCE_SECONDS


async def test_a_turn_that_is_interrupted_meanwhile_ends_when_it_says_so() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.office.on_report = lambda _: None  # it is interrupting, and adopts nothing
        desk.hand(turn, "in_2", "more")
        steering = await puppet.hears(STEERING)
        desk.driver.cancel_turn(turn, "ask")
        puppet.answers(steering, {"outcome": "startedNewTurn"})
        for _ in range(100):
            puppet.updates("x")
        puppet.ends(prompt, "cancelled")
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.outcome == "interrupted"
        assert trio.current_time() <= SILENCE_SECONDS


async def test_a_turn_that_it_begins_though_it_was_interrupted_is_interrupted_too() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.office.on_report = lambda _: None
        desk.hand(turn, "in_2", "more")
        steering = await puppet.hears(STEERING)
        desk.driver.cancel_turn(turn, "ask")
        await puppet.hears("session/cancel")
        puppet.ends(prompt, "cancelled")
        puppet.answers(steering, {"outcome": "startedNewTurn"})
        await puppet.hears("session/cancel", times=2)
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.outcome == "interrupted"


async def test_a_question_of_a_turn_that_it_has_begun_is_that_turns() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "more")
        puppet.ends(prompt)
        puppet.answers(await puppet.hears(STEERING), {"outcome": "startedNewTurn"})
        option = {"optionId": "yes", "name": "yes", "kind": "allow_once"}
        call = {"toolCallId": "c1", "title": "bash"}
        asked = {"sessionId": "puppet", "toolCall": call, "options": [option]}
        request = puppet.asks("session/request_permission", asked)
        question = await desk.office.heard(ev.PermissionAsked)
        await trio.sleep(2 * FIRST_WORD_SECONDS)
        desk.driver.answer(question.request, "allow_once")
        answer = await puppet.hears_answer(request)

        assert question.turn == "turn_2"
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
        assert desk.office.all(ev.TurnEnded) == []


async def test_a_tool_call_under_way_is_no_silence() -> None:
    async with open_desk("--steering", "startedNewTurn") as desk:
        await desk.come_up()
        first = desk.order("sleep 1000")
        await settle()
        desk.hand(first, "in_2", "tool tests 600\nsay all pass")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.text) == ("completed", "all pass")
        assert trio.current_time() == 600 + SILENCE_SECONDS


async def test_an_adoption_that_comes_too_late_ends_what_it_adopts() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.office.on_report = lambda _: None  # its session is very slow
        desk.hand(turn, "in_2", "more")
        puppet.answers(await puppet.hears(STEERING), {"outcome": "startedNewTurn"})
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)
        desk.driver.adopt_turn(AdoptTurn(TurnId("turn_2"), InputId("in_2"), "more"))

        assert [end.turn for end in desk.office.all(ev.TurnEnded)] == [turn, "turn_2"]


async def test_what_waits_when_it_begins_a_turn_is_declined() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "one")
        steering = await puppet.hears(STEERING)
        desk.hand(turn, "in_3", "two")
        puppet.ends(prompt)
        puppet.answers(steering, {"outcome": "startedNewTurn"})
        puppet.updates("x")
        await desk.office.heard(ev.TurnEnded)

        assert desk.office.kinds() == ["SteeringDeclined", "SteeringBeganTurn", "TurnEnded"]
        assert len(desk.heard(STEERING)) == 1


async def test_guidance_for_the_turn_before_is_not_handed_to_one_that_it_begins() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.office.on_report = lambda _: None  # its session has not heard of the new turn yet
        desk.hand(turn, "in_2", "one")
        puppet.ends(prompt)
        puppet.answers(await puppet.hears(STEERING), {"outcome": "startedNewTurn"})
        await desk.office.heard(ev.SteeringBeganTurn)
        desk.hand(turn, "in_3", "two")
        await settle()

        assert len(desk.heard(STEERING)) == 1
        assert desk.office.kinds() == ["SteeringBeganTurn", "SteeringDeclined"]


async def test_one_that_answers_its_prompt_and_dies_of_guidance_has_ended_its_turn() -> None:
    async with open_puppet(STEERS) as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        desk.hand(turn, "in_2", "one")
        await puppet.hears(STEERING)
        desk.hand(turn, "in_3", "two")
        puppet.updates("hello")
        puppet.ends(prompt)
        puppet.leaves(0)
        await desk.office.heard(ev.AgentExited)

        assert desk.office.kinds() == ["SteeringDeclined", "TurnEnded", "AgentExited"]
