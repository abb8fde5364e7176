"""Parts of the runs of real agents: the script of each, the echo server, the proxy, the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.support.agent_table import AgentTable
from tests.support.echo_mcp import server
from tests.support.echo_mcp.over_http import PATH, echo_app
from tests.support.loopback_apps import serve_on_loopback
from tests.support.real_agents import REAL_AGENTS, RealAgent
from tests.support.refusing_proxy import open_refusing_proxy
from tests.support.stand_in_model.script import Call, Say, parse

SPAWN = {"text": "say one\nsay two"}
MESSAGES: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {
        "id": 3,
        "method": "tools/call",
        "params": {"name": "echo_tool", "arguments": {"text": "hi"}},
    },
    {"id": 4, "method": "resources/list"},
]


@pytest.mark.parametrize("agent", REAL_AGENTS, ids=lambda agent: agent.name)
def test_a_script_ends_with_the_tool_and_its_result(agent: RealAgent) -> None:
    steps = parse(agent.script("understudy", ("agents", {}), ("spawn", SPAWN)))

    last = steps[-2]
    assert isinstance(last, Call)
    assert last.arguments.get("arguments", last.arguments) == SPAWN
    assert steps[-1] == Say("the last result: {result}")


@pytest.mark.parametrize("agent", REAL_AGENTS, ids=lambda agent: agent.name)
def test_the_files_of_an_agent_are_in_its_home(agent: RealAgent, tmp_path: Path) -> None:
    environ = agent.configure(tmp_path, "http://127.0.0.1:1")

    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "http://127.0.0.1:1" in written + "".join(environ.values())


def test_the_echo_server_answers_each_request_on_stdio(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in MESSAGES)

    ended = subprocess.run(
        [sys.executable, "-I", "-S", server.__file__, str(tmp_path / "log")],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["id"] for one in answers] == [1, 2, 3, 4]
    assert answers[2]["result"]["content"] == [{"type": "text", "text": "echo: hi"}]
    assert answers[3]["error"]["code"] == -32601
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["hi"]


async def test_the_echo_server_answers_over_http() -> None:
    calls: list[str] = []
    with trio.fail_after(30):
        async with (
            serve_on_loopback(echo_app(calls)) as url,
            httpx.AsyncClient(base_url=url, trust_env=False) as http,
        ):
            answers = [await http.post(PATH, json={"jsonrpc": "2.0", **one}) for one in MESSAGES]

    assert [one.status_code for one in answers] == [200, 202, 200, 200, 200]
    assert calls == ["hi"]


async def test_the_proxy_refuses_and_records() -> None:
    with trio.fail_after(30):
        async with (
            open_refusing_proxy() as proxy,
            httpx.AsyncClient(proxy=proxy.url, trust_env=False) as http,
        ):
            with pytest.raises(httpx.ProxyError, match="403"):
                await http.get("https://example.org/")

    assert proxy.wanted == ["CONNECT example.org:443 HTTP/1.1"]


def test_the_table_has_a_row_for_each_agent() -> None:
    table = AgentTable()
    table.set("one", "stdio", "yes")
    table.set("two", "version", "1.0")
    table.add("one", "calls our tools", "http")
    table.add("one", "calls our tools", "stdio")

    assert table.lines()[2:] == [
        "| one | - | yes | - | stdio, http | - | - | - |",
        "| two | 1.0 | - | - | - | - | - | - |",
    ]


def test_a_table_without_a_run_has_no_lines() -> None:
    assert AgentTable().lines() == []
