"""The contract of all drivers: tool calls, permissions, steering."""

from __future__ import annotations

from typing import Literal

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.ids import CallId, RequestId, TurnId
from supervisor.core.state import Decision
from supervisor.drivers.runtime import DriverRuntime
from tests.support.agent_kinds import Kind, kinds_that
from tests.support.driver_contract import Contract, agent_at_work


@pytest.fixture
async def harness(kind: Kind, runtime: DriverRuntime) -> Contract:
    """Its agent is up."""
    return await agent_at_work(kind, runtime)


# Tool calls -----------------------------------------------------------------------------


@kinds_that("use a tool")
async def test_a_tool_call_is_reported_at_its_start_and_end(harness: Contract) -> None:
    turn = harness.order_to("use a tool")

    began = await harness.context.heard(agent_events.CallStarted)
    over = await harness.context.heard(agent_events.CallEnded)
    await harness.context.heard(agent_events.TurnEnded)

    assert (began.turn, began.name) == (turn, "bash")
    assert (over.turn, over.call, over.outcome) == (turn, began.call, "completed")
    assert over.result == "done"
    assert harness.context.kinds() == ["CallStarted", "CallEnded", "TurnEnded"]


@kinds_that("stay in a tool")
async def test_a_tool_call_is_cancelled_alone_and_its_turn_goes_on(harness: Contract) -> None:
    turn = harness.order_to("stay in a tool")
    call = (await harness.context.heard(agent_events.CallStarted)).call
    await settle()

    harness.driver.cancel_call(turn, call)
    over = await harness.context.heard(agent_events.CallEnded)
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (over.call, over.outcome) == (call, "interrupted")
    assert (ended.outcome, ended.text) == ("completed", "after")
    assert trio.current_time() == 0.0


@kinds_that("stay in a tool")
async def test_a_tool_call_can_be_cancelled_as_soon_as_it_is_reported(
    harness: Contract,
) -> None:
    def cancel(event: ev.Event) -> None:
        if isinstance(event, agent_events.CallStarted):
            harness.driver.cancel_call(event.turn, event.call)

    harness.context.on_report = cancel
    harness.order_to("stay in a tool")
    await harness.context.heard(agent_events.TurnEnded)
    await settle()

    assert harness.context.kinds() == ["CallStarted", "CallEnded", "TurnEnded"]
    assert harness.context.all(agent_events.CallEnded)[0].outcome == "interrupted"


@kinds_that("stay in two tools")
async def test_cancelling_a_call_keeps_the_other_calls_of_the_turn(harness: Contract) -> None:
    turn = harness.order_to("stay in two tools")
    await harness.context.heard(agent_events.CallStarted, times=2)
    calls = {began.name: began.call for began in harness.context.all(agent_events.CallStarted)}
    await settle()

    harness.driver.cancel_call(turn, calls["bash"])
    await harness.context.heard(agent_events.CallEnded)
    await settle()

    assert [over.call for over in harness.context.all(agent_events.CallEnded)] == [calls["bash"]]
    assert harness.context.all(agent_events.TurnEnded) == []


@kinds_that("stay in a tool")
async def test_cancelling_an_unknown_call_changes_nothing(harness: Contract) -> None:
    turn = harness.order_to("stay in a tool")
    call = (await harness.context.heard(agent_events.CallStarted)).call
    await settle()

    harness.driver.cancel_call(turn, CallId("call_0"))
    harness.driver.cancel_call(TurnId("turn_0"), call)
    await settle()

    assert harness.context.kinds() == ["CallStarted"]


