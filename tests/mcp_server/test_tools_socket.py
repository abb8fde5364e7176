"""The socket of agents: who is admitted, to what, and when it is open."""

from __future__ import annotations

import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import trio

from supervisor.core.ids import SessionId
from supervisor.drivers.agent_tools import ToolsRequest, ToolsTransport, ToolsUnavailable
from supervisor.drivers.process.contained import ContainedProcess, open_processes
from supervisor.mcp_server import bridge
from supervisor.mcp_server.tools_service import ToolsService
from tests.support.fake_toolbox import FakeToolbox
from tests.support.mcp_messages import request
from tests.support.process_programs import Lines, python, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs credentials of peers")

SESSION: Final = SessionId("ses_0a1b2c3d4e5f")
OTHER: Final = SessionId("ses_zzzzzzzzzzzz")
# Sends the requests that it reads, each with the socket and the headers in a line, and says the
# status and the body.
CLIENT = """
import json, socket
for line in sys.stdin:
    path, url, headers, body = json.loads(line)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\\r\\n".join([f"POST {url} HTTP/1.0", f"content-length: {len(body)}", *lines, "", ""])
    connection.sendall((head + body).encode())
    answer = b""
    while data := connection.recv(65536):
        answer += data
    head, _, body = answer.partition(b"\\r\\n\\r\\n")
    say(head.split()[1].decode(), body.decode())
"""


class Stand:
    """A service, without a supervisor, in which sessions have the epochs of `epochs`."""

    def __init__(self, nursery: trio.Nursery, path: Path | None) -> None:
        self.toolbox = FakeToolbox()
        self.epochs: dict[str, int] = {SESSION: 1, OTHER: 1}
        self.service = ToolsService(
            lambda: self.toolbox,
            epoch_of=self.epochs.get,
            start_soon=nursery.start_soon,
            socket_path=path,
        )

    async def hand_over(
        self,
        process: ContainedProcess,
        session: SessionId = SESSION,
        transport: ToolsTransport = "stdio",
    ) -> Any:  # noqa: ANN401 - any JSON
        return await self.service.hand_over.server_for(
            ToolsRequest(
                session_id=session,
                epoch=self.epochs[session],
                process=process.identity,
                transport=transport,
            )
        )


