"""The server that the suite judges: the API over a supervisor in memory, with tools of the suite.

`python -m tests.conformance.server` prints the address of `/mcp`, and serves until it is ended.
The suite knows no credentials, so its requests get the token before they reach the gate; Host and
Origin are checked as always.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

import supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.daemon.listeners import tcp_listener
from supervisor.http_server.connections import BY_SETTING, open_connections
from supervisor.http_server.gate import PEER_UID, TcpGate
from supervisor.mcp_server.caller import Caller
from supervisor.mcp_server.tool import ToolAnswer, ToolDescription

# The suite checks that every keyword of a schema arrives.
_EVERY_KEYWORD: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_NOTHING: Mapping[str, Any] = {"type": "object", "additionalProperties": False}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "test_simple_text": _NOTHING,
    "test_error_handling": _NOTHING,
    "test_logging_tool": _NOTHING,
    "test_streaming_elicitation": _NOTHING,
    "json_schema_2020_12_tool": _EVERY_KEYWORD,
}


class SuiteTools:
    """The tools that the suite calls, as far as a server of tools with text can have them."""

    def tools_for(self, caller: Caller) -> tuple[ToolDescription, ...]:
        return tuple(
            ToolDescription(
                name=name,
                title=name,
                description=f"Called by the suite: {name}",
                input_schema=schema,
                output_schema=_NOTHING,
                annotations={"readOnlyHint": True},
            )
            for name, schema in _SCHEMAS.items()
        )

    def instructions_for(self, caller: Caller) -> str:
        return "Judge me."

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        await trio.lowlevel.checkpoint()
        if name not in _SCHEMAS:
            raise KeyError(name)
        if name != "test_error_handling":
            return ToolAnswer(structured={}, text="This is a simple text response for testing.")
        return ToolAnswer(
            structured={"code": "test", "detail": "on purpose", "hint": "none", "retry": "never"},
            text="This tool intentionally returns an error for testing",
            is_error=True,
        )


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """Return the app that adds the token to every request."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [*scope["headers"], (b"authorization", b"Bearer " + token.encode())]
        await app({**scope, "headers": headers}, receive, send)

    return call


async def main() -> None:
    token, drain_state = secrets.token_urlsafe(32), DrainState()
    with tcp_listener(0) as listener:
        port = listener.getsockname()[1]
        async with (
            supervisor.open(":memory:") as sup,
            open_connections(
                max_connections=100, limited=BY_SETTING, peer_state_key=PEER_UID
            ) as connections,
        ):
            gate = TcpGate(
                port=port,
                token=token,
                origins=frozenset({f"http://127.0.0.1:{port}", f"http://localhost:{port}"}),
            )
            app = make_app(sup, gate=gate, drain_state=drain_state, toolbox=SuiteTools())
            await connections.listen(listener, with_token(app, token))
            drain_state.open()
            print(f"http://127.0.0.1:{port}/mcp", flush=True)  # noqa: T201 - for the runner
            await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
