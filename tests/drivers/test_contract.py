"""The contract of all drivers: see `port.Driver`.

A new kind of driver joins by one line in kinds.py.
"""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.ids import TurnId
from supervisor.core.state import Usage
from supervisor.drivers.runtime import DriverRuntime
from tests.support.agent_kinds import Kind, kinds_that
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.driver_contract import Contract, agent_at_work


@pytest.fixture
async def harness(kind: Kind, runtime: DriverRuntime) -> Contract:
    """Its agent is up."""
    return await agent_at_work(kind, runtime)


# Up -------------------------------------------------------------------------------------


@kinds_that("greet")
async def test_unknown_options_change_nothing(harness: Contract) -> None:
    harness.driver.set_options({"speed": "fast"})
    harness.order_to("greet")
    harness.driver.set_options({"speed": "slow"})

    ended = await harness.context.heard(agent_events.TurnEnded)

    assert ended.outcome == "completed"
    assert harness.context.all(agent_events.OptionRefused) == []


@kinds_that("greet")
async def test_a_started_agent_is_attached_once(kind: Kind, runtime: DriverRuntime) -> None:
    harness = DriverHarness(kind.agent, runtime)

    harness.driver.start()
    await harness.context.heard(agent_events.AgentAttached)
    await settle()

    assert harness.context.kinds() == ["AgentAttached"]


@kinds_that("greet")
async def test_a_turn_started_before_attachment_runs_afterwards(
    kind: Kind, runtime: DriverRuntime
) -> None:
    harness = Contract(kind, runtime)

    harness.driver.start()
    harness.order_to("greet")

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "completed"
    assert harness.context.kinds() == ["AgentAttached", "TurnEnded"]


# A turn ---------------------------------------------------------------------------------


@kinds_that("greet")
async def test_a_turn_ends_with_its_text_and_stop_reason(harness: Contract) -> None:
    turn = harness.order_to("greet")

    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.turn, ended.outcome, ended.stop_reason) == (turn, "completed", "end_turn")
    assert (ended.text, ended.error) == ("hello", None)


@kinds_that("greet")
async def test_agent_text_is_written_before_the_turn_ends(harness: Contract) -> None:
    said: list[str] = []
    turn = TurnId("turn_1")
    harness.context.on_report = lambda _: said.append(harness.context.received_text(turn))

    assert harness.order_to("greet") == turn
    await harness.context.heard(agent_events.TurnEnded)

    assert said == ["hello"]


@kinds_that("greet")
async def test_an_agent_runs_many_turns_and_each_end_has_its_id(
    harness: Contract,
) -> None:
    ended = []
    for times in (1, 2, 3):
        harness.order_to("greet")
        ended.append(await harness.context.heard(agent_events.TurnEnded, times=times))

    assert [end.turn for end in ended] == ["turn_1", "turn_2", "turn_3"]
    assert {end.text for end in ended} == {"hello"}


@kinds_that("fail", "greet")
async def test_a_failed_turn_has_its_error_and_the_agent_goes_on(harness: Contract) -> None:
    turn = harness.order_to("fail")
    failed = await harness.context.heard(agent_events.TurnEnded)
    harness.order_to("greet")
    after = await harness.context.heard(agent_events.TurnEnded, times=2)

    assert (failed.turn, failed.outcome) == (turn, "failed")
    assert "no luck" in (failed.error or "")
    assert after.outcome == "completed"


@kinds_that("die")
async def test_an_agent_that_dies_in_its_turn_is_reported_exited_only(
    harness: Contract,
) -> None:
    harness.order_to("die")

    gone = await harness.context.heard(agent_events.AgentExited)
    await settle()

    assert gone.failure is not None
    assert gone.failure.kind == "process_exit"
    assert harness.context.kinds() == ["AgentExited"]


@kinds_that("spend")
async def test_usage_is_reported_before_the_end_with_the_turn_id(
    harness: Contract,
) -> None:
    turn = harness.order_to("spend")

    spent = await harness.context.heard(agent_events.UsageReported)
    await harness.context.heard(agent_events.TurnEnded)

    # As input or as output: the growth of a context does not tell which.
    assert spent.turn == turn
    assert spent.usage in (Usage(input_tokens=40), Usage(output_tokens=40))
    assert harness.context.kinds() == ["UsageReported", "TurnEnded"]


