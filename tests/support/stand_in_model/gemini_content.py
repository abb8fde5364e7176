"""The Gemini dialect: `POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from .conversation import Conversation, Reply, Returned, Said, Tool
from .sse import event

USAGE: Final = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation of a request."""
    items: list[Said | Returned] = []
    for content in body["contents"]:
        if content.get("role", "user") == "model":
            continue
        for part in content["parts"]:
            if "functionResponse" in part:
                items.append(Returned(_result_text(part["functionResponse"].get("response"))))
            elif "text" in part:
                items.append(Said(part["text"]))
    functions = [
        one for group in body.get("tools") or () for one in group.get("functionDeclarations") or ()
    ]
    return Conversation(tuple(Tool(one["name"]) for one in functions), tuple(items))


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in one object."""
    texts = [reply.text] if reply.text else []
    return _answer([*_text_parts(texts), *_call_parts(reply)], finish_reason="STOP")


def stream(reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
    """Yield the chunks of the answer; the last one says why it ends."""
    for part in _text_parts(reply.pieces):
        yield event(_answer([part]))
    yield event(_answer(_call_parts(reply) or _text_parts([""]), finish_reason="STOP"))


def _answer(parts: list[dict[str, Any]], finish_reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "stand-in"}


def _text_parts(texts: list[str]) -> list[dict[str, Any]]:
    return [{"text": text} for text in texts]


def _call_parts(reply: Reply) -> list[dict[str, Any]]:
    if reply.call is None:
        return []
    return [{"functionCall": {"name": reply.call.tool.full_name, "args": reply.call.arguments}}]


def _result_text(response: object) -> str:
    if isinstance(response, dict) and isinstance(response.get("output"), str):
        return str(response["output"])
    return orjson.dumps(response).decode()
