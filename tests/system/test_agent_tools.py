"""Agents call the tools of their sessions: through a bridge, from inside their containments."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

import supervisor
from supervisor import Session, Supervisor
from supervisor.drivers.identity import ProcessIdentity
from tests.support.process_programs import descendants_of, wait_dead

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs credentials of peers")

AGENT = supervisor.scripted_process("worker", flags=["--load", "--resume", "--close"])


@pytest.fixture
async def sup() -> AsyncIterator[Supervisor]:
    settings = supervisor.Settings(exit_seconds=0.2)
    async with supervisor.open(agents=[AGENT], settings=settings) as opened:
        yield opened


async def said(session: Session, script: str) -> str:
    with trio.fail_after(60):
        return (await session.prompt(script)).text


def value_of(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return what a call has said."""
    return orjson.loads(text.partition(": ")[2])


def bridges_of(agent_pid: int) -> list[ProcessIdentity]:
    """Return the bridges among the children of an agent."""
    return [one for one in descendants_of(agent_pid) if b"/bridge/" in command_line(one.pid)]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_an_agent_spawns_a_child_and_waits_for_it(sup: Supervisor) -> None:
    parent = await sup.create("worker")

    spawned = value_of(
        await said(parent, 'call spawn {"agent": "worker", "text": "say from below"}')
    )
    waited = value_of(await said(parent, "call wait {}"))

    (child,) = (await sup.tree(parent.id))[0].children
    assert spawned["session"] == child.id
    assert "from below" in orjson.dumps(waited).decode()


async def test_the_agent_is_offered_the_tools_by_name(sup: Supervisor) -> None:
    session = await sup.create("worker")

    assert await said(session, "servers") == "servers: understudy\n"
    assert "spawn" in await said(session, "tools")


async def test_another_session_is_not_found(sup: Supervisor) -> None:
    foreign, session = await sup.create("worker"), await sup.create("worker")

    refused = await said(session, f'call send {{"session": "{foreign.id}", "text": "say hello"}}')

    assert value_of(refused)["code"] == "session_not_found"
    assert (await foreign.info()).messages == 0


async def test_the_bridge_is_gone_with_its_agent(sup: Supervisor) -> None:
    session = await sup.create("worker")
    await said(session, "call agents {}")
    pid = (await session.info()).pid
    assert pid is not None
    bridges = bridges_of(pid)
    assert len(bridges) == 1

    await session.stop()

    wait_dead(bridges)


async def test_the_bridge_of_a_killed_agent_is_gone_and_the_next_one_works(
    sup: Supervisor,
) -> None:
    session = await sup.create("worker")
    await said(session, "call agents {}")
    pid = (await session.info()).pid
    assert pid is not None
    bridges = bridges_of(pid)

    os.kill(pid, signal.SIGKILL)
    while (await session.info()).pid == pid:  # noqa: ASYNC110 - its end has no event here
        await trio.sleep(0.01)
    wait_dead(bridges)

    assert "agents" in value_of(await said(session, "call agents {}"))


async def test_the_token_is_in_no_record_and_in_no_command_line(sup: Supervisor) -> None:
    session = await sup.create("worker")
    await said(session, "call agents {}")
    pid = (await session.info()).pid
    assert pid is not None
    lines = [command_line(one) for one in (pid, *(one.pid for one in descendants_of(pid)))]
    assert len(lines) == 2
    assert not any(b"ust-1." in line for line in lines)

    assert "ust-1." not in str(await session.history())


@pytest.mark.parametrize("names", [[], ["another"]])
async def test_permissions_without_the_server_turn_the_tools_off(
    sup: Supervisor, names: list[str]
) -> None:
    permissions = supervisor.Permissions(mcp_servers=names)
    session = await sup.create("worker", permissions=permissions)

    assert await said(session, "servers") == "servers: none\n"


async def test_a_cancelled_turn_cancels_the_call(sup: Supervisor) -> None:
    session = await sup.create("worker")
    await said(session, 'call spawn {"agent": "worker", "text": "sleep 60"}')
    receipt = await session.send("call wait {}")
    await trio.sleep(0.3)

    await session.interrupt()

    assert (await session.result(receipt.input_id)).outcome == "interrupted"
    assert "agents" in value_of(await said(session, "call agents {}"))