@kinds_that("greet")
async def test_the_end_of_a_turn_reaches_a_full_mailbox_later(
    harness: Contract,
) -> None:
    harness.context.fill()
    harness.order_to("greet")
    await settle()

    harness.context.make_room()

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "completed"


# Output ---------------------------------------------------------------------------------


@kinds_that("flood")
async def test_a_turn_with_too_much_output_fails_and_keeps_the_rest(
    kind: Kind, runtime: DriverRuntime
) -> None:
    harness = Contract(kind, runtime, FakeDriverContext(max_turn_bytes=1000))
    harness.driver.start()

    turn = harness.order_to("flood")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, len(harness.context.received_text(turn))) == ("failed", 1000)
    assert "OutputTooLarge" in (ended.error or "")


@kinds_that("flood")
async def test_an_agent_is_slowed_while_the_store_is_behind(harness: Contract) -> None:
    harness.context.fall_behind()
    turn = harness.order_to("flood")
    await settle()
    before = len(harness.context.received_text(turn))

    harness.context.catch_up()
    await harness.context.heard(agent_events.TurnEnded)

    assert before <= 100 < len(harness.context.received_text(turn))


# Interrupts -----------------------------------------------------------------------------


@kinds_that("wait")
async def test_a_cancelled_turn_ends_as_interrupted(harness: Contract) -> None:
    turn = harness.order_to("wait")
    await settle()

    harness.driver.cancel_turn(turn, "ask")
    with trio.fail_after(harness.context.ladder.ask_seconds):
        ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.turn, ended.outcome, ended.stop_reason) == (turn, "interrupted", "cancelled")


@kinds_that("wait")
async def test_a_turn_cancelled_at_once_ends_as_interrupted(
    harness: Contract,
) -> None:
    turn = harness.order_to("wait")
    harness.driver.cancel_turn(turn, "ask")

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "interrupted"


@kinds_that("wait", "greet")
async def test_an_interrupted_agent_runs_another_turn(harness: Contract) -> None:
    harness.driver.cancel_turn(harness.order_to("wait"), "ask")
    await harness.context.heard(agent_events.TurnEnded)

    harness.order_to("greet")

    assert (await harness.context.heard(agent_events.TurnEnded, times=2)).outcome == "completed"


@kinds_that("wait")
async def test_cancelling_twice_ends_a_turn_once(harness: Contract) -> None:
    turn = harness.order_to("wait")
    await settle()

    harness.driver.cancel_turn(turn, "ask")
    harness.driver.cancel_turn(turn, "ask")
    await harness.context.heard(agent_events.TurnEnded)
    harness.driver.cancel_turn(turn, "ask")
    await settle()

    assert harness.context.kinds() == ["TurnEnded"]


@kinds_that("wait")
async def test_cancelling_another_turn_changes_nothing(harness: Contract) -> None:
    harness.order_to("wait")
    await settle()

    harness.driver.cancel_turn(TurnId("turn_0"), "ask")
    harness.driver.abandon_turn(TurnId("turn_0"))
    await settle()

    assert harness.context.kinds() == []
    assert harness.runtime.zombies == {}


@kinds_that("greet", "wait")
async def test_cancelling_a_finished_turn_does_not_affect_the_next(
    harness: Contract,
) -> None:
    first = harness.order_to("greet")
    await harness.context.heard(agent_events.TurnEnded)
    harness.order_to("wait")
    await settle()

    harness.driver.cancel_turn(first, "ask")
    harness.driver.abandon_turn(first)
    await settle()

    assert harness.context.kinds() == ["TurnEnded"]


# Turns that are given up ----------------------------------------------------------------


