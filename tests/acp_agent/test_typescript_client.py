"""The client of the official TypeScript SDK, and the newest published schema.

`nox -s conformance_acp` installs the SDK and names its folder; without it these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.acp_editor_process import PATIENCE_SECONDS, command_of, environ_of
from tests.support.daemon_in_process import Home
from tests.support.daemon_process import AGENTS, daemon

jsonschema: Any = pytest.importorskip("jsonschema")  # without types

NODE = shutil.which("node")
SDK = os.environ.get("UNDERSTUDY_ACP_SDK")
CLIENT = Path(__file__).parent / "typescript" / "client.mjs"
SCHEMA = "node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json"

pytestmark = pytest.mark.skipif(
    NODE is None or SDK is None, reason="node or the TypeScript SDK is missing"
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="us-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, Any]:
    """Run the client once, and return what it has seen."""
    home = Home(folder)
    home.write(AGENTS)
    command = command_of("--agent", "robot", "--unstable")
    with daemon(home):
        done = subprocess.run(
            [str(NODE), str(CLIENT), str(SDK), str(folder / "wire"), *command],
            env=environ_of(home),
            cwd=folder,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def test_what_the_client_sees(results: dict[str, Any]) -> None:
    assert results["version"] == 1
    assert {"list", "resume", "close", "delete"} <= set(results["capabilities"])
    assert results["prompt"] == "end_turn"
    assert results["cancelled"] == ["cancelled", "cancelled"]
    assert results["failed"] == -32603
    assert results["unknown"] == -32601
    assert results["chosen"] == "steer"
    assert (results["title"], results["status"]) == ("A title", "open")
    assert results["forked"]
    assert results["listed"]
    assert results["loaded"]
    assert results["asked"] == 1
    assert "files" in results["servers"]
    assert {
        *("agent_message_chunk", "agent_thought_chunk", "tool_call"),
        *("usage_update", "notice"),
    } <= set(results["updates"])


def test_every_line_is_valid_for_the_newest_schema(results: dict[str, Any], folder: Path) -> None:
    schema = orjson.loads((Path(str(SDK)) / SCHEMA).read_bytes())
    defined = schema["$defs"]
    answers = jsonschema.Draft202012Validator({"$ref": "#/$defs/AgentResponse", "$defs": defined})
    tells = {
        "session/update": "SessionNotification",
        "session/request_permission": "RequestPermissionRequest",
        "elicitation/create": "CreateElicitationRequest",
        "$/cancel_request": "CancelRequestNotification",
    }

    lines = (folder / "wire").read_bytes().splitlines()

    assert len(lines) > 20
    for line in lines:
        message = orjson.loads(line)
        if "method" in message:
            name = tells[message["method"]]
            kind = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": defined})
            kind.validate(message["params"])
        else:
            answers.validate(message)
