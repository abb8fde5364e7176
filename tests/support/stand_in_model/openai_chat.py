"""The OpenAI chat dialect: `POST /v1/chat/completions`, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import orjson

from .conversation import Conversation, Reply, Returned, Said, Tool, plain_text
from .sse import event

USAGE: Final = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
END: Final = b"data: [DONE]\n\n"


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation of a request."""
    items: list[Said | Returned] = []
    for message in body["messages"]:
        match message["role"]:
            case "user":
                items.append(Said(plain_text(message["content"])))
            case "tool":
                items.append(Returned(plain_text(message["content"])))
    functions = (one["function"] for one in body.get("tools") or () if one["type"] == "function")
    return Conversation(tuple(Tool(one["name"]) for one in functions), tuple(items))


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.call is not None:
        message["tool_calls"] = _tool_calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": USAGE}


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the chunks of the answer; usage only if the request asks for it."""
    head = _head(body, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return event({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.pieces:
        yield chunk({"content": piece})
    if reply.call is not None:
        yield chunk({"tool_calls": _tool_calls(reply)})
    yield chunk({}, _finish_reason(reply))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event({**head, "choices": [], "usage": USAGE})
    yield END


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": kind,
        "created": 1,
        "model": body.get("model", "stand-in"),
    }


def _tool_calls(reply: Reply) -> list[dict[str, Any]]:
    assert reply.call is not None
    function = {
        "name": reply.call.tool.full_name,
        "arguments": orjson.dumps(reply.call.arguments).decode(),
    }
    call_id = f"call_{uuid4().hex[:24]}"
    return [{"index": 0, "id": call_id, "type": "function", "function": function}]


def _finish_reason(reply: Reply) -> str:
    return "stop" if reply.call is None else "tool_calls"
