"""What every driver keeps, whatever agent it drives: see `port.Driver`.

A new kind of driver joins by one line in kinds.py.
"""

from __future__ import annotations

from typing import Literal

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.ids import CallId, RequestId, TurnId
from supervisor.core.session import Decision, Usage
from supervisor.drivers.port import Workshop
from tests.drivers.deeds import Deed
from tests.drivers.kinds import Kind, kinds_that
from tests.drivers.office import Desk, StandInOffice


class Contract(Desk):
    """A desk for an agent of any kind, which is ordered to do a deed."""

    def __init__(self, kind: Kind, workshop: Workshop, office: StandInOffice | None = None) -> None:
        super().__init__(kind.agent, workshop, office)
        self._texts = kind.texts

    def order_to(self, deed: Deed) -> TurnId:
        return self.order(self._texts[deed])


@pytest.fixture
async def desk(kind: Kind, workshop: Workshop) -> Contract:
    """Its agent is up."""
    return await agent_at_work(kind, workshop)


async def agent_at_work(kind: Kind, workshop: Workshop) -> Contract:
    """An agent of that kind, which is up, and nothing else was heard of it."""
    desk = Contract(kind, workshop)
    desk.driver.start()
    await desk.office.heard(ev.AgentAttached)
    desk.office.events.clear()
    return desk


# Up ------------------------------------------------------------------------------------------


@kinds_that("greet")
async def test_an_agent_that_is_started_says_once_that_it_is_up(
    kind: Kind, workshop: Workshop
) -> None:
    desk = Desk(kind.agent, workshop)

    desk.driver.start()
    await desk.office.heard(ev.AgentAttached)
    await settle()

    assert desk.office.kinds() == ["AgentAttached"]


@kinds_that("greet")
async def test_a_turn_that_is_ordered_before_the_agent_is_up_runs_when_it_is(
    kind: Kind, workshop: Workshop
) -> None:
    desk = Contract(kind, workshop)

    desk.driver.start()
    desk.order_to("greet")

    assert (await desk.office.heard(ev.TurnEnded)).outcome == "completed"
    assert desk.office.kinds() == ["AgentAttached", "TurnEnded"]


# A turn --------------------------------------------------------------------------------------


@kinds_that("greet")
async def test_a_turn_ends_with_what_was_said_and_why_it_ended(desk: Contract) -> None:
    turn = desk.order_to("greet")

    ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.turn, ended.outcome, ended.stop_reason) == (turn, "completed", "end_turn")
    assert (ended.text, ended.error) == ("hello", None)


@kinds_that("greet")
async def test_what_an_agent_says_is_written_before_its_turn_ends(desk: Contract) -> None:
    said: list[str] = []
    turn = TurnId("turn_1")
    desk.office.on_report = lambda _: said.append(desk.office.said(turn))

    assert desk.order_to("greet") == turn
    await desk.office.heard(ev.TurnEnded)

    assert said == ["hello"]


@kinds_that("greet")
async def test_an_agent_is_good_for_many_turns_and_each_end_names_its_own(desk: Contract) -> None:
    ended = []
    for times in (1, 2, 3):
        desk.order_to("greet")
        ended.append(await desk.office.heard(ev.TurnEnded, times=times))

    assert [end.turn for end in ended] == ["turn_1", "turn_2", "turn_3"]
    assert {end.text for end in ended} == {"hello"}


@kinds_that("fail", "greet")
async def test_a_turn_that_fails_says_why_and_the_agent_goes_on(desk: Contract) -> None:
    turn = desk.order_to("fail")
    failed = await desk.office.heard(ev.TurnEnded)
    desk.order_to("greet")
    after = await desk.office.heard(ev.TurnEnded, times=2)

    assert (failed.turn, failed.outcome) == (turn, "failed")
    assert "no luck" in (failed.error or "")
    assert after.outcome == "completed"


@kinds_that("die")
async def test_an_agent_that_dies_in_its_turn_is_reported_gone_and_nothing_else(
    desk: Contract,
) -> None:
    desk.order_to("die")

    gone = await desk.office.heard(ev.AgentExited)
    await settle()

    assert gone.failure is not None
    assert gone.failure.kind == "process_exit"
    assert desk.office.kinds() == ["AgentExited"]


