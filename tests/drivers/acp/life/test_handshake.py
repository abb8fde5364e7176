"""How an ACP agent comes up, and every way in which it may not."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.permissions import Permissions
from supervisor.core.session import Failure
from supervisor.drivers.acp.agent import AcpAgent, acp, scripted_process
from supervisor.drivers.acp.life.login import AUTH_SECONDS
from tests.drivers.acp.driver_desk import open_desk, open_puppet
from tests.drivers.office import StandInOffice

SECONDS = 20.0


def agent(*flags: str, auth: str | None = None) -> AcpAgent:
    command = scripted_process(flags=flags).command
    return acp("scripted", command, auth=auth, handshake_seconds=SECONDS)


async def failure_of(*flags: str, auth: str | None = None, known: str | None = None) -> Failure:
    """Why an agent of those flags does not come up; it says so once, and is gone."""
    office = StandInOffice()
    office.agent_session_id = known
    async with open_desk(agent=agent(*flags, auth=auth), office=office) as desk:
        desk.driver.start()
        failed = await office.heard(ev.AgentStartFailed)
        await settle()
        assert [kind for kind in office.kinds() if kind != "AuthenticationAsked"] == [
            "AgentStartFailed"
        ]
        assert office.processes == []
        assert desk.workshop.slots.borrowed_tokens == 0
        assert desk.workshop.starting.borrowed_tokens == 0
        return failed.failure


def said_in(failure: Failure) -> str:
    return failure.detail or ""


# It dies, hangs, refuses, or answers rubbish -----------------------------------------------


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_one_that_dies_is_said_to_have_exited_and_what_it_said_last(phase: str) -> None:
    failed = await failure_of("--die-at", phase)

    assert failed.kind == "process_exit"
    assert "exited with code 1" in said_in(failed)
    assert "told to die" in said_in(failed)


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_one_that_hangs_is_given_up_after_its_time(phase: str) -> None:
    failed = await failure_of("--hang-at", phase)

    assert failed.kind == "timeout"
    assert "within 20 seconds" in said_in(failed)
    assert trio.current_time() < 2 * SECONDS


@pytest.mark.parametrize(
    ("phase", "method"), [("initialize", "initialize"), ("new", "session/new")]
)
async def test_one_that_refuses_is_quoted(phase: str, method: str) -> None:
    failed = await failure_of("--fail-at", phase)

    assert failed.kind == "handshake"
    assert f"refuses {method}: told to fail" in said_in(failed)
    assert "code -32603" in said_in(failed)


@pytest.mark.parametrize("phase", ["initialize", "new"])
async def test_one_that_answers_rubbish_does_not_speak_the_protocol(phase: str) -> None:
    failed = await failure_of("--rubbish-at", phase)

    assert failed.kind == "protocol"


async def test_a_program_that_only_chats_is_asked_whether_it_speaks_the_protocol() -> None:
    failed = await failure_of("--banner", "Welcome!", "--hang-at", "initialize")

    assert failed.kind == "timeout"
    assert "speak ACP?" in said_in(failed)


async def test_an_answer_without_a_version_is_none_of_the_protocol() -> None:
    failed = await failure_of("--rubbish-at", "initialize")

    assert "has no version" in said_in(failed)


async def test_one_that_speaks_another_version_is_told_what_we_speak() -> None:
    failed = await failure_of("--protocol", "2")

    assert failed.kind == "protocol"
    assert "version 2" in said_in(failed)
    assert "version 1" in said_in(failed)


async def test_a_program_that_is_not_there_is_named() -> None:
    async with open_desk(agent=acp("none", ["no-such-program"])) as desk:
        desk.driver.start()
        failed = await desk.office.heard(ev.AgentStartFailed)

    assert failed.failure.kind == "startup"
    assert "no-such-program" in said_in(failed.failure)


# Who we are --------------------------------------------------------------------------------


async def test_one_that_wants_to_be_authenticated_by_nobody_knows_what_says_how() -> None:
    failed = await failure_of("--auth", "api-key")

    assert failed.kind == "auth"
    assert "api-key" in said_in(failed)
    assert "auth=" in said_in(failed)


async def test_one_that_is_authenticated_as_configured_comes_up() -> None:
    async with open_desk(agent=agent("--auth", "api-key", auth="api-key")) as desk:
        desk.driver.start()
        await desk.office.heard(ev.AgentAttached)
        asked = desk.office.all(ev.AuthenticationAsked)

    assert [one.method for one in asked] == ["api-key", None]


async def test_a_method_that_it_does_not_know_is_an_auth_failure() -> None:
    failed = await failure_of("--auth", "api-key", auth="browser")

    assert failed.kind == "auth"
    assert "'browser'" in said_in(failed)


async def test_authentication_that_hangs_is_given_up_and_said_to_wait_meanwhile() -> None:
    flags = ("--auth", "api-key", "--hang-at", "authenticate")
    async with open_desk(agent=agent(*flags, auth="api-key")) as desk:
        desk.driver.start()
        await desk.office.heard(ev.AuthenticationAsked)
        began = trio.current_time()
        failed = await desk.office.heard(ev.AgentStartFailed)

        assert failed.failure.kind == "auth"
        assert AUTH_SECONDS <= trio.current_time() - began < AUTH_SECONDS + 10
        assert desk.office.kinds()[:2] == ["AuthenticationAsked", "AuthenticationAsked"]


async def test_one_that_waits_for_a_person_to_log_in_keeps_nobody_else_from_starting() -> None:
    flags = ("--auth", "api-key", "--hang-at", "authenticate")
    waits = agent(*flags, auth="api-key")
    async with open_desk(agent=waits, start_concurrency=1) as desk:
        desk.driver.start()
        await desk.office.heard(ev.AuthenticationAsked)

        assert desk.workshop.starting.available_tokens == 1


async def test_one_that_dies_while_it_is_authenticated_has_exited() -> None:
    failed = await failure_of("--auth", "api-key", "--die-at", "authenticate", auth="api-key")

    assert failed.kind == "process_exit"
    assert "told to die at authenticate" in said_in(failed)


async def test_one_that_is_never_satisfied_is_an_auth_failure() -> None:
    async with open_puppet(manual=("session/new", "authenticate"), agent=agent(auth="key")) as (
        desk,
        puppet,
    ):
        desk.driver.start()
        puppet.refuses(await puppet.hears("session/new"), -32000, "who are you?")
        puppet.answers(await puppet.hears("authenticate"), {})
        puppet.refuses(await puppet.hears("session/new", times=2), -32000, "who are you?")
        failed = await desk.office.heard(ev.AgentStartFailed)

    assert failed.failure.kind == "auth"


# What it has to do without -----------------------------------------------------------------


async def test_servers_that_an_agent_cannot_reach_are_said_once_in_its_first_turn() -> None:
    command = scripted_process().command
    servers = [{"name": "near", "command": "/bin/mcp"}, {"name": "far", "url": "https://a.example"}]
    lacks = acp("scripted", command, mcp_servers=servers)
    async with open_desk(agent=lacks) as desk:
        await desk.come_up()
        await desk.run("say one")
        await desk.run("say two")

        [warning] = desk.office.written("warning")
        assert warning["text"].endswith("MCP servers that it should have: far")
        assert [one["name"] for one in desk.heard("session/new")[0]["mcpServers"]] == ["near"]


async def test_nothing_is_said_of_servers_that_the_session_has_no_right_to() -> None:
    servers = [{"name": "far", "url": "https://a.example"}]
    lacks = acp("scripted", scripted_process().command, mcp_servers=servers)
    office = StandInOffice(permissions=Permissions(mcp_servers=[]))
    async with open_desk(agent=lacks, office=office) as desk:
        await desk.come_up()
        await desk.run("say one")

        assert office.written("warning") == []
