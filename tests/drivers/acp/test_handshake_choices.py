"""Configured mode and options of an agent; see acp/handshake.py."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor import ConfigError
from supervisor.core import agent_events
from supervisor.drivers.acp.agent import acp, scripted_process
from tests.support.acp_driver import AcpHarness, open_harness
from tests.support.in_memory_processes import InMemoryProcesses


def choosing(*flags: str, **choices: Any) -> Any:  # noqa: ANN401 - an agent
    return acp("scripted", scripted_process(flags=flags).command, **choices)


async def failure_of(*flags: str, **choices: Any) -> str:  # noqa: ANN401 - as above
    async with open_harness(agent=choosing(*flags, **choices)) as harness:
        harness.driver.start()
        failed = await harness.context.heard(agent_events.StartFailed)
    assert failed.failure.kind == "handshake"
    return failed.failure.detail or ""


async def test_a_new_conversation_gets_the_configured_choices() -> None:
    agent = choosing(
        "--modes", "--config-options", mode="ask", options={"model": "large", "brief": True}
    )
    async with open_harness(agent=agent) as harness:
        await harness.come_up()
        said = (await harness.run("choices")).text or ""

    assert "ask" in said
    assert "large" in said
    assert "true" in said.lower()


async def test_configured_choices_are_reported() -> None:
    agent = choosing("--modes", "--config-options", mode="ask", options={"model": "large"})
    async with open_harness(agent=agent) as harness:
        harness.driver.start()
        choices = (await harness.context.heard(agent_events.AgentChoicesReported)).choices

    options: Any = choices["config_options"]
    assert choices["mode"] == "ask"
    assert [one["currentValue"] for one in options if one["id"] == "model"] == ["large"]


async def test_an_unoffered_mode_fails_the_start_without_a_call() -> None:
    assert "no mode 'plan'; it has: code, ask" in await failure_of("--modes", mode="plan")
    assert "no mode 'plan'; it has: none" in await failure_of(mode="plan")


async def test_an_unoffered_option_fails_the_start_without_a_call() -> None:
    said = await failure_of("--config-options", options={"speed": "fast"})

    assert "no option 'speed'; it has: model, brief" in said


async def test_a_refused_option_value_is_quoted() -> None:
    said = await failure_of("--config-options", options={"model": "huge"})

    assert "'huge'" in said
    assert "unknown option or value" in said


@pytest.mark.parametrize("phase", ["mode", "config"])
async def test_an_agent_that_refuses_an_offered_choice_fails_to_start(phase: str) -> None:
    flags = ("--modes", "--config-options", "--fail-at", phase)

    assert "refuses" in await failure_of(*flags, mode="ask", options={"model": "large"})


async def come_back(harness: AcpHarness) -> None:
    harness.context.agent_session_id = "scripted-1"
    await harness.come_up()


async def test_a_resumed_conversation_gets_the_configured_mode() -> None:
    # The agent's default mode may allow more than the configured one.
    agent = choosing("--load", "--modes", "--config-options", mode="ask", options={"brief": True})
    async with open_harness(
        agent=agent, processes=await remembered("--load", "--modes")
    ) as harness:
        await come_back(harness)

        assert harness.heard("session/new") == []
        assert [one["modeId"] for one in harness.heard("session/set_mode")] == ["ask"]
        assert [one["value"] for one in harness.heard("session/set_config_option")] == [True]


async def test_a_choice_that_is_current_is_not_set_again() -> None:
    agent = choosing("--modes", mode="code")
    async with open_harness(agent=agent) as harness:
        await harness.come_up()

        assert harness.heard("session/set_mode") == []


async def test_a_resumed_conversation_without_the_configured_mode_warns() -> None:
    agent = choosing("--load", mode="ask")
    async with open_harness(agent=agent, processes=await remembered("--load")) as harness:
        await come_back(harness)
        await harness.run("say on")

        [warning] = harness.context.written("warning")
        assert "not as configured: it offers no mode 'ask'" in warning["text"]


async def remembered(*flags: str) -> InMemoryProcesses:
    """Return processes that keep a conversation with the id `scripted-1`."""
    processes = InMemoryProcesses()
    async with open_harness(*flags, processes=processes) as harness:
        await harness.come_up()
        await harness.run("say once upon a time")
    return processes


@pytest.mark.parametrize("options", [["a"], "x", {"a": 5}, {1: "x"}, {" ": "x"}, {"a": None}])
def test_invalid_options_are_refused_when_the_agent_is_declared(options: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="options of agent"):
        choosing(options=options)
