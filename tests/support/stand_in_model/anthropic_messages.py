"""The Anthropic Messages dialect: `POST /v1/messages`, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import orjson

from .conversation import Conversation, Reply, Returned, Said, Tool, plain_text
from .sse import event

USAGE: Final = {"input_tokens": 10, "output_tokens": 5}


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation of a request."""
    items: list[Said | Returned] = []
    for message in body["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        if isinstance(content, str):
            items.append(Said(content))
            continue
        items += [
            Returned(plain_text(part.get("content")))
            for part in content
            if part["type"] == "tool_result"
        ]
        items += [Said(part["text"]) for part in content if part["type"] == "text"]
    # Tools of the provider itself, such as its web search, also have a name.
    return Conversation(tuple(Tool(one["name"]) for one in body.get("tools") or ()), tuple(items))


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in one object."""
    return {**_head(body), "content": _blocks(reply), "stop_reason": _stop_reason(reply)}


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the events of the answer."""
    yield _named({"type": "message_start", "message": _head(body)})
    for index, block in enumerate(_blocks(reply)):
        if block["type"] == "text":
            start = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in reply.pieces]
        else:
            start = {**block, "input": {}}
            text = orjson.dumps(block["input"]).decode()
            deltas = [{"type": "input_json_delta", "partial_json": text}]
        yield _named({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    end = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": USAGE})
    yield _named({"type": "message_stop"})


def _named(data: dict[str, Any]) -> bytes:
    return event(data, name=data["type"])


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "stand-in"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    if reply.call is not None:
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_{uuid4().hex}",
                "name": reply.call.tool.full_name,
                "input": reply.call.arguments,
            }
        )
    return blocks


def _stop_reason(reply: Reply) -> str:
    return "end_turn" if reply.call is None else "tool_use"
