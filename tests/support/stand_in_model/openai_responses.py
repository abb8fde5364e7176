"""The OpenAI Responses dialect: `POST /v1/responses`, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import orjson

from .conversation import Conversation, Reply, Returned, Said, Tool, ToolCall, plain_text
from .sse import event

USAGE: Final = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation of a request."""
    items: list[Said | Returned] = []
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if item.get("type", "message") == "message" and item.get("role") == "user":
            items.append(Said(plain_text(item["content"])))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            items.append(Returned(plain_text(item["output"])))
    return Conversation(tuple(_tools(body.get("tools") or [])), tuple(items))


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in one object."""
    return {**_head(body), "status": "completed", "output": _output(reply), "usage": USAGE}


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the events of the answer, numbered."""
    for number, data in enumerate(_events(reply, body)):
        yield event({**data, "sequence_number": number}, name=data["type"])


def _events(reply: Reply, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head, output = _head(body), _output(reply)
    yield {"type": "response.created", "response": head}
    yield {"type": "response.in_progress", "response": head}
    for index, item in enumerate(output):
        at = {"output_index": index, "item_id": item["id"]}
        started = {**item, "status": "in_progress"}
        if item["type"] == "message":
            added = {**started, "content": []}
            changes = _message_events(reply, at, item["content"][0])
        else:
            added = {**started, "arguments": ""}
            changes = _call_events(at, item["arguments"])
        yield {"type": "response.output_item.added", "output_index": index, "item": added}
        yield from changes
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    end = {**head, "status": "completed", "output": output, "usage": USAGE}
    yield {"type": "response.completed", "response": end}


def _message_events(
    reply: Reply, at: dict[str, Any], part: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    at = {**at, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in reply.pieces:
        yield {"type": "response.output_text.delta", **at, "delta": piece}
    yield {"type": "response.output_text.done", **at, "text": reply.text}
    yield {"type": "response.content_part.done", **at, "part": part}


def _call_events(at: dict[str, Any], arguments: str) -> Iterator[dict[str, Any]]:
    yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
    yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments}


def _tools(listed: list[dict[str, Any]], namespace: str = "") -> Iterator[Tool]:
    """Yield the functions, those of a namespace with its name."""
    for one in listed:
        match one.get("type"):
            case "function" | "custom":
                yield Tool(one["name"], namespace)
            case "namespace":
                yield from _tools(one["tools"], one["name"])


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": 1,
        "status": "in_progress",
        "model": body.get("model", "stand-in"),
        "output": [],
        "error": None,
        "usage": None,
    }


def _output(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        message = {"type": "message", "role": "assistant", "content": [part]}
        items.append({**message, "id": f"msg_{uuid4().hex}", "status": "completed"})
    if reply.call is not None:
        items.append(_function_call(reply.call))
    return items


def _function_call(call: ToolCall) -> dict[str, Any]:
    item = {
        "type": "function_call",
        "id": f"fc_{uuid4().hex}",
        "call_id": f"call_{uuid4().hex[:24]}",
        "name": call.tool.name,
        "arguments": orjson.dumps(call.arguments).decode(),
        "status": "completed",
    }
    return item if not call.tool.namespace else {**item, "namespace": call.tool.namespace}
