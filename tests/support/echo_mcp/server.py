"""An MCP server with one tool, `echo_tool`, which returns its text; a program without dependencies.

    python -I -S server.py LOG

speaks on standard input and output, and appends its pid and the text of each call to the file LOG.
`answer_message` is the whole server, so `http.py` serves the same over HTTP.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOOL: dict[str, Any] = {
    "name": "echo_tool",
    "description": "Return the text.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to return."}},
        "required": ["text"],
        "additionalProperties": False,
    },
}


def answer_message(
    message: dict[str, Any], on_call: Callable[[str], None]
) -> dict[str, Any] | None:
    """Return the answer to a message; None for a notification."""
    if "id" not in message:
        return None
    params = message.get("params") or {}
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message.get("method"):
        case "initialize":
            return answer | {
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "echo", "version": "1"},
                }
            }
        case "ping":
            return answer | {"result": {}}
        case "tools/list":
            return answer | {"result": {"tools": [TOOL]}}
        case "tools/call" if params.get("name") == TOOL["name"]:
            text = str(params["arguments"]["text"])
            on_call(text)
            return answer | {"result": {"content": [{"type": "text", "text": f"echo: {text}"}]}}
        case method:
            error = {"code": -32601, "message": f"no method or tool for {method}"}
            return answer | {"error": error}


def main() -> None:
    """Answer each line of standard input until it ends."""
    log = Path(sys.argv[1])

    def note(text: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    note(f"pid {os.getpid()}")
    for line in sys.stdin:
        answer = answer_message(json.loads(line), note)
        if answer is not None:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
