"""The step that calls a tool of the session's MCP server, as an agent with a model would.

The host runs the server and carries the lines; this module speaks the protocol over them.
"""

from __future__ import annotations

import json
from typing import Final

from supervisor.core.errors import ConfigError, short_repr

from .turn import McpCall, ScriptTurn, Step, TurnCancelled, Waiting
from .wire import Json, ProcessAction

SERVER: Final = "understudy"
_REVISION: Final = "2025-11-25"
_CLIENT: Final = {"name": "scripted", "version": "1"}


def call(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Call TOOL of the MCP server `understudy` with JSON, and say its result."""
    name, _, text = rest.partition(" ")
    if not name:
        raise ConfigError("call has no tool", hint="write: call TOOL {}")
    arguments = _arguments(text)
    server = _find_server(turn)
    if server is None:
        turn.say(f"{name}: there is no MCP server {SERVER} over stdio\n")
        return
    call_id = turn.begin_call(f"{SERVER}: {name}", rawInput=arguments)
    try:
        answer = yield from _call_tool(turn, server, name, arguments)
    except TurnCancelled:
        turn.end_call(call_id, status="failed")
        raise
    result: Json = answer.get("result") or {}
    is_ok = "result" in answer and not result.get("isError")
    turn.end_call(call_id, status="completed" if is_ok else "failed")
    shown = result.get("structuredContent", result) if "result" in answer else answer.get("error")
    turn.say(f"{name}: {json.dumps(shown)}\n")


def tools(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Say the names of the tools of the MCP server `understudy`."""
    server = _find_server(turn)
    if server is None:
        turn.say(f"tools: there is no MCP server {SERVER} over stdio\n")
        return
    yield from _greet(turn, server)
    answer = yield from _ask(turn, server, "tools/list", {})
    if "result" not in answer:
        turn.say(f"tools: {json.dumps(answer.get('error'))}\n")
        return
    names = [str(tool.get("name")) for tool in answer["result"].get("tools", ())]
    turn.say(f"tools: {', '.join(names) or 'none'}\n")


MCP_STEPS: Final[dict[str, Step]] = {"call TOOL [JSON]": call, "tools": tools}


def _arguments(text: str) -> Json:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ConfigError(
            f"call {short_repr(text)} is not a JSON object", hint='write: call TOOL {"name": 1}'
        )
    return arguments


def _find_server(turn: ScriptTurn) -> Json | None:
    servers = [one for one in turn.session.servers if one.get("name") == SERVER]
    return next((one for one in servers if "command" in one), None)


def _call_tool(turn: ScriptTurn, server: Json, name: str, arguments: Json) -> Waiting[Json]:
    yield from _greet(turn, server)
    return (yield from _ask(turn, server, "tools/call", {"name": name, "arguments": arguments}))


def _greet(turn: ScriptTurn, server: Json) -> Waiting[None]:
    """Begin the conversation with the server, once for each of our conversations."""
    if turn.session.has_greeted_server:
        return
    params = {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": _CLIENT}
    answer = yield from _ask(turn, server, "initialize", params)
    if "result" in answer:
        turn.session.has_greeted_server = True
        yield from turn.perform(_line(server, {"method": "notifications/initialized"}))


def _ask(turn: ScriptTurn, server: Json, method: str, params: Json) -> Waiting[Json]:
    """Send a request to the server and wait for its answer; tell the server of a cancellation."""
    number = turn.engine_state.next_mcp_call()
    request = {"id": number, "method": method, "params": params}
    problem = yield from turn.perform(_line(server, request))
    if problem:
        return {"error": {"code": 0, "message": problem}}
    try:
        answer = yield McpCall(number)
    except TurnCancelled:
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": number}}
        turn.engine_state.outbox.request_action(_line(server, cancelled))
        raise
    assert isinstance(answer, dict)
    return answer


def _line(server: Json, message: Json) -> ProcessAction:
    line = json.dumps({"jsonrpc": "2.0", **message})
    return ProcessAction("mcp", text=json.dumps({"server": server, "line": line}))
