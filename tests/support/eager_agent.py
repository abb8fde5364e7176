"""A small ACP agent that asks its MCP servers for their tools when a session begins.

It is run with -I -S and answers nothing but the handshake. The scripted agent asks in a turn only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["method"] == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": True}}}
    for server in request["params"].get("mcpServers", []):
        list_tools(server)
    return {"sessionId": "eager-1"}


def list_tools(server: dict[str, Any]) -> None:
    if server.get("type") == "http":
        headers = {one["name"]: one["value"] for one in server["headers"]}
        headers["content-type"] = "application/json"
        url = urlsplit(server["url"])
        connection = HTTPConnection(url.netloc)
        connection.request("POST", url.path, json.dumps(LIST), headers)
        connection.getresponse().read()
        return
    subprocess.run(
        [server["command"], *server["args"]],
        input=json.dumps(LIST).encode() + b"\n",
        env={one["name"]: one["value"] for one in server["env"]},
        stdout=subprocess.DEVNULL,
        check=True,
    )


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
