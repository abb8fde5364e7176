"""Many calls at once over the socket of agents: limits are exact."""

from __future__ import annotations

import sys
from collections import Counter

import orjson
import pytest

import supervisor
from supervisor.drivers.agent_tools import ToolsRequest
from supervisor.drivers.process.contained import open_processes
from supervisor.mcp_server import bridge
from supervisor.runtime import open_with_tools
from tests.support.process_programs import python, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs credentials of peers")

CALLS = 50
MAX_CHILDREN = 8
# Calls `spawn` from as many threads, and says the answers.
PROGRAM = """
import json, socket, threading
path, token, count = json.loads(sys.stdin.readline())
answers, together = [], threading.Barrier(count)

def spawn(number):
    params = {"name": "spawn", "arguments": {"agent": "scripted", "text": "sleep 1000"}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    body = json.dumps(message)
    head = "\\r\\n".join([
        "POST /mcp HTTP/1.0", "host: localhost", "content-type: application/json",
        f"authorization: Bearer {token}", f"content-length: {len(body)}", "", "",
    ])
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    together.wait()
    connection.sendall((head + body).encode())
    answer = b""
    while data := connection.recv(65536):
        answer += data
    answers.append(json.loads(answer.partition(b"\\r\\n\\r\\n")[2]))

threads = [threading.Thread(target=spawn, args=(number,)) for number in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
say(json.dumps(answers))
sleep()
"""


async def test_fifty_spawns_at_once_make_as_many_children_as_the_limit_allows() -> None:
    settings = supervisor.Settings(exit_seconds=0.0)
    async with (
        open_with_tools(":memory:", settings=settings) as (sup, tools),
        open_processes() as processes,
        running(processes, python(PROGRAM)) as lines,
    ):
        limits = supervisor.Limits(max_children=MAX_CHILDREN)
        parent = await sup.create("scripted", limits=limits)
        await parent.send("sleep 1000")
        epoch = sup.introspect().epoch_of(parent.id)
        assert epoch is not None
        # The program stands for the agent of the session, which runs in this process.
        wanted = ToolsRequest(
            session_id=parent.id,
            epoch=epoch,
            process=lines.process.identity,
            transport="stdio",
        )
        env = (await tools.hand_over.server_for(wanted))["env"]
        given = [env[bridge.SOCKET_VARIABLE], env[bridge.TOKEN_VARIABLE], CALLS]
        await lines.process.send(orjson.dumps(given) + b"\n")
        answers = orjson.loads(await lines.next())

        results = [answer["result"] for answer in answers]
        codes = Counter(one["structuredContent"].get("code", "spawned") for one in results)
        (tree,) = await sup.tree(parent.id)
    assert len(results) == CALLS
    assert codes["spawned"] == len(tree.children) == MAX_CHILDREN
    assert codes.keys() <= {"spawned", "spawn_refused", "too_many_calls"}
