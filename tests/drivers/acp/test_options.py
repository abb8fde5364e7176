"""Options that a session wants: read from the agent, set before its prompts, refused."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.agent_options import AgentOption
from supervisor.core.ids import TurnId
from supervisor.drivers.acp.capabilities import AgentStatus
from supervisor.drivers.acp.config_options import offered_options
from supervisor.drivers.acp.option_setter import OPTION_SECONDS
from tests.support.acp_driver import AcpHarness, open_harness
from tests.support.driver_context import FakeDriverContext

FLAGS = ("--modes", "--config-options")


def wanting(**options: Any) -> FakeDriverContext:  # noqa: ANN401 - text or a bool
    context = FakeDriverContext()
    context.wanted_options = options
    return context


def chosen(harness: AcpHarness) -> list[tuple[str, object]]:
    """Return what the agent was told to set, in order."""
    options = harness.heard("session/set_config_option")
    modes = [("mode", one["modeId"]) for one in harness.heard("session/set_mode")]
    return [*modes, *((one["configId"], one["value"]) for one in options)]


def current(options: tuple[AgentOption, ...] | None) -> dict[str, object]:
    return {option.id: option.current for option in options or ()}


async def attached(harness: AcpHarness) -> agent_events.AgentAttached:
    harness.driver.start()
    return await harness.context.heard(agent_events.AgentAttached)


# What is offered --------------------------------------------------------------------------


async def test_the_offer_is_reported_with_the_attachment() -> None:
    async with open_harness(*FLAGS) as harness:
        offered = (await attached(harness)).options

    assert current(offered) == {"model": "small", "brief": False, "thinking": "low", "mode": "code"}
    assert [(one.category, one.kind, one.values) for one in offered] == [
        ("model", "select", ("small", "large")),
        (None, "boolean", ()),
        ("thought_level", "select", ("low", "high")),
        ("mode", "select", ("code", "ask")),
    ]


async def test_an_agent_without_options_offers_none() -> None:
    async with open_harness() as harness:
        assert (await attached(harness)).options == ()


def test_a_config_option_of_category_mode_replaces_the_modes() -> None:
    item = {"id": "permission", "name": "Permission", "category": "mode", "currentValue": "a"}
    status = AgentStatus(modes=({"id": "a"},), mode="a", config_options=(item,))

    assert [one.id for one in offered_options(status)] == ["permission"]


def test_grouped_values_are_offered_in_order() -> None:
    groups = [{"group": "g", "options": [{"value": "a"}, {"value": "b"}]}, {"value": "c"}]
    status = AgentStatus(config_options=({"id": "model", "options": groups},))

    assert offered_options(status)[0].values == ("a", "b", "c")


@pytest.mark.parametrize(
    "item", [{}, {"id": 5}, {"id": " "}, {"name": "x"}, {"id": "x" * 201, "options": "no"}]
)
def test_an_option_without_a_valid_id_is_left_out(item: dict[str, Any]) -> None:
    assert offered_options(AgentStatus(config_options=(item,))) == ()


def test_a_value_of_a_wrong_form_is_left_out() -> None:
    item = {"id": "model", "currentValue": 5, "options": [7, {"value": []}, {"value": "a"}]}
    (option,) = offered_options(AgentStatus(config_options=(item, item)))

    assert (option.current, option.values, option.name) == (None, ("a",), "model")


def test_a_long_offer_is_cut_and_says_so() -> None:
    many = {"id": "model", "options": [{"value": f"model-{n}"} for n in range(500)]}
    long = {"id": "other", "options": [{"value": f"{n:03}" * 50} for n in range(100)]}
    last = {"id": "last", "options": [{"value": "a"}]}
    model, other, cut = offered_options(AgentStatus(config_options=(many, long, last)))

    assert (len(model.values), model.has_more) == (200, True)
    assert 0 < len(other.values) < 100
    assert (cut.values, cut.has_more) == ((), True)


# Setting ----------------------------------------------------------------------------------


async def test_wishes_are_set_before_the_agent_is_attached() -> None:
    context = wanting(model="large", brief="true", mode="ask", effort="high")
    async with open_harness(*FLAGS, context=context) as harness:
        offered = (await attached(harness)).options

        assert current(offered) == {
            "model": "large",
            "brief": True,
            "thinking": "high",
            "mode": "ask",
        }
        assert sorted(map(str, chosen(harness))) == sorted(
            map(str, [("mode", "ask"), ("model", "large"), ("brief", True), ("thinking", "high")])
        )


async def test_a_wish_that_is_current_is_not_set() -> None:
    async with open_harness(*FLAGS, context=wanting(model="small", mode="code")) as harness:
        await harness.come_up()

        assert chosen(harness) == []


async def test_an_id_is_set_after_the_short_name_for_it() -> None:
    async with open_harness(*FLAGS, context=wanting(thinking="low", effort="high")) as harness:
        await harness.come_up()

        assert chosen(harness) == [("thinking", "high"), ("thinking", "low")]


async def test_a_wish_that_is_not_offered_is_left_to_the_session() -> None:
    async with open_harness(*FLAGS, context=wanting(speed="fast", model="huge")) as harness:
        await harness.come_up()

        assert chosen(harness) == []
        assert harness.context.all(agent_events.OptionRefused) == []


async def test_a_wish_of_an_idle_session_is_set_at_once_and_reported() -> None:
    async with open_harness(*FLAGS) as harness:
        await harness.come_up()

        harness.driver.set_options({"model": "large"})
        reported = await harness.context.heard(agent_events.AgentChoicesReported)

        assert current(reported.options)["model"] == "large"
        assert chosen(harness) == [("model", "large")]


async def test_a_wish_of_a_busy_session_is_set_before_the_next_prompt() -> None:
    async with open_harness(*FLAGS) as harness:
        await harness.come_up()
        harness.order("sleep 5\nchoices")
        await settle()

        harness.driver.set_options({"model": "large"})
        await settle()
        assert chosen(harness) == []
        first = await harness.context.heard(agent_events.TurnEnded)
        second = await harness.run("choices")

    assert "model small" in (first.text or "")
    assert "model large" in (second.text or "")


async def test_a_wish_of_a_busy_session_is_set_when_the_turn_ends() -> None:
    async with open_harness(*FLAGS) as harness:
        await harness.come_up()
        harness.order("sleep 5")
        harness.driver.set_options({"model": "large"})
        await harness.context.heard(agent_events.TurnEnded)
        await settle()

        assert chosen(harness) == [("model", "large")]


async def test_a_wish_during_the_start_is_set() -> None:
    async with open_harness(*FLAGS, "--delay", "1") as harness:
        harness.driver.start()
        await trio.sleep(0.5)  # virtual: the agent answers `initialize` later
        harness.context.wanted_options = {"model": "large"}
        harness.driver.set_options({"model": "large"})

        offered = (await harness.context.heard(agent_events.AgentAttached)).options
        assert current(offered)["model"] == "large"


async def test_a_wish_while_the_first_ones_are_set_is_set_too() -> None:
    async with open_harness(*FLAGS, "--delay", "1", context=wanting(model="large")) as harness:
        harness.driver.start()
        await trio.sleep(2.5)  # virtual: `initialize` and `session/new` took a second each
        harness.driver.set_options({"thinking": "high"})

        offered = (await harness.context.heard(agent_events.AgentAttached)).options
        assert (current(offered)["model"], current(offered)["thinking"]) == ("large", "high")


async def test_a_pending_turn_runs_with_the_wishes() -> None:
    async with open_harness(*FLAGS, context=wanting(model="large")) as harness:
        harness.driver.start()
        ended = await harness.run("choices")

    assert "model large" in (ended.text or "")


# Failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("phase", "wanted"), [("config", "model"), ("mode", "mode")])
async def test_a_refused_wish_is_reported_and_the_agent_is_attached(
    phase: str, wanted: str
) -> None:
    value = "large" if wanted == "model" else "ask"
    context = wanting(**{wanted: value})
    async with open_harness(*FLAGS, "--fail-at", phase, context=context) as harness:
        await attached(harness)

        refused = harness.context.all(agent_events.OptionRefused)
        assert [(one.option, one.value) for one in refused] == [(wanted, value)]
        assert "told to fail" in refused[0].problem
        assert (await harness.run("say on")).outcome == "completed"


async def test_an_agent_that_does_not_answer_is_asked_once_within_a_bound() -> None:
    context = wanting(model="large", thinking="high")
    async with open_harness(*FLAGS, "--hang-at", "config", context=context) as harness:
        began = trio.current_time()
        await attached(harness)

        assert trio.current_time() - began == pytest.approx(OPTION_SECONDS, abs=0.5)
        assert len(chosen(harness)) == 1
        refused = harness.context.all(agent_events.OptionRefused)
        assert {one.option for one in refused} == {"model", "thinking"}


async def test_an_interrupt_ends_the_wait_for_an_option() -> None:
    async with open_harness(*FLAGS, "--hang-at", "config") as harness:
        await harness.come_up()
        harness.driver.set_options({"model": "large"})
        await settle()
        turn = harness.order("say no")
        await settle()
        began = trio.current_time()

        harness.driver.cancel_turn(turn, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.turn, ended.outcome) == (TurnId("turn_1"), "interrupted")
        assert trio.current_time() - began < 1.0
        assert harness.heard("session/prompt") == []


async def test_an_agent_that_dies_while_options_are_set_is_reported_as_exited() -> None:
    context = wanting(model="large")
    async with open_harness(*FLAGS, "--die-at", "config", context=context) as harness:
        await attached(harness)

        assert (await harness.context.heard(agent_events.AgentExited)).failure is not None


async def test_an_agent_that_dies_between_turns_while_options_are_set_exits() -> None:
    async with open_harness(*FLAGS, "--die-at", "config") as harness:
        await harness.come_up()

        harness.driver.set_options({"model": "large"})

        assert (await harness.context.heard(agent_events.AgentExited)).failure is not None


# Changes by the agent ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "option", "value"),
    [("choose mode ask", "mode", "ask"), ("choose model large", "model", "large")],
)
async def test_a_change_by_the_agent_is_reported_during_the_turn(
    step: str, option: str, value: str
) -> None:
    async with open_harness(*FLAGS) as harness:
        await harness.come_up()
        harness.order(f"{step}\nsleep 100")

        reported = await harness.context.heard(agent_events.AgentChoicesReported)

        assert current(reported.options)[option] == value
        assert harness.context.all(agent_events.TurnEnded) == []


async def test_a_wish_is_not_set_again_after_the_agent_has_changed_it() -> None:
    async with open_harness(*FLAGS, context=wanting(mode="ask")) as harness:
        await harness.come_up()
        await harness.run("choose mode code")

        assert "mode code" in ((await harness.run("choices")).text or "")