@kinds_that("spend")
async def test_what_a_turn_spends_is_reported_before_its_end_and_names_it(desk: Contract) -> None:
    turn = desk.order_to("spend")

    spent = await desk.office.heard(ev.UsageReported)
    await desk.office.heard(ev.TurnEnded)

    # As input or as output: of a context that grows nobody knows which it was.
    assert spent.turn == turn
    assert spent.usage in (Usage(input_tokens=40), Usage(output_tokens=40))
    assert desk.office.kinds() == ["UsageReported", "TurnEnded"]


@kinds_that("greet")
async def test_the_end_of_a_turn_reaches_a_session_that_had_no_room_for_it(desk: Contract) -> None:
    desk.office.fill()
    desk.order_to("greet")
    await settle()

    desk.office.make_room()

    assert (await desk.office.heard(ev.TurnEnded)).outcome == "completed"


# Output --------------------------------------------------------------------------------------


@kinds_that("flood")
async def test_a_turn_that_puts_out_too_much_fails_and_keeps_what_fitted(
    kind: Kind, workshop: Workshop
) -> None:
    desk = Contract(kind, workshop, StandInOffice(max_turn_bytes=1000))
    desk.driver.start()

    turn = desk.order_to("flood")
    ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.outcome, len(desk.office.said(turn))) == ("failed", 1000)
    assert "OutputTooLarge" in (ended.error or "")


@kinds_that("flood")
async def test_an_agent_is_slowed_while_the_store_is_behind(desk: Contract) -> None:
    desk.office.fall_behind()
    turn = desk.order_to("flood")
    await settle()
    before = len(desk.office.said(turn))

    desk.office.catch_up()
    await desk.office.heard(ev.TurnEnded)

    assert before <= 100 < len(desk.office.said(turn))


# Interrupts ----------------------------------------------------------------------------------


@kinds_that("wait")
async def test_a_cancelled_turn_ends_as_interrupted(desk: Contract) -> None:
    turn = desk.order_to("wait")
    await settle()

    desk.driver.cancel_turn(turn, "ask")
    with trio.fail_after(desk.office.ladder.ask_seconds):
        ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.turn, ended.outcome, ended.stop_reason) == (turn, "interrupted", "cancelled")


@kinds_that("wait")
async def test_a_turn_that_is_cancelled_before_it_got_anywhere_ends_as_interrupted(
    desk: Contract,
) -> None:
    turn = desk.order_to("wait")
    desk.driver.cancel_turn(turn, "ask")

    assert (await desk.office.heard(ev.TurnEnded)).outcome == "interrupted"


@kinds_that("wait", "greet")
async def test_an_agent_that_was_interrupted_is_good_for_another_turn(desk: Contract) -> None:
    desk.driver.cancel_turn(desk.order_to("wait"), "ask")
    await desk.office.heard(ev.TurnEnded)

    desk.order_to("greet")

    assert (await desk.office.heard(ev.TurnEnded, times=2)).outcome == "completed"


@kinds_that("wait")
async def test_cancelling_twice_ends_a_turn_once(desk: Contract) -> None:
    turn = desk.order_to("wait")
    await settle()

    desk.driver.cancel_turn(turn, "ask")
    desk.driver.cancel_turn(turn, "ask")
    await settle()
    desk.driver.cancel_turn(turn, "ask")
    await settle()

    assert desk.office.kinds() == ["TurnEnded"]


@kinds_that("wait")
async def test_cancelling_another_turn_changes_nothing(desk: Contract) -> None:
    desk.order_to("wait")
    await settle()

    desk.driver.cancel_turn(TurnId("turn_0"), "ask")
    desk.driver.abandon_turn(TurnId("turn_0"))
    await settle()

    assert desk.office.kinds() == []
    assert desk.workshop.zombies == {}


@kinds_that("greet", "wait")
async def test_what_is_over_cannot_be_cancelled_and_the_next_turn_does_not_feel_it(
    desk: Contract,
) -> None:
    first = desk.order_to("greet")
    await desk.office.heard(ev.TurnEnded)
    desk.order_to("wait")
    await settle()

    desk.driver.cancel_turn(first, "ask")
    desk.driver.abandon_turn(first)
    await settle()

    assert desk.office.kinds() == ["TurnEnded"]


# Turns that are given up ----------------------------------------------------------------------


@kinds_that("be deaf")
async def test_an_agent_that_does_not_hear_is_a_zombie_from_when_it_is_given_up_to_its_end(
    desk: Contract,
) -> None:
    turn = desk.order_to("be deaf")
    await settle()
    desk.driver.cancel_turn(turn, "ask")
    await settle()
    heard_before = desk.office.kinds()

    desk.driver.abandon_turn(turn)
    listed = dict(desk.workshop.zombies)
    desk.workshop.closing.set()
    ended = await desk.office.heard(ev.ZombieEnded)

    assert heard_before == []
    assert list(listed) == [turn]
    assert desk.office.session_id in listed[turn]
    assert ended.turn == turn
    assert desk.workshop.zombies == {}


