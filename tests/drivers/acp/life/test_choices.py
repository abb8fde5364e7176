"""The mode and the options that an agent was configured to begin with."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor import ConfigError
from supervisor.core import events as ev
from supervisor.drivers.acp.agent import acp, scripted_process
from tests.drivers.acp.driver_desk import AcpDesk, open_desk
from tests.drivers.in_memory import InMemoryProcesses


def choosing(*flags: str, **choices: Any) -> Any:  # noqa: ANN401 - an agent
    return acp("scripted", scripted_process(flags=flags).command, **choices)


async def failure_of(*flags: str, **choices: Any) -> str:  # noqa: ANN401 - as above
    async with open_desk(agent=choosing(*flags, **choices)) as desk:
        desk.driver.start()
        failed = await desk.office.heard(ev.AgentStartFailed)
    assert failed.failure.kind == "handshake"
    return failed.failure.detail or ""


async def test_a_conversation_begins_with_what_was_chosen() -> None:
    agent = choosing(
        "--modes", "--config-options", mode="ask", options={"model": "large", "brief": True}
    )
    async with open_desk(agent=agent) as desk:
        await desk.come_up()
        said = (await desk.run("choices")).text or ""

    assert "ask" in said
    assert "large" in said
    assert "true" in said.lower()


async def test_what_was_chosen_is_what_is_shown() -> None:
    agent = choosing("--modes", "--config-options", mode="ask", options={"model": "large"})
    async with open_desk(agent=agent) as desk:
        desk.driver.start()
        choices = (await desk.office.heard(ev.AgentSurfaced)).choices

    options: Any = choices["config_options"]
    assert choices["mode"] == "ask"
    assert [one["currentValue"] for one in options if one["id"] == "model"] == ["large"]


async def test_a_mode_that_it_does_not_offer_is_not_asked_for_and_it_does_not_come_up() -> None:
    assert "no mode 'plan'; it has: code, ask" in await failure_of("--modes", mode="plan")
    assert "no mode 'plan'; it has: none" in await failure_of(mode="plan")


async def test_an_option_that_it_does_not_offer_is_not_asked_for_either() -> None:
    said = await failure_of("--config-options", options={"speed": "fast"})

    assert "no option 'speed'; it has: model, brief" in said


async def test_a_value_that_it_will_not_have_is_quoted() -> None:
    said = await failure_of("--config-options", options={"model": "huge"})

    assert "'huge'" in said
    assert "no such value" in said


@pytest.mark.parametrize("phase", ["mode", "config"])
async def test_one_that_refuses_what_it_offers_does_not_come_up(phase: str) -> None:
    flags = ("--modes", "--config-options", "--fail-at", phase)

    assert "will not have" in await failure_of(*flags, mode="ask", options={"model": "large"})


async def come_back(desk: AcpDesk) -> None:
    desk.office.agent_session_id = "scripted-1"
    await desk.come_up()


async def test_a_conversation_that_goes_on_is_put_into_the_mode_that_was_configured() -> None:
    # What an agent begins with may allow more than what it was told to begin with.
    agent = choosing("--load", "--modes", "--config-options", mode="ask", options={"brief": True})
    async with open_desk(agent=agent, processes=await remembered("--load", "--modes")) as desk:
        await come_back(desk)

        assert desk.heard("session/new") == []
        assert [one["modeId"] for one in desk.heard("session/set_mode")] == ["ask"]
        assert [one["value"] for one in desk.heard("session/set_config_option")] == [True]


async def test_what_is_so_already_is_not_chosen_again() -> None:
    agent = choosing("--modes", mode="code")
    async with open_desk(agent=agent) as desk:
        await desk.come_up()

        assert desk.heard("session/set_mode") == []


async def test_a_conversation_goes_on_without_a_mode_that_is_offered_no_more_and_says_so() -> None:
    agent = choosing("--load", mode="ask")
    async with open_desk(agent=agent, processes=await remembered("--load")) as desk:
        await come_back(desk)
        await desk.run("say on")

        [warning] = desk.office.written("warning")
        assert "not as configured: it offers no mode 'ask'" in warning["text"]


async def remembered(*flags: str) -> InMemoryProcesses:
    """Processes that have kept a conversation under the name `scripted-1`."""
    processes = InMemoryProcesses()
    async with open_desk(*flags, processes=processes) as desk:
        await desk.come_up()
        await desk.run("say once upon a time")
    return processes


@pytest.mark.parametrize("options", [["a"], "x", {"a": 5}, {1: "x"}, {" ": "x"}, {"a": None}])
def test_options_that_are_none_are_refused_when_the_agent_is_made(options: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="options of agent"):
        choosing(options=options)