class Client:
    """A process in a containment of its own, which sends requests."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        # What it got as the agent of a session.
        self.path = self.token = ""

    @property
    def process(self) -> ContainedProcess:
        return self.lines.process

    async def be_agent_of(self, stand: Stand, session: SessionId = SESSION) -> None:
        env = (await stand.hand_over(self.process, session))["env"]
        self.path, self.token = env[bridge.SOCKET_VARIABLE], env[bridge.TOKEN_VARIABLE]

    async def ask(
        self, token: str | None = None, *, path: str = "", url: str = "/mcp", **more: str
    ) -> tuple[int, Any]:
        """Call the tool echo; return the status and the body."""
        headers = {"host": "localhost", "content-type": "application/json", **more}
        token = self.token if token is None else token
        if token:
            headers["authorization"] = f"Bearer {token}"
        body = orjson.dumps(request("tools/call", {"name": "echo"})).decode()
        line = orjson.dumps([path or self.path, url, headers, body])
        await self.process.send(line + b"\n")
        status, _, answer = (await self.lines.next()).partition(" ")
        return int(status), orjson.loads(answer)

    async def refusal(self, token: str | None = None, **more: Any) -> tuple[int, str]:  # noqa: ANN401 - as ask
        status, answer = await self.ask(token, **more)
        return status, answer["code"]


@asynccontextmanager
async def clients(count: int) -> AsyncIterator[list[Client]]:
    async with open_processes() as processes, trio.open_nursery() as nursery:
        found: list[Client] = []

        async def run(task_status: trio.TaskStatus[None]) -> None:
            async with running(processes, python(CLIENT)) as lines:
                found.append(Client(lines))
                task_status.started()
                await trio.sleep_forever()

        for _ in range(count):
            await nursery.start(run)
        yield found
        nursery.cancel_scope.cancel()


@pytest.fixture
def stand(nursery: trio.Nursery, tmp_path: Path) -> Stand:
    return Stand(nursery, tmp_path / "tools.sock")


async def test_the_agent_of_a_session_calls_its_tools(stand: Stand) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)
        status, answer = await agent.ask()

    assert (status, answer["result"]["isError"]) == (200, False)
    ((_, _, caller),) = stand.toolbox.calls
    assert (caller.session_id, caller.scope) == (SESSION, "self")


async def test_only_its_owner_can_reach_the_socket(stand: Stand) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)

        found = await trio.Path(agent.path).stat()
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert agent.path.endswith("/tools.sock")


@pytest.mark.parametrize(
    "token", ["", "x", "ust-1.ses_0a1b2c3d4e5f.1.self.AAAAAAAAAAAAAAAAAAAAAAAA"]
)
async def test_without_the_right_token_there_are_no_tools(stand: Stand, token: str) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)

        assert await agent.refusal(token) == (401, "unauthorized")


async def test_a_token_counts_in_no_other_containment(stand: Stand) -> None:
    async with clients(2) as (agent, thief):
        await agent.be_agent_of(stand)
        await thief.be_agent_of(stand, OTHER)

        assert await thief.refusal(agent.token) == (403, "forbidden_peer")
        assert (await thief.ask())[0] == 200
    assert [caller.session_id for _, _, caller in stand.toolbox.calls] == [OTHER]


async def test_a_token_counts_for_no_process_outside_of_containments(
    stand: Stand, nursery: trio.Nursery
) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)
        head = (
            "POST /mcp HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {agent.token}\r\ncontent-length: 2\r\n\r\n{{}}"
        )
        async with await trio.open_unix_socket(agent.path) as stream:
            await stream.send_all(head.encode())
            answer = b"".join([chunk async for chunk in stream])

    assert answer.startswith(b"HTTP/1.1 403")
    assert b'"forbidden_peer"' in answer


async def test_a_token_ends_with_the_epoch_the_session_and_the_agent(stand: Stand) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)
        stand.epochs[SESSION] = 2
        assert await agent.refusal() == (401, "unauthorized")

        await agent.be_agent_of(stand)
        assert (await agent.ask())[0] == 200
        del stand.epochs[SESSION]
        assert await agent.refusal() == (401, "unauthorized")

        stand.epochs[SESSION] = 2
        assert (await agent.ask())[0] == 200
        stand.service.hand_over.forget(SESSION, agent.process.identity)
        assert await agent.refusal() == (401, "unauthorized")


async def test_the_end_of_an_earlier_agent_leaves_the_later_one_its_access(stand: Stand) -> None:
    async with clients(2) as (earlier, later):
        await earlier.be_agent_of(stand)
        await later.be_agent_of(stand)
        stand.service.hand_over.forget(SESSION, earlier.process.identity)

        assert (await later.ask())[0] == 200
        assert await earlier.refusal(later.token) == (403, "forbidden_peer")


@pytest.mark.parametrize(
    ("url", "code"),
    [("/v1/sessions", "no_such_route"), ("/", "no_such_route"), ("/mcp/", "no_such_route")],
)
async def test_the_socket_serves_nothing_else(stand: Stand, url: str, code: str) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)

        assert await agent.refusal(url=url) == (404, code)


async def test_a_web_page_and_another_host_are_refused(stand: Stand) -> None:
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)

        assert await agent.refusal(host="evil.example") == (403, "forbidden_host")
        assert await agent.refusal(origin="http://localhost") == (403, "forbidden_origin")


async def test_a_socket_without_a_path_is_in_a_private_folder_that_goes_with_it(
    nursery: trio.Nursery,
) -> None:
    async with trio.open_nursery() as inner:
        stand = Stand(inner, None)
        async with clients(1) as (agent,):
            await agent.be_agent_of(stand)
            folder = trio.Path(agent.path).parent

            assert stat.S_IMODE((await folder.stat()).st_mode) == 0o700
            assert (await agent.ask())[0] == 200
        inner.cancel_scope.cancel()

    assert not await folder.exists()


async def test_a_path_that_is_too_long_is_replaced(nursery: trio.Nursery, tmp_path: Path) -> None:
    stand = Stand(nursery, tmp_path / ("x" * 100) / "tools.sock")
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)

        assert (await agent.ask())[0] == 200


async def test_the_socket_of_a_dead_supervisor_is_replaced(stand: Stand, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "tools.sock"))
    async with clients(1) as (agent,):
        await agent.be_agent_of(stand)

        assert (await agent.ask())[0] == 200


async def test_a_socket_that_cannot_be_opened_costs_the_tools_and_is_tried_again(
    stand: Stand, tmp_path: Path
) -> None:
    (tmp_path / "tools.sock").write_text("in the way")
    async with clients(1) as (agent,):
        with pytest.raises(ToolsUnavailable, match="is not a socket"):
            await agent.be_agent_of(stand)
        (tmp_path / "tools.sock").unlink()
        await agent.be_agent_of(stand)

        assert (await agent.ask())[0] == 200


async def test_the_token_is_in_no_command_line(stand: Stand) -> None:
    async with clients(1) as (agent,):
        server = await stand.hand_over(agent.process)

    assert server["name"] == "understudy"
    assert server["args"][:2] == ["-I", "-S"]
    assert "ust-1." not in str([server["command"], *server["args"]])
    assert "ust-1." in server["env"][bridge.TOKEN_VARIABLE]


async def test_over_http_the_token_is_a_header(stand: Stand) -> None:
    async with clients(1) as (agent,):
        with pytest.raises(ToolsUnavailable, match=r"daemon\.tcp_port"):
            await stand.hand_over(agent.process, transport="http")
        stand.service.hand_over.http_url = "http://127.0.0.1:8700/mcp"
        server = await stand.hand_over(agent.process, transport="http")

    assert (server["type"], server["url"]) == ("http", "http://127.0.0.1:8700/mcp")
    assert server["headers"]["Authorization"].startswith("Bearer ust-1.")