@kinds_that("be deaf")
async def test_nothing_that_a_turn_does_after_it_was_given_up_gets_anywhere(desk: Contract) -> None:
    turn = desk.order_to("be deaf")
    await settle()
    desk.driver.abandon_turn(turn)

    desk.workshop.closing.set()
    await desk.office.heard(ev.ZombieEnded)
    await settle()

    assert desk.office.kinds() == ["ZombieEnded"]
    assert desk.office.output == []


@kinds_that("be deaf")
async def test_giving_a_turn_up_twice_makes_one_zombie(desk: Contract) -> None:
    turn = desk.order_to("be deaf")
    await settle()
    desk.driver.abandon_turn(turn)
    desk.driver.abandon_turn(turn)

    desk.workshop.closing.set()
    await settle()

    assert desk.office.kinds() == ["ZombieEnded"]


@kinds_that("greet")
async def test_giving_up_a_turn_that_is_over_says_that_nothing_of_it_is_left(
    desk: Contract,
) -> None:
    turn = desk.order_to("greet")
    await desk.office.heard(ev.TurnEnded)

    desk.driver.abandon_turn(turn)
    await settle()

    assert desk.office.kinds() == ["TurnEnded", "ZombieEnded"]
    assert desk.workshop.zombies == {}


# Tool calls ----------------------------------------------------------------------------------


@kinds_that("use a tool")
async def test_a_tool_call_is_reported_when_it_begins_and_when_it_ends(desk: Contract) -> None:
    turn = desk.order_to("use a tool")

    began = await desk.office.heard(ev.CallStarted)
    over = await desk.office.heard(ev.CallEnded)
    await desk.office.heard(ev.TurnEnded)

    assert (began.turn, began.name) == (turn, "bash")
    assert (over.turn, over.call, over.outcome) == (turn, began.call, "completed")
    assert over.result == "done"
    assert desk.office.kinds() == ["CallStarted", "CallEnded", "TurnEnded"]


@kinds_that("stay in a tool")
async def test_a_tool_call_is_cancelled_alone_and_its_turn_goes_on(desk: Contract) -> None:
    turn = desk.order_to("stay in a tool")
    call = (await desk.office.heard(ev.CallStarted)).call
    await settle()

    desk.driver.cancel_call(turn, call)
    over = await desk.office.heard(ev.CallEnded)
    ended = await desk.office.heard(ev.TurnEnded)

    assert (over.call, over.outcome) == (call, "interrupted")
    assert (ended.outcome, ended.text) == ("completed", "after")
    assert trio.current_time() == 0.0


@kinds_that("stay in a tool")
async def test_a_tool_call_can_be_cancelled_as_soon_as_the_session_knows_of_it(
    desk: Contract,
) -> None:
    def cancel(event: ev.Event) -> None:
        if isinstance(event, ev.CallStarted):
            desk.driver.cancel_call(event.turn, event.call)

    desk.office.on_report = cancel
    desk.order_to("stay in a tool")
    await settle()

    assert desk.office.kinds() == ["CallStarted", "CallEnded", "TurnEnded"]
    assert desk.office.all(ev.CallEnded)[0].outcome == "interrupted"


@kinds_that("stay in two tools")
async def test_the_other_calls_of_a_turn_go_on_when_one_is_cancelled(desk: Contract) -> None:
    turn = desk.order_to("stay in two tools")
    await desk.office.heard(ev.CallStarted, times=2)
    calls = {began.name: began.call for began in desk.office.all(ev.CallStarted)}
    await settle()

    desk.driver.cancel_call(turn, calls["bash"])
    await desk.office.heard(ev.CallEnded)
    await settle()

    assert [over.call for over in desk.office.all(ev.CallEnded)] == [calls["bash"]]
    assert desk.office.all(ev.TurnEnded) == []


@kinds_that("stay in a tool")
async def test_cancelling_a_call_that_is_not_there_changes_nothing(desk: Contract) -> None:
    turn = desk.order_to("stay in a tool")
    call = (await desk.office.heard(ev.CallStarted)).call
    await settle()

    desk.driver.cancel_call(turn, CallId("call_0"))
    desk.driver.cancel_call(TurnId("turn_0"), call)
    await settle()

    assert desk.office.kinds() == ["CallStarted"]


