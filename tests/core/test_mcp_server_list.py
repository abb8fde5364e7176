"""Check of MCP servers that a caller gives to a session."""

from __future__ import annotations

import pytest

from supervisor.core.errors import ConfigError
from supervisor.core.mcp_server_list import MAX_SERVERS, MAX_SERVERS_BYTES, check_mcp_servers

FILES = {"name": "files", "command": "/bin/mcp"}
SECRET = "hunter2-token"  # noqa: S105 - of the test


def test_servers_get_the_fields_of_the_protocol() -> None:
    near = {**FILES, "args": ["-v"], "env": {"KEY": "$value"}, "other": 1}
    far = {"name": "docs", "url": "https://a.example", "headers": [{"name": "X", "value": ""}]}

    assert check_mcp_servers([near, far]) == (
        {
            "name": "files",
            "command": "/bin/mcp",
            "args": ["-v"],
            "env": [{"name": "KEY", "value": "$value"}],
        },
        {
            "type": "http",
            "name": "docs",
            "url": "https://a.example",
            "headers": [{"name": "X", "value": ""}],
        },
    )


def test_checked_servers_stay_the_same() -> None:
    checked = check_mcp_servers([{**FILES, "type": "stdio"}])
    assert check_mcp_servers(checked) == checked


@pytest.mark.parametrize(
    "servers",
    [
        None,
        "files",
        {"files": FILES},
        [SECRET],
        [{"command": "/bin/mcp"}],
        [{"name": "files"}],
        [{"name": "", "command": "/bin/mcp"}],
        [{**FILES, "name": "understudy"}],
        [FILES, FILES],
        [{**FILES, "type": "acp"}],
        [{"name": "docs", "type": "acp", "url": "https://a.example"}],
        [{**FILES, "command": "\0"}],
        [{**FILES, "args": [1]}],
        [{**FILES, "args": SECRET}],
        [{**FILES, "env": SECRET}],
        [{**FILES, "env": [SECRET]}],
        [{**FILES, "env": [{"name": "KEY", "value": [SECRET]}]}],
        [{**FILES, "env": [{"value": SECRET}]}],
        [{**FILES, "env": {"KEY": SECRET + "\ud800"}}],
        [{"name": f"n{number}", "command": "c"} for number in range(MAX_SERVERS + 1)],
        [{**FILES, "env": {"KEY": SECRET * MAX_SERVERS_BYTES}}],
    ],
)
def test_an_invalid_server_is_refused_without_its_values(servers: object) -> None:
    with pytest.raises(ConfigError) as refused:
        check_mcp_servers(servers)

    assert SECRET not in str(refused.value) + refused.value.hint