@kinds_that("be deaf")
async def test_an_abandoned_agent_is_a_zombie_until_it_ends(
    harness: Contract,
) -> None:
    turn = harness.order_to("be deaf")
    await settle()
    harness.driver.cancel_turn(turn, "ask")
    await settle()
    heard_before = harness.context.kinds()

    harness.driver.abandon_turn(turn)
    listed = dict(harness.runtime.zombies)
    harness.runtime.shutdown_started.set()
    ended = await harness.context.heard(agent_events.ZombieEnded)

    assert heard_before == []
    assert list(listed) == [turn]
    assert harness.context.session_id in listed[turn]
    assert ended.turn == turn
    assert harness.runtime.zombies == {}


@kinds_that("be deaf")
async def test_an_abandoned_turn_has_no_further_effect(
    harness: Contract,
) -> None:
    turn = harness.order_to("be deaf")
    await settle()
    harness.driver.abandon_turn(turn)

    harness.runtime.shutdown_started.set()
    await harness.context.heard(agent_events.ZombieEnded)
    await settle()

    assert harness.context.kinds() == ["ZombieEnded"]
    assert harness.context.output == []


@kinds_that("be deaf")
async def test_abandoning_a_turn_twice_makes_one_zombie(harness: Contract) -> None:
    turn = harness.order_to("be deaf")
    await settle()
    harness.driver.abandon_turn(turn)
    harness.driver.abandon_turn(turn)

    harness.runtime.shutdown_started.set()
    await harness.context.heard(agent_events.ZombieEnded)
    await settle()

    assert harness.context.kinds() == ["ZombieEnded"]


@kinds_that("greet")
async def test_abandoning_a_finished_turn_reports_the_zombie_ended(
    harness: Contract,
) -> None:
    turn = harness.order_to("greet")
    await harness.context.heard(agent_events.TurnEnded)

    harness.driver.abandon_turn(turn)
    await harness.context.heard(agent_events.ZombieEnded)
    await settle()

    assert harness.context.kinds() == ["TurnEnded", "ZombieEnded"]
    assert harness.runtime.zombies == {}


# Letting go -----------------------------------------------------------------------------


@kinds_that("greet")
async def test_an_agent_closed_between_turns_reports_it(
    harness: Contract,
) -> None:
    harness.order_to("greet")
    await harness.context.heard(agent_events.TurnEnded)

    harness.driver.close()
    await harness.context.heard(agent_events.AgentClosed)
    await settle()

    assert harness.context.kinds() == ["TurnEnded", "AgentClosed"]


@kinds_that("greet")
async def test_an_agent_can_be_closed_before_its_first_turn(harness: Contract) -> None:
    harness.driver.close()

    await harness.context.heard(agent_events.AgentClosed)


@kinds_that("be deaf")
async def test_an_agent_with_only_a_zombie_left_reports_closed(
    harness: Contract,
) -> None:
    turn = harness.order_to("be deaf")
    await settle()
    harness.driver.abandon_turn(turn)

    harness.driver.close()
    await harness.context.heard(agent_events.AgentClosed)

    assert list(harness.runtime.zombies) == [turn]


@kinds_that("wait")
async def test_a_discarded_agent_ends_its_turn_without_a_zombie(
    harness: Contract,
) -> None:
    harness.order_to("wait")
    await settle()

    harness.driver.discard()
    await settle()

    assert set(harness.context.kinds()) <= {"ZombieEnded"}
    assert harness.runtime.zombies == {}


@kinds_that("be deaf")
async def test_a_discarded_agent_that_ignores_cancellation_is_a_zombie(
    harness: Contract,
) -> None:
    turn = harness.order_to("be deaf")
    await settle()

    harness.driver.discard()
    await settle()
    assert list(harness.runtime.zombies) == [turn]
    harness.runtime.shutdown_started.set()
    await harness.context.heard(agent_events.ZombieEnded)

    assert harness.context.kinds() == ["ZombieEnded"]
    assert harness.context.output == []


@kinds_that("greet")
async def test_discarding_an_idle_agent_reports_nothing(harness: Contract) -> None:
    harness.order_to("greet")
    await harness.context.heard(agent_events.TurnEnded)

    harness.driver.discard()
    await settle()

    assert harness.context.kinds() == ["TurnEnded"]
