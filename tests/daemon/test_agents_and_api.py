"""The API is not for agents: its socket refuses their processes, unless a setting says so."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
import pytest

from supervisor.drivers.process.contained import ContainedProcesses, open_processes
from tests.support.daemon_in_process import Home, running
from tests.support.process_programs import output_of, python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs credentials of peers")

# Connects, and says the status and the body of the answer.
REQUEST = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["SOCKET"])
connection.sendall(b"GET /v1/agents HTTP/1.0\\r\\nhost: localhost\\r\\n\\r\\n")
answer = b""
while data := connection.recv(65536):
    answer += data
head, _, body = answer.partition(b"\\r\\n\\r\\n")
say(head.split()[1].decode(), body.decode())
"""


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write("[settings]\nexit_seconds = 0.1")
    return made


async def request_of_an_agent(home: Home, processes: ContainedProcesses) -> tuple[int, str]:
    """Send a request from a containment; return its status and the code of a refusal."""
    said = await output_of(processes, python(REQUEST, {"SOCKET": str(home.socket)}))
    status, _, body = said.partition(" ")
    return int(status), orjson.loads(body).get("code", "")


async def test_a_process_of_an_agent_is_refused_by_the_socket_of_the_api(home: Home) -> None:
    async with running(home) as daemon, open_processes() as processes:
        assert await request_of_an_agent(home, processes) == (403, "forbidden_peer")
        assert (await daemon.remote.stats()).sessions == 0  # the person beside it is not


async def test_the_setting_applies_to_the_next_request(home: Home) -> None:
    async with running(home) as daemon, open_processes() as processes:
        home.write("[settings]\nexit_seconds = 0.1\n[daemon]\nagents_may_use_api = true")
        said = await daemon.remote.reload()

        assert said.settings == ("daemon.agents_may_use_api",)
        assert await request_of_an_agent(home, processes) == (200, "")

        home.write("[settings]\nexit_seconds = 0.1")
        await daemon.remote.reload()

        assert await request_of_an_agent(home, processes) == (403, "forbidden_peer")