@kinds_that("stay in a tool")
async def test_a_call_ends_as_interrupted_with_its_turn(desk: Contract) -> None:
    turn = desk.order_to("stay in a tool")
    await desk.office.heard(ev.CallStarted)
    await settle()

    desk.driver.cancel_turn(turn, "ask")
    ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.outcome, ended.text) == ("interrupted", "")
    assert {over.outcome for over in desk.office.all(ev.CallEnded)} <= {"interrupted"}
    assert desk.office.kinds()[-1] == "TurnEnded"


# Permissions ---------------------------------------------------------------------------------


@kinds_that("ask")
@pytest.mark.parametrize(
    ("decision", "understood"),
    [
        ("allow_once", "allowed"),
        ("allow_always", "allowed"),
        ("reject_once", "rejected"),
        ("reject_always", "rejected"),
        ("cancelled", "rejected"),
    ],
)
async def test_an_agent_waits_for_the_answer_to_its_question_and_understands_it(
    desk: Contract, decision: Decision | Literal["cancelled"], understood: str
) -> None:
    turn = desk.order_to("ask")
    asked = await desk.office.heard(ev.PermissionAsked)
    await settle()
    assert (asked.turn, asked.tool, desk.office.kinds()) == (turn, "bash", ["PermissionAsked"])

    desk.driver.answer(asked.request, decision)

    ended = await desk.office.heard(ev.TurnEnded)
    assert (ended.text or "").strip() == f"bash: {understood}"


@kinds_that("ask")
async def test_a_question_can_be_answered_as_soon_as_the_session_knows_of_it(
    desk: Contract,
) -> None:
    def allow(event: ev.Event) -> None:
        if isinstance(event, ev.PermissionAsked):
            desk.driver.answer(event.request, "allow_once")

    desk.office.on_report = allow
    desk.order_to("ask")
    ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.text or "").strip() == "bash: allowed"


@kinds_that("ask")
async def test_an_answer_to_another_question_changes_nothing(desk: Contract) -> None:
    desk.order_to("ask")
    await desk.office.heard(ev.PermissionAsked)

    desk.driver.answer(RequestId("req_0"), "allow_once")
    await settle()

    assert desk.office.kinds() == ["PermissionAsked"]


@kinds_that("greet")
async def test_an_answer_that_nobody_waits_for_is_dropped(desk: Contract) -> None:
    desk.driver.answer(RequestId("req_0"), "allow_once")
    desk.order_to("greet")
    await desk.office.heard(ev.TurnEnded)
    desk.driver.answer(RequestId("req_0"), "allow_once")
    await settle()

    assert desk.office.kinds() == ["TurnEnded"]


@kinds_that("ask")
async def test_a_turn_can_be_interrupted_while_it_waits_for_an_answer(desk: Contract) -> None:
    turn = desk.order_to("ask")
    await desk.office.heard(ev.PermissionAsked)

    desk.driver.cancel_turn(turn, "ask")

    assert (await desk.office.heard(ev.TurnEnded)).outcome == "interrupted"


# Steering ------------------------------------------------------------------------------------


@kinds_that("take steering")
async def test_what_is_steered_in_is_taken_in_order_and_each_once(desk: Contract) -> None:
    turn = desk.order_to("take steering")
    desk.steer(turn, "in_a", "shorter")
    desk.steer(turn, "in_b", "louder")
    await desk.office.heard(ev.SteeringTaken)
    desk.steer(turn, "in_c", "enough")

    ended = await desk.office.heard(ev.TurnEnded)

    taken = [news.inputs for news in desk.office.all(ev.SteeringTaken)]
    assert taken == [("in_a", "in_b"), ("in_c",)]
    assert {news.turn for news in desk.office.all(ev.SteeringTaken)} == {turn}
    assert ended.text == "shorter; louder; enough; "


@kinds_that("take steering")
async def test_steering_for_another_turn_is_not_handed_out(desk: Contract) -> None:
    turn = desk.order_to("take steering")
    desk.steer(TurnId("turn_0"), "in_a", "not for you")
    desk.steer(turn, "in_b", "enough")

    ended = await desk.office.heard(ev.TurnEnded)

    assert [news.inputs for news in desk.office.all(ev.SteeringTaken)] == [("in_b",)]
    assert ended.text == "enough; "


