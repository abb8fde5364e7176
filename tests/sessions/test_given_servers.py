"""MCP servers that a caller gives to a session: what the agent gets, and what is stored."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import supervisor
from supervisor import ConfigError, Permissions, Session
from supervisor.core import redaction
from supervisor.core.ids import SessionId
from supervisor.drivers.acp.agent import acp, scripted_process
from supervisor.sessions.given_servers import GivenServers
from tests.support.acp_supervisor import open_acp_supervisor
from tests.support.fake_agents import records
from tests.support.in_memory_processes import InMemoryProcess, InMemoryProcesses

SECRET = "hunter2-token"  # noqa: S105 - of the test
FILES = {"name": "files", "command": "/bin/mcp", "env": [{"name": "KEY", "value": SECRET}]}
DOCS = {"name": "docs", "url": "https://mcp.example/", "headers": {"X-Key": "$" + SECRET}}
OTHER = {"name": "other", "command": "/bin/other"}


def agent() -> Any:  # noqa: ANN401 - an agent
    return attrs.evolve(scripted_process("agent", ("--load", "--mcp")), tools="off")


def servers_of(process: InMemoryProcess) -> list[dict[str, Any]]:
    """Return the servers that the agent got."""
    said = [json.loads(line) for side, line in process.wire if side == "client"]
    (opened,) = [one for one in said if one.get("method") in ("session/new", "session/load")]
    found: list[dict[str, Any]] = opened["params"]["mcpServers"]
    return found


def names(process: InMemoryProcess) -> list[str]:
    return [server["name"] for server in servers_of(process)]


async def warnings(session: Session) -> list[str]:
    return [one.body["text"] for one in await records(session) if one.kind == "warning"]


async def test_the_agent_gets_them_with_their_values() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        await sup.create("agent", mcp_servers=[FILES, DOCS])

        near, far = servers_of(processes.all[0])
        assert near == {**FILES, "args": []}
        assert far["headers"] == [{"name": "X-Key", "value": "$" + SECRET}]


async def test_permissions_name_those_that_are_passed_on() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        allowed = Permissions(mcp_servers=["docs"])
        await sup.create("agent", mcp_servers=[FILES, DOCS], permissions=allowed)

        assert names(processes.all[0]) == ["docs"]


async def test_a_server_of_the_configuration_keeps_its_name() -> None:
    mine = [{"name": "files", "command": "mine"}]
    configured = acp("agent", agent().command, mcp_servers=mine, tools="off")
    async with open_acp_supervisor(configured) as (sup, processes):
        session = await sup.create("agent", mcp_servers=[FILES])
        await session.prompt("say one")

        assert [one["command"] for one in servers_of(processes.all[0])] == ["mine"]
        assert (await warnings(session))[0].endswith("of this name: files")


async def test_an_agent_that_starts_again_gets_them_again() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        session = await sup.create("agent", mcp_servers=[FILES], suspend_after_seconds=10)
        await trio.sleep(20)  # virtual
        await session.prompt("say one")

        assert [names(process) for process in processes.all] == [["files"], ["files"]]
        assert await warnings(session) == []


async def test_others_apply_from_the_next_start() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        session = await sup.create("agent", mcp_servers=[FILES], suspend_after_seconds=10)
        await session.set(mcp_servers=[OTHER])
        await session.prompt("say one")
        await trio.sleep(20)  # virtual
        await session.prompt("say two")

        assert [names(process) for process in processes.all] == [["files"], ["other"]]
        assert await warnings(session) == []


async def test_a_refused_change_keeps_them() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        session = await sup.create("agent", mcp_servers=[FILES])
        await sup.create("agent", name="taken")
        with pytest.raises(supervisor.NameTaken):
            await session.set(mcp_servers=[OTHER], name="taken")
        await session.stop()
        await session.resume()

        assert names(processes.all[-1]) == ["files"]


async def test_our_own_name_is_refused() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        with pytest.raises(ConfigError, match="understudy"):
            await sup.create("agent", mcp_servers=[{**FILES, "name": "understudy"}])


async def test_a_fork_and_a_child_get_none() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        session = await sup.create("agent", mcp_servers=[FILES])
        await session.fork()
        await session.spawn("agent", "say one")

        assert [names(process) for process in processes.all] == [["files"], [], []]


def bytes_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


async def test_a_restarted_supervisor_knows_their_names_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    processes = InMemoryProcesses()
    monkeypatch.setattr(supervisor.runtime, "open_processes", lambda: nullcontext(processes))
    file = tmp_path / "state.db"
    async with supervisor.open(file, agents=[agent()]) as sup:
        session = await sup.create("agent", mcp_servers=[FILES, DOCS], idempotency_key="once")
        await session.prompt("say one")
        again = await sup.create("agent", mcp_servers=[FILES, DOCS], idempotency_key="once")
        assert again == session
    async with supervisor.open(file, agents=[agent()]) as sup:
        session = await sup.get(session.id)
        await session.prompt("say two")
        told = await warnings(session)
        await session.set(mcp_servers=[FILES, DOCS])
        await session.stop()
        await session.prompt("say three")

        assert told == await warnings(session)
        assert told[0].endswith("kept in memory only: files, docs")

    both = ["files", "docs"]
    assert [names(process) for process in processes.all] == [both, [], both]
    stored = b"".join(bytes_of(tmp_path))
    assert b"files" in stored
    assert SECRET.encode() not in stored
    assert SECRET not in caplog.text


async def test_an_imported_session_has_none(tmp_path: Path) -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent", mcp_servers=[FILES])
        await session.prompt("say one")
        text = await session.export("jsonl")
        file = tmp_path / "session.jsonl"
        await trio.Path(file).write_text(text)
        imported = await sup.import_(file)
        await imported.prompt("say two")

        assert SECRET not in text
        assert "kept in memory" not in str(await warnings(imported))


# In memory --------------------------------------------------------------------------------


def of_size(name: str, size: int) -> tuple[dict[str, Any], ...]:
    return ({"name": name, "command": "c" * (size - len(name))},)


def test_the_oldest_are_dropped_when_memory_is_full() -> None:
    given = GivenServers(max_bytes=100)
    for number in range(3):
        given.put(SessionId(f"s_{number}"), of_size("a", 50))

    assert [bool(given.of(SessionId(f"s_{number}"))) for number in range(3)] == [False, True, True]
    assert given.missing(SessionId("s_0"), ["a"]) == ["a"]
    assert given.missing(SessionId("s_1"), ["a"]) == []


def test_what_is_forgotten_takes_no_memory() -> None:
    given = GivenServers(max_bytes=100)
    for number in range(9):
        given.put(SessionId("s_1"), of_size("a", 100))
        given.put(SessionId("s_2"), of_size("b", number))
        given.forget(SessionId("s_2"))

    given.put(SessionId("s_1"), ())
    given.put(SessionId("s_3"), of_size("c", 100))
    assert given.of(SessionId("s_3"))


def test_secrets_of_servers_are_redacted_from_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_covered", ())
    GivenServers().put(
        SessionId("s_1"),
        (
            {
                "name": "docs",
                "command": "/bin/docs",
                "args": [],
                "env": [
                    {"name": "DOCS_TOKEN", "value": "plain words"},
                    {"name": "LANG", "value": "en_GB.UTF-8"},
                ],
            },
            {
                "type": "http",
                "name": "web",
                "url": "http://127.0.0.1/",
                "headers": [{"name": "X-Api-Key", "value": "other words"}],
            },
        ),
    )

    said = redaction.redact("it said: plain words | other words | en_GB.UTF-8")

    assert said == "it said: [redacted] | [redacted] | en_GB.UTF-8"
