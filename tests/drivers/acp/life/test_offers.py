"""What we offer an agent, and what it offers us; see acp/offers.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.life.offers import (
    AgentOffers,
    AuthMethod,
    client_capabilities,
    initialize_params,
    session_params,
)
from tests.drivers.acp.schema import assert_valid
from tests.drivers.office import StandInOffice

ANYTHING = Permissions()
HTTP_TOO = AgentOffers(mcp_http=True)
HTTP = {"name": "docs", "url": "https://mcp.example/", "headers": {"X-Key": "k"}}
SSE = {"type": "sse", "name": "old", "url": "https://mcp.example/sse"}
STDIO = {"name": "files", "command": "/bin/mcp", "args": ["-v"], "env": {"A": "b"}}


def offered(
    permissions: Permissions = ANYTHING, workspace: str | None = "/w"
) -> tuple[bool, bool, bool]:
    """Whether reading, writing and terminals are offered."""
    office = StandInOffice(workspace=workspace, permissions=permissions)
    can = client_capabilities(office)
    return can["fs"]["readTextFile"], can["fs"]["writeTextFile"], can["terminal"]


def servers(
    *given_: dict[str, Any],
    permissions: Permissions = ANYTHING,
    offers: AgentOffers = HTTP_TOO,
) -> list[dict[str, Any]]:
    office = StandInOffice(permissions=permissions)
    params = session_params(office, offers, cwd="/w", mcp_servers=given_)
    assert_valid({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}, "client")
    found: list[dict[str, Any]] = params["mcpServers"]
    return found


# Ours -------------------------------------------------------------------------------------


def test_with_a_workspace_files_and_terminals_are_offered() -> None:
    assert offered() == (True, True, True)


@pytest.mark.parametrize(
    "permissions",
    [Permissions(mode="deny_all"), Permissions(tools=[]), Permissions(workspace_paths=[])],
)
def test_without_a_right_nothing_is_offered(permissions: Permissions) -> None:
    assert offered(permissions) == (False, False, False)


def test_without_a_workspace_nothing_is_offered() -> None:
    assert offered(workspace=None) == (False, False, False)


def test_what_is_on_the_list_of_tools_is_offered() -> None:
    assert offered(Permissions(tools=["read"])) == (True, False, False)
    assert offered(Permissions(tools=["edit"])) == (False, True, False)
    assert offered(Permissions(tools=["execute", "bash"])) == (False, False, True)


def test_the_first_message_is_one_of_the_protocol() -> None:
    params = initialize_params(StandInOffice(workspace="/w"))

    assert_valid({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, "client")
    assert (params["protocolVersion"], params["clientInfo"]["name"]) == (1, "understudy")


def test_servers_are_put_in_the_form_of_the_protocol() -> None:
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


def test_what_may_be_left_out_is_put_in() -> None:
    assert servers({"name": "a", "command": "/bin/a"}) == [
        {"name": "a", "command": "/bin/a", "args": [], "env": []}
    ]


def test_servers_in_the_form_of_the_protocol_stay_as_they_are() -> None:
    env = [{"name": "A", "value": "b"}]

    assert servers({**STDIO, "env": env})[0]["env"] == env


def test_an_agent_gets_only_servers_that_it_can_reach() -> None:
    def names(offers: AgentOffers) -> list[str]:
        return [server["name"] for server in servers(STDIO, HTTP, SSE, offers=offers)]

    assert names(AgentOffers()) == ["files"]
    assert names(AgentOffers(mcp_http=True)) == ["files", "docs"]
    assert names(AgentOffers(mcp_sse=True)) == ["files", "old"]


def test_a_session_gets_only_servers_that_it_has_a_right_to() -> None:
    rights = Permissions(mcp_servers=["docs"])

    assert [server["name"] for server in servers(STDIO, HTTP, permissions=rights)] == ["docs"]


# Theirs -----------------------------------------------------------------------------------


def test_what_an_agent_offers_is_understood() -> None:
    offers = AgentOffers.parse(
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

    assert offers == AgentOffers(
        protocol_version=1,
        name="coder",
        version="2.6",
        auth_methods=(AuthMethod("key", "API key", "from a file"),),
        loads=True,
        resumes=True,
        closes=True,
        steers=True,
        images=True,
        embedded_context=True,
        mcp_http=True,
    )
    assert offers.is_understood


def test_what_an_agent_does_not_say_it_cannot_do() -> None:
    assert AgentOffers.parse({"protocolVersion": 1}) == AgentOffers(protocol_version=1)


@pytest.mark.parametrize("version", [None, 2, 0, "1", 1.5, True, -1])
def test_another_version_is_not_understood(version: object) -> None:
    assert not AgentOffers.parse({"protocolVersion": version}).is_understood


def test_what_is_said_wrongly_is_not_said() -> None:
    offers = AgentOffers.parse(
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

    assert offers == AgentOffers(auth_methods=(AuthMethod("a", "a"),))


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
def test_every_answer_is_read(answer: object) -> None:
    AgentOffers.parse(answer)
