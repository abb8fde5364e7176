"""A session token counts where its agent was given the tools, and nowhere else."""

from pathlib import Path
from typing import Any, cast

import pytest

from supervisor.core.ids import SessionId
from supervisor.drivers.agent_tools import ToolsRequest, ToolsTransport
from supervisor.drivers.identity import ProcessIdentity
from supervisor.http_server.peer import PEER_GUARDIANS
from supervisor.http_server.problems import RequestRefused
from supervisor.mcp_server import hand_over
from supervisor.mcp_server.hand_over import ToolsHandOver
from supervisor.mcp_server.tokens import SessionTokens
from supervisor.mcp_server.tools_socket import ToolsSocket

ONE = SessionId("s_one")
AGENT = ProcessIdentity(pid=7, start_time=70, boot_id="boot")
GUARDIAN = ProcessIdentity(pid=6, start_time=60, boot_id="boot")


class OpenSocket:
    async def open(self) -> Path:
        return Path("/run/tools.sock")


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> ToolsHandOver:
    monkeypatch.setattr(hand_over, "guardian_of", lambda _: GUARDIAN)
    monkeypatch.setattr(hand_over, "has_peer_credentials", lambda: True)
    made = ToolsHandOver(SessionTokens(lambda _: 3), cast(ToolsSocket, OpenSocket()))
    made.http_url = "http://127.0.0.1:8791/mcp"
    return made


async def token_for(handed: ToolsHandOver, transport: ToolsTransport) -> str:
    wanted = ToolsRequest(session_id=ONE, epoch=3, process=AGENT, transport=transport)
    server = await handed.server_for(wanted)
    if transport == "http":
        return str(server["headers"]["Authorization"]).removeprefix("Bearer ")
    return str(server["env"]["UNDERSTUDY_SESSION_TOKEN"])


def request(token: str, **state: Any) -> dict[str, Any]:  # noqa: ANN401 - the state of a scope
    return {"headers": [(b"authorization", f"Bearer {token}".encode())], "state": state}


def over_socket(token: str, *guardians: ProcessIdentity) -> dict[str, Any]:
    return request(token, **{PEER_GUARDIANS: frozenset(guardians)})


async def test_a_token_for_the_bridge_counts_inside_the_containment_only(
    handed: ToolsHandOver,
) -> None:
    token = await token_for(handed, "stdio")

    assert handed.authenticate(over_socket(token, GUARDIAN)).session_id == ONE
    with pytest.raises(RequestRefused, match="processes of its agent"):
        handed.authenticate(over_socket(token))


async def test_a_token_for_the_bridge_does_not_count_over_tcp(handed: ToolsHandOver) -> None:
    token = await token_for(handed, "stdio")

    with pytest.raises(RequestRefused, match="wrong or no longer valid"):
        handed.authenticate(request(token))


async def test_a_token_for_http_counts_over_tcp_until_its_agent_has_exited(
    handed: ToolsHandOver,
) -> None:
    token = await token_for(handed, "http")

    assert handed.authenticate(request(token)).session_id == ONE
    handed.forget(ONE, AGENT)
    with pytest.raises(RequestRefused):
        handed.authenticate(request(token))