@kinds_that("stay in a tool")
async def test_a_call_ends_as_interrupted_with_its_turn(harness: Contract) -> None:
    turn = harness.order_to("stay in a tool")
    await harness.context.heard(agent_events.CallStarted)
    await settle()

    harness.driver.cancel_turn(turn, "ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, ended.text) == ("interrupted", "")
    assert {over.outcome for over in harness.context.all(agent_events.CallEnded)} <= {"interrupted"}
    assert harness.context.kinds()[-1] == "TurnEnded"


# Permissions ----------------------------------------------------------------------------


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
async def test_an_agent_waits_for_a_permission_and_gets_the_decision(
    harness: Contract, decision: Decision | Literal["cancelled"], understood: str
) -> None:
    turn = harness.order_to("ask")
    asked = await harness.context.heard(agent_events.PermissionAsked)
    await settle()
    assert (asked.turn, asked.tool, harness.context.kinds()) == (turn, "bash", ["PermissionAsked"])

    harness.driver.answer(asked.request, decision)

    ended = await harness.context.heard(agent_events.TurnEnded)
    assert (ended.text or "").strip() == f"bash: {understood}"


@kinds_that("ask")
async def test_a_permission_request_can_be_answered_as_soon_as_it_is_reported(
    harness: Contract,
) -> None:
    def allow(event: ev.Event) -> None:
        if isinstance(event, agent_events.PermissionAsked):
            harness.driver.answer(event.request, "allow_once")

    harness.context.on_report = allow
    harness.order_to("ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.text or "").strip() == "bash: allowed"


@kinds_that("ask")
async def test_an_answer_to_another_request_changes_nothing(harness: Contract) -> None:
    harness.order_to("ask")
    await harness.context.heard(agent_events.PermissionAsked)

    harness.driver.answer(RequestId("req_0"), "allow_once")
    await settle()

    assert harness.context.kinds() == ["PermissionAsked"]


@kinds_that("greet")
async def test_an_answer_without_a_waiting_request_is_dropped(harness: Contract) -> None:
    harness.driver.answer(RequestId("req_0"), "allow_once")
    harness.order_to("greet")
    await harness.context.heard(agent_events.TurnEnded)
    harness.driver.answer(RequestId("req_0"), "allow_once")
    await settle()

    assert harness.context.kinds() == ["TurnEnded"]


@kinds_that("ask")
async def test_a_turn_can_be_interrupted_while_it_waits_for_an_answer(harness: Contract) -> None:
    turn = harness.order_to("ask")
    await harness.context.heard(agent_events.PermissionAsked)

    harness.driver.cancel_turn(turn, "ask")

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "interrupted"


# Steering -------------------------------------------------------------------------------


@kinds_that("take steering")
async def test_steering_texts_are_taken_in_order_and_once_each(harness: Contract) -> None:
    turn = harness.order_to("take steering")
    harness.steer(turn, "in_a", "shorter")
    harness.steer(turn, "in_b", "louder")
    await harness.context.heard(agent_events.SteeringTaken)
    harness.steer(turn, "in_c", "enough")

    ended = await harness.context.heard(agent_events.TurnEnded)

    taken = [news.inputs for news in harness.context.all(agent_events.SteeringTaken)]
    assert taken == [("in_a", "in_b"), ("in_c",)]
    assert {news.turn for news in harness.context.all(agent_events.SteeringTaken)} == {turn}
    assert ended.text == "shorter; louder; enough; "


@kinds_that("take steering")
async def test_steering_for_another_turn_is_not_delivered(harness: Contract) -> None:
    turn = harness.order_to("take steering")
    harness.steer(TurnId("turn_0"), "in_a", "not for you")
    harness.steer(turn, "in_b", "enough")

    ended = await harness.context.heard(agent_events.TurnEnded)

    assert [news.inputs for news in harness.context.all(agent_events.SteeringTaken)] == [("in_b",)]
    assert ended.text == "enough; "


@kinds_that("take steering")
async def test_steering_is_not_delivered_while_the_mailbox_is_full(
    harness: Contract,
) -> None:
    turn = harness.order_to("take steering")
    harness.steer(turn, "in_a", "enough")
    harness.context.fill()
    await trio.sleep(10.0)
    said_meanwhile = harness.context.received_text(turn)

    harness.context.make_room()
    await harness.context.heard(agent_events.TurnEnded)

    assert said_meanwhile == ""
    assert harness.context.kinds() == ["SteeringTaken", "TurnEnded"]


@kinds_that("take steering")
async def test_withdrawn_steering_is_not_delivered_and_the_rest_is(
    harness: Contract,
) -> None:
    turn = harness.order_to("take steering")
    harness.steer(turn, "in_a", "shorter")
    harness.steer(turn, "in_b", "never mind")
    harness.steer(turn, "in_c", "enough")

    harness.withdraw(turn, "in_b")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert [news.inputs for news in harness.context.all(agent_events.SteeringTaken)] == [
        ("in_a", "in_c")
    ]
    assert ended.text == "shorter; enough; "


@kinds_that("take steering")
async def test_withdrawing_unknown_or_taken_steering_changes_nothing(
    harness: Contract,
) -> None:
    turn = harness.order_to("take steering")
    harness.steer(turn, "in_a", "shorter")
    await harness.context.heard(agent_events.SteeringTaken)
    harness.steer(turn, "in_b", "enough")

    harness.withdraw(turn, "in_a")
    harness.withdraw(turn, "in_0")
    harness.withdraw(TurnId("turn_0"), "in_b")
    ended = await harness.context.heard(agent_events.TurnEnded)
    harness.withdraw(turn, "in_b")

    assert ended.text == "shorter; enough; "


@kinds_that("wait")
async def test_steering_that_was_never_taken_is_not_reported_as_taken(harness: Contract) -> None:
    turn = harness.order_to("wait")
    await settle()

    harness.steer(turn, "in_a", "too late")
    harness.driver.cancel_turn(turn, "ask")
    await harness.context.heard(agent_events.TurnEnded)
    harness.steer(turn, "in_b", "later still")
    await settle()

    assert harness.context.kinds() == ["TurnEnded"]