@kinds_that("take steering")
async def test_steering_is_not_handed_out_while_the_session_cannot_be_told_so(
    desk: Contract,
) -> None:
    turn = desk.order_to("take steering")
    desk.steer(turn, "in_a", "enough")
    desk.office.fill()
    await trio.sleep(10.0)
    said_meanwhile = desk.office.said(turn)

    desk.office.make_room()
    await desk.office.heard(ev.TurnEnded)

    assert said_meanwhile == ""
    assert desk.office.kinds() == ["SteeringTaken", "TurnEnded"]


@kinds_that("take steering")
async def test_steering_that_is_withdrawn_is_not_handed_out_and_the_rest_is(desk: Contract) -> None:
    turn = desk.order_to("take steering")
    desk.steer(turn, "in_a", "shorter")
    desk.steer(turn, "in_b", "never mind")
    desk.steer(turn, "in_c", "enough")

    desk.withdraw(turn, "in_b")
    ended = await desk.office.heard(ev.TurnEnded)

    assert [news.inputs for news in desk.office.all(ev.SteeringTaken)] == [("in_a", "in_c")]
    assert ended.text == "shorter; enough; "


@kinds_that("take steering")
async def test_withdrawing_what_was_not_offered_or_is_taken_changes_nothing(desk: Contract) -> None:
    turn = desk.order_to("take steering")
    desk.steer(turn, "in_a", "shorter")
    await desk.office.heard(ev.SteeringTaken)
    desk.steer(turn, "in_b", "enough")

    desk.withdraw(turn, "in_a")
    desk.withdraw(turn, "in_0")
    desk.withdraw(TurnId("turn_0"), "in_b")
    ended = await desk.office.heard(ev.TurnEnded)
    desk.withdraw(turn, "in_b")

    assert ended.text == "shorter; enough; "


@kinds_that("wait")
async def test_steering_that_the_turn_never_took_is_not_said_to_be_taken(desk: Contract) -> None:
    turn = desk.order_to("wait")
    await settle()

    desk.steer(turn, "in_a", "too late")
    desk.driver.cancel_turn(turn, "ask")
    await desk.office.heard(ev.TurnEnded)
    desk.steer(turn, "in_b", "later still")
    await settle()

    assert desk.office.kinds() == ["TurnEnded"]


# Letting go ----------------------------------------------------------------------------------


@kinds_that("greet")
async def test_an_agent_that_is_let_go_between_turns_says_that_it_is_closed(desk: Contract) -> None:
    desk.order_to("greet")
    await desk.office.heard(ev.TurnEnded)

    desk.driver.close()
    await desk.office.heard(ev.AgentClosed)
    await settle()

    assert desk.office.kinds() == ["TurnEnded", "AgentClosed"]


@kinds_that("greet")
async def test_an_agent_can_be_let_go_before_its_first_turn(desk: Contract) -> None:
    desk.driver.close()

    await desk.office.heard(ev.AgentClosed)


@kinds_that("be deaf")
async def test_an_agent_of_which_only_a_zombie_is_left_says_that_it_is_closed(
    desk: Contract,
) -> None:
    turn = desk.order_to("be deaf")
    await settle()
    desk.driver.abandon_turn(turn)

    desk.driver.close()
    await desk.office.heard(ev.AgentClosed)

    assert list(desk.workshop.zombies) == [turn]


@kinds_that("wait")
async def test_an_agent_whose_session_is_gone_ends_its_turn_and_leaves_no_zombie(
    desk: Contract,
) -> None:
    desk.order_to("wait")
    await settle()

    desk.driver.drop()
    await settle()

    assert set(desk.office.kinds()) <= {"ZombieEnded"}
    assert desk.workshop.zombies == {}


@kinds_that("be deaf")
async def test_an_agent_whose_session_is_gone_and_that_does_not_hear_is_a_zombie(
    desk: Contract,
) -> None:
    turn = desk.order_to("be deaf")
    await settle()

    desk.driver.drop()
    await settle()
    assert list(desk.workshop.zombies) == [turn]
    desk.workshop.closing.set()
    await desk.office.heard(ev.ZombieEnded)

    assert desk.office.kinds() == ["ZombieEnded"]
    assert desk.office.output == []


@kinds_that("greet")
async def test_dropping_an_agent_that_does_nothing_says_nothing(desk: Contract) -> None:
    desk.order_to("greet")
    await desk.office.heard(ev.TurnEnded)

    desk.driver.drop()
    await settle()

    assert desk.office.kinds() == ["TurnEnded"]
