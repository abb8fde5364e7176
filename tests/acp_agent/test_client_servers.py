"""MCP servers of an editor: passed on to the agent, renamed, left out, refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

import supervisor
from supervisor.acp_agent.client_servers import client_servers
from supervisor.core.errors import ConfigError
from supervisor.drivers.acp.agent import scripted_process
from supervisor.json_rpc.rpc_messages import RpcError
from tests.support.acp_editor import Editor, Refused, editing
from tests.support.acp_supervisor import open_acp_supervisor

INVALID_PARAMS = -32602
SECRET = "hunter2-token"  # noqa: S105 - of the test
FILES = {
    "name": "files",
    "command": "/bin/mcp",
    "args": [],
    "env": [{"name": "KEY", "value": SECRET}],
}
DOCS = {"type": "http", "name": "docs", "url": "https://mcp.example/", "headers": []}


@pytest.fixture
async def sup() -> AsyncIterator[supervisor.Supervisor]:
    agents = [
        attrs.evolve(scripted_process(name, ("--load", "--mcp")), tools="off")
        for name in ("agent", "second")
    ]
    async with open_acp_supervisor(*agents) as (opened, _):
        yield opened


@pytest.fixture
async def editor(sup: supervisor.Supervisor) -> AsyncIterator[Editor]:
    async with editing(sup, agent="agent") as found:
        await found.start(session={"notices": {}})
        yield found


async def opened(editor: Editor, *servers: dict[str, Any]) -> str:
    answer = await editor.call("session/new", cwd="/", mcpServers=list(servers))
    session: str = answer["sessionId"]
    return session


async def servers_of(editor: Editor, session: str) -> str:
    """Return the names of the servers that the agent of the session has."""
    told = len(editor.text())
    await editor.prompt(session, "servers")
    return editor.text()[told:].strip().removeprefix("servers: ")


async def test_the_agent_gets_the_servers(editor: Editor) -> None:
    assert await servers_of(editor, await opened(editor, FILES, DOCS)) == "files, docs"


async def test_another_agent_gets_them_too(editor: Editor) -> None:
    session = await opened(editor, FILES)
    await editor.call(
        "session/set_config_option", sessionId=session, configId="understudy.agent", value="second"
    )

    assert await servers_of(editor, session) == "files"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_is_opened_again_gets_others_from_the_next_start(
    sup: supervisor.Supervisor, editor: Editor, method: str
) -> None:
    session = await opened(editor, FILES)
    async with editing(sup) as other:
        await other.start(session={"notices": {}})
        await other.call(method, sessionId=session, cwd="/", mcpServers=[DOCS])
        await other.until(lambda: other.updates("notice"))
        (told,) = other.updates("notice")
        assert (told["severity"], told["description"]) == ("info", "docs")
        assert await servers_of(other, session) == "files"
        await sup.session(session).stop()

        assert await servers_of(other, session) == "docs"


async def test_one_without_servers_changes_nothing(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await opened(editor, FILES)
    await sup.session(session).stop()
    await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])

    assert await servers_of(editor, session) == "files"


async def test_an_archived_session_is_read_with_servers(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await opened(editor)
    await editor.prompt(session, "say hello")
    await sup.session(session).stop()
    await sup.session(session).archive()
    await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[FILES])

    assert editor.text() == "hellohello"


async def test_a_server_with_our_name_gets_another(editor: Editor) -> None:
    mine = {**FILES, "name": "understudy"}
    session = await opened(editor, mine, {**FILES, "name": "understudy-2"})
    await editor.until(lambda: editor.updates("notice"))

    assert "understudy-3" in editor.updates("notice")[0]["description"]
    assert await servers_of(editor, session) == "understudy-3, understudy-2"


async def test_a_server_of_an_unknown_type_is_left_out(editor: Editor) -> None:
    session = await opened(editor, {"type": "acp", "name": "near", "id": "1"}, FILES)
    await editor.until(lambda: editor.updates("notice"))

    assert editor.updates("notice")[0]["description"].startswith("near: ")
    assert await servers_of(editor, session) == "files"


@pytest.mark.parametrize(
    "servers", ["files", [SECRET], [{"name": "files", "env": SECRET}], [FILES, FILES]]
)
async def test_invalid_servers_are_refused_without_their_values(
    sup: supervisor.Supervisor, editor: Editor, servers: object
) -> None:
    with pytest.raises(Refused) as refused:
        await editor.call("session/new", cwd="/", mcpServers=servers)

    assert refused.value.code == INVALID_PARAMS
    assert SECRET not in str(refused.value) + str(refused.value.data)
    assert (await sup.list()).items == ()


def test_values_are_in_no_representation() -> None:
    assert SECRET not in repr(client_servers({"mcpServers": [FILES]}))


def test_their_meta_data_is_not_passed_on() -> None:
    (server,) = client_servers({"mcpServers": [{**FILES, "_meta": {"a": 1}}]}).servers
    assert server == FILES


def test_a_request_without_servers_has_none() -> None:
    assert client_servers({}).servers == ()
    with pytest.raises((RpcError, ConfigError)):
        client_servers({"mcpServers": None})
