"""Handshake with an ACP agent, and its failures; see acp/handshake.py."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.permissions import Permissions
from supervisor.core.state import Failure
from supervisor.drivers.acp.agent import AcpAgent, acp, scripted_process
from supervisor.drivers.acp.agent_spec import LoginHelp
from supervisor.drivers.acp.handshake import AUTH_SECONDS
from tests.support.acp_driver import open_harness, open_manual_agent
from tests.support.driver_context import FakeDriverContext

SECONDS = 20.0


def agent(*flags: str, auth: str | None = None) -> AcpAgent:
    command = scripted_process(flags=flags).command
    return acp("scripted", command, auth=auth, handshake_seconds=SECONDS)


async def failure_of(*flags: str, auth: str | None = None, known: str | None = None) -> Failure:
    """Return why an agent with these flags fails to start; check that it reports once and exits."""
    context = FakeDriverContext()
    context.agent_session_id = known
    async with open_harness(agent=agent(*flags, auth=auth), context=context) as harness:
        harness.driver.start()
        failed = await context.heard(agent_events.StartFailed)
        await settle()
        assert [kind for kind in context.kinds() if kind != "AuthenticationRequested"] == [
            "StartFailed"
        ]
        assert context.processes == []
        assert harness.runtime.process_slots.borrowed_tokens == 0
        assert harness.runtime.start_slots.borrowed_tokens == 0
        return failed.failure


def said_in(failure: Failure) -> str:
    return failure.detail or ""


# Failures of the handshake -----------------------------------------------------------------


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_an_agent_that_exits_fails_with_its_code_and_stderr(phase: str) -> None:
    failed = await failure_of("--die-at", phase)

    assert failed.kind == "process_exit"
    assert "exited with code 1" in said_in(failed)
    assert "told to die" in said_in(failed)


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_a_handshake_that_hangs_times_out(phase: str) -> None:
    failed = await failure_of("--hang-at", phase)

    assert failed.kind == "timeout"
    assert "within 20 seconds" in said_in(failed)
    assert trio.current_time() < 2 * SECONDS


@pytest.mark.parametrize(
    ("phase", "method"), [("initialize", "initialize"), ("new", "session/new")]
)
async def test_a_refused_handshake_call_quotes_the_error(phase: str, method: str) -> None:
    failed = await failure_of("--fail-at", phase)

    assert failed.kind == "handshake"
    assert f"refuses {method}: told to fail" in said_in(failed)
    assert "code -32603" in said_in(failed)


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_a_malformed_answer_is_a_protocol_failure(phase: str) -> None:
    failed = await failure_of("--rubbish-at", phase)

    assert failed.kind == "protocol"


async def test_a_program_without_acp_output_fails_with_a_hint() -> None:
    failed = await failure_of("--banner", "Welcome!", "--hang-at", "initialize")

    assert failed.kind == "timeout"
    assert "speak ACP?" in said_in(failed)


async def test_an_answer_without_a_version_is_a_protocol_failure() -> None:
    failed = await failure_of("--rubbish-at", "initialize")

    assert "has no version" in said_in(failed)


async def test_another_protocol_version_fails_with_both_versions() -> None:
    failed = await failure_of("--protocol", "2")

    assert failed.kind == "protocol"
    assert "version 2" in said_in(failed)
    assert "version 1" in said_in(failed)


async def test_a_missing_program_is_named() -> None:
    async with open_harness(agent=acp("none", ["no-such-program"])) as harness:
        harness.driver.start()
        failed = await harness.context.heard(agent_events.StartFailed)

    assert failed.failure.kind == "startup"
    assert "no-such-program" in said_in(failed.failure)


# Authentication ----------------------------------------------------------------------------


async def test_required_authentication_without_a_method_fails_with_a_hint() -> None:
    failed = await failure_of("--auth", "api-key")

    assert failed.kind == "auth"
    assert "api-key" in said_in(failed)
    assert "auth=" in said_in(failed)


async def test_a_preset_that_requires_authentication_says_what_to_run_and_to_write() -> None:
    help_ = LoginHelp("run `mine login`", "MINE_KEY", "mine")
    preset = attrs.evolve(agent("--auth", "api-key"), name="mine", login=help_)
    async with open_harness(agent=preset) as harness:
        harness.driver.start()
        failed = (await harness.context.heard(agent_events.StartFailed)).failure

    said = said_in(failed)
    assert "Log in as the user of this daemon: run `mine login`, or write" in said
    lines = ["[agents.mine]", 'preset = "mine"', 'auth = "api-key"', "[agents.mine.env]"]
    assert "\n".join([*lines, 'MINE_KEY = "$MINE_KEY"']) in said


async def test_an_agent_starts_after_authentication_by_the_configured_method() -> None:
    async with open_harness(agent=agent("--auth", "api-key", auth="api-key")) as harness:
        harness.driver.start()
        await harness.context.heard(agent_events.AgentAttached)
        asked = harness.context.all(agent_events.AuthenticationRequested)

    assert [one.method for one in asked] == ["api-key", None]


async def test_an_unknown_method_is_an_auth_failure() -> None:
    failed = await failure_of("--auth", "api-key", auth="browser")

    assert failed.kind == "auth"
    assert "'browser'" in said_in(failed)


async def test_authentication_that_hangs_is_reported_and_times_out() -> None:
    flags = ("--auth", "api-key", "--hang-at", "authenticate")
    async with open_harness(agent=agent(*flags, auth="api-key")) as harness:
        harness.driver.start()
        await harness.context.heard(agent_events.AuthenticationRequested)
        began = trio.current_time()
        failed = await harness.context.heard(agent_events.StartFailed)

        assert failed.failure.kind == "auth"
        assert AUTH_SECONDS <= trio.current_time() - began < AUTH_SECONDS + 10
        assert harness.context.kinds()[:2] == ["AuthenticationRequested", "AuthenticationRequested"]


async def test_an_agent_that_waits_for_authentication_frees_its_start_slot() -> None:
    flags = ("--auth", "api-key", "--hang-at", "authenticate")
    waits = agent(*flags, auth="api-key")
    async with open_harness(agent=waits, start_concurrency=1) as harness:
        harness.driver.start()
        await harness.context.heard(agent_events.AuthenticationRequested)

        assert harness.runtime.start_slots.available_tokens == 1


async def test_an_agent_that_exits_during_authentication_fails_with_its_exit() -> None:
    failed = await failure_of("--auth", "api-key", "--die-at", "authenticate", auth="api-key")

    assert failed.kind == "process_exit"
    assert "told to die at authenticate" in said_in(failed)


async def test_repeated_authentication_demands_are_an_auth_failure() -> None:
    async with open_manual_agent(
        manual=("session/new", "authenticate"), agent=agent(auth="key")
    ) as (
        harness,
        manual_agent,
    ):
        harness.driver.start()
        manual_agent.refuses(await manual_agent.hears("session/new"), -32000, "who are you?")
        manual_agent.answers(await manual_agent.hears("authenticate"), {})
        manual_agent.refuses(
            await manual_agent.hears("session/new", times=2), -32000, "who are you?"
        )
        failed = await harness.context.heard(agent_events.StartFailed)

    assert failed.failure.kind == "auth"


# Unsupported MCP servers -------------------------------------------------------------------


async def test_unsupported_mcp_servers_are_a_warning_in_the_first_turn() -> None:
    command = scripted_process().command
    servers = [{"name": "near", "command": "/bin/mcp"}, {"name": "far", "url": "https://a.example"}]
    lacks = acp("scripted", command, mcp_servers=servers)
    async with open_harness(agent=lacks) as harness:
        await harness.come_up()
        await harness.run("say one")
        await harness.run("say two")

        [warning] = harness.context.written("warning")
        assert warning["text"].endswith("these MCP servers: far")
        assert [one["name"] for one in harness.heard("session/new")[0]["mcpServers"]] == ["near"]


async def test_mcp_servers_without_permission_make_no_warning() -> None:
    servers = [{"name": "far", "url": "https://a.example"}]
    lacks = acp("scripted", scripted_process().command, mcp_servers=servers)
    context = FakeDriverContext(permissions=Permissions(mcp_servers=[]))
    async with open_harness(agent=lacks, context=context) as harness:
        await harness.come_up()
        await harness.run("say one")

        assert context.written("warning") == []
