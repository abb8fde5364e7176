"""Capabilities of the client and of agents; see acp/capabilities.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.capabilities import (
    AgentCapabilities,
    AuthMethod,
    client_capabilities,
    initialize_params,
    session_params,
)
from tests.support.acp_schema import assert_valid
from tests.support.driver_context import FakeDriverContext

ANYTHING = Permissions()
HTTP_TOO = AgentCapabilities(mcp_http=True)
HTTP = {"name": "docs", "url": "https://mcp.example/", "headers": {"X-Key": "k"}}
SSE = {"type": "sse", "name": "old", "url": "https://mcp.example/sse"}
STDIO = {"name": "files", "command": "/bin/mcp", "args": ["-v"], "env": {"A": "b"}}


def offered(
    permissions: Permissions = ANYTHING, workspace: str | None = "/w"
) -> tuple[bool, bool, bool]:
    """Return whether reading, writing and terminals are offered."""
    context = FakeDriverContext(workspace=workspace, permissions=permissions)
    can = client_capabilities(context)
    return can["fs"]["readTextFile"], can["fs"]["writeTextFile"], can["terminal"]


def servers(
    *given_: dict[str, Any],
    permissions: Permissions = ANYTHING,
    offers: AgentCapabilities = HTTP_TOO,
) -> list[dict[str, Any]]:
    context = FakeDriverContext(permissions=permissions)
    params = session_params(context, offers, cwd="/w", mcp_servers=given_)
    assert_valid({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}, "client")
    found: list[dict[str, Any]] = params["mcpServers"]
    return found


# Of the client ----------------------------------------------------------------------------


def test_with_a_workspace_files_and_terminals_are_offered() -> None:
    assert offered() == (True, True, True)


@pytest.mark.parametrize(
    "permissions",
    [Permissions(mode="deny_all"), Permissions(tools=[]), Permissions(workspace_paths=[])],
)
def test_without_permission_nothing_is_offered(permissions: Permissions) -> None:
    assert offered(permissions) == (False, False, False)


def test_without_a_workspace_nothing_is_offered() -> None:
    assert offered(workspace=None) == (False, False, False)


def test_only_listed_tools_are_offered() -> None:
    assert offered(Permissions(tools=["read"])) == (True, False, False)
    assert offered(Permissions(tools=["edit"])) == (False, True, False)
    assert offered(Permissions(tools=["execute", "bash"])) == (False, False, True)


def test_initialize_params_match_the_protocol_schema() -> None:
    params = initialize_params(FakeDriverContext(workspace="/w"))

    assert_valid({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, "client")
    assert (params["protocolVersion"], params["clientInfo"]["name"]) == (1, "understudy")


def test_mcp_servers_are_normalized_to_the_protocol() -> None:
    assert servers(STDIO, HTTP) == [
        {
            "name": "files",
            "command": "/bin/mcp",
            "args": ["-v"],
            "env": [{"name": "A", "value": "b"}],
        },
        {
            "type": "http",
            "name": "docs",
            "url": "https://mcp.example/",
            "headers": [{"name": "X-Key", "value": "k"}],
        },
    ]


def test_optional_fields_of_mcp_servers_are_filled_in() -> None:
    assert servers({"name": "a", "command": "/bin/a"}) == [
        {"name": "a", "command": "/bin/a", "args": [], "env": []}
    ]


def test_normalized_mcp_servers_are_unchanged() -> None:
    env = [{"name": "A", "value": "b"}]

    assert servers({**STDIO, "env": env})[0]["env"] == env


def test_an_agent_gets_only_mcp_servers_that_it_supports() -> None:
    def names(offers: AgentCapabilities) -> list[str]:
        return [server["name"] for server in servers(STDIO, HTTP, SSE, offers=offers)]

    assert names(AgentCapabilities()) == ["files"]
    assert names(AgentCapabilities(mcp_http=True)) == ["files", "docs"]
    assert names(AgentCapabilities(mcp_sse=True)) == ["files", "old"]


def test_a_session_gets_only_permitted_mcp_servers() -> None:
    rights = Permissions(mcp_servers=["docs"])

    assert [server["name"] for server in servers(STDIO, HTTP, permissions=rights)] == ["docs"]


# Of the agent -----------------------------------------------------------------------------


def test_agent_capabilities_are_parsed() -> None:
    offers = AgentCapabilities.parse(
        {
            "protocolVersion": 1,
            "agentInfo": {"name": "coder", "title": "Coder", "version": "2.6"},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True},
                "sessionCapabilities": {"resume": {}, "close": {}, "list": {}},
            },
            "authMethods": [{"id": "key", "name": "API key", "description": "from a file"}],
            "_meta": {"steering": {"supported": True}},
        }
    )

    assert offers == AgentCapabilities(
        protocol_version=1,
        name="coder",
        version="2.6",
        auth_methods=(AuthMethod("key", "API key", "from a file"),),
        can_load=True,
        can_resume=True,
        can_close=True,
        can_steer=True,
        takes_images=True,
        takes_embedded_context=True,
        mcp_http=True,
    )
    assert offers.is_supported_version


def test_absent_agent_capabilities_are_false() -> None:
    assert AgentCapabilities.parse({"protocolVersion": 1}) == AgentCapabilities(protocol_version=1)


@pytest.mark.parametrize("version", [None, 2, 0, "1", 1.5, True, -1])
def test_another_protocol_version_is_not_supported(version: object) -> None:
    assert not AgentCapabilities.parse({"protocolVersion": version}).is_supported_version


def test_malformed_agent_capabilities_are_absent() -> None:
    offers = AgentCapabilities.parse(
        {
            "agentCapabilities": {
                "loadSession": "yes",
                "sessionCapabilities": {"resume": None, "close": False},
                "promptCapabilities": ["image"],
            },
            "authMethods": [None, {}, {"id": ""}, {"id": "a"}, {"id": 5}],
            "agentInfo": "coder",
            "_meta": {"steering": True},
        }
    )

    assert offers == AgentCapabilities(auth_methods=(AuthMethod("a", "a"),))


any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("protocolVersion", "agentInfo", "name", "version", "agentCapabilities"),
                    *("loadSession", "sessionCapabilities", "resume", "authMethods", "id"),
                    *("_meta", "steering", "supported", "promptCapabilities", "image"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(any_json)
def test_any_answer_to_initialize_is_parsed(answer: object) -> None:
    AgentCapabilities.parse(answer)
