"""Small clients of the dialects that the stand-in model speaks; each keeps its conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import httpx


@attrs.frozen
class Answer:
    """What a model answered: a text, and the tool call if there is one."""

    text: str
    tool: str | None = None
    arguments: dict[str, Any] | None = None


class ModelClient:
    """A conversation with a model; the subclasses know the forms of one dialect."""

    path = ""
    # The path of a stream, where it has its own.
    stream_path = ""

    def __init__(
        self, http: httpx.AsyncClient, tools: Iterable[str], *, is_stream: bool = True
    ) -> None:
        self._http = http
        self._tools = tools
        self._is_stream = is_stream
        # Messages in the dialect's form, and the last call, which the next result answers.
        self.items: list[Any] = []
        self.call: Any = None

    async def prompt(self, text: str) -> Answer:
        """Say a text and return the answer."""
        self.items.append(self.user_item(text))
        return await self._ask()

    async def give_result(self, text: str) -> Answer:
        """Return the result of the last call and return the answer."""
        self.items.append(self.result_item(text))
        return await self._ask()

    async def _ask(self) -> Answer:
        path = self.stream_path if self._is_stream and self.stream_path else self.path
        body = {**self.body(self._tools), "stream": self._is_stream}
        response = await self._http.post(path, json=body)
        response.raise_for_status()
        if not self._is_stream:
            return self.whole(response.json())
        assert response.headers["content-type"].startswith("text/event-stream")
        return self.joined(events(response.text))

    def body(self, tools: Iterable[str]) -> dict[str, Any]:
        raise NotImplementedError

    def user_item(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def result_item(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def whole(self, answer: dict[str, Any]) -> Answer:
        raise NotImplementedError

    def joined(self, found: list[dict[str, Any]]) -> Answer:
        raise NotImplementedError


def events(text: str) -> list[dict[str, Any]]:
    """Return the data of a stream's events, without the mark of its end."""
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line != "[DONE]"]


class AnthropicClient(ModelClient):
    path = "/v1/messages"

    def body(self, tools: Iterable[str]) -> dict[str, Any]:
        listed = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
        return {"model": "any", "max_tokens": 100, "messages": self.items, "tools": listed}

    def user_item(self, text: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def result_item(self, text: str) -> dict[str, Any]:
        result = {"type": "tool_result", "tool_use_id": self.call["id"]}
        return {"role": "user", "content": [{**result, "content": text}]}

    def whole(self, answer: dict[str, Any]) -> Answer:
        self.items.append({"role": "assistant", "content": answer["content"]})
        text = "".join(one["text"] for one in answer["content"] if one["type"] == "text")
        calls = [one for one in answer["content"] if one["type"] == "tool_use"]
        assert answer["stop_reason"] == ("tool_use" if calls else "end_turn")
        if not calls:
            return Answer(text)
        (self.call,) = calls
        return Answer(text, self.call["name"], self.call["input"])

    def joined(self, found: list[dict[str, Any]]) -> Answer:
        blocks: list[Any] = []
        for one in found:
            match one:
                case {"type": "content_block_start", "content_block": block}:
                    blocks.append(block)
                case {"delta": {"type": "text_delta", "text": text}}:
                    blocks[-1]["text"] += text
                case {"delta": {"type": "input_json_delta", "partial_json": text}}:
                    blocks[-1]["input"] = json.loads(text)
        assert found[-1]["type"] == "message_stop"
        return self.whole({"content": blocks, **found[-2]["delta"]})


class ChatClient(ModelClient):
    path = "/v1/chat/completions"

    def body(self, tools: Iterable[str]) -> dict[str, Any]:
        listed = [{"type": "function", "function": {"name": name}} for name in tools]
        return {"model": "any", "messages": self.items, "tools": listed}

    def user_item(self, text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    def result_item(self, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": self.call["id"], "content": text}

    def whole(self, answer: dict[str, Any]) -> Answer:
        return self._answered(answer["choices"][0]["message"])

    def joined(self, found: list[dict[str, Any]]) -> Answer:
        deltas = [one["choices"][0]["delta"] for one in found]
        text = "".join(delta.get("content") or "" for delta in deltas)
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        assert found[-1]["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")
        return self._answered({"role": "assistant", "content": text, "tool_calls": calls})

    def _answered(self, message: dict[str, Any]) -> Answer:
        self.items.append(message)
        text = message["content"] or ""
        if not message.get("tool_calls"):
            return Answer(text)
        (self.call,) = message["tool_calls"]
        function = self.call["function"]
        return Answer(text, function["name"], json.loads(function["arguments"]))


class ResponsesClient(ModelClient):
    path = "/v1/responses"

    def body(self, tools: Iterable[str]) -> dict[str, Any]:
        listed = [{"type": "function", "name": name, "parameters": {}} for name in tools]
        return {"model": "any", "input": self.items, "tools": listed}

    def user_item(self, text: str) -> dict[str, Any]:
        part = {"type": "input_text", "text": text}
        return {"type": "message", "role": "user", "content": [part]}

    def result_item(self, text: str) -> dict[str, Any]:
        call_id = self.call["call_id"]
        return {"type": "function_call_output", "call_id": call_id, "output": text}

    def whole(self, answer: dict[str, Any]) -> Answer:
        assert answer["status"] == "completed"
        self.items += answer["output"]
        messages = [one for one in answer["output"] if one["type"] == "message"]
        calls = [one for one in answer["output"] if one["type"] == "function_call"]
        text = "".join(one["content"][0]["text"] for one in messages)
        if not calls:
            return Answer(text)
        (self.call,) = calls
        return Answer(text, self.call["name"], json.loads(self.call["arguments"]))

    def joined(self, found: list[dict[str, Any]]) -> Answer:
        assert [one["sequence_number"] for one in found] == list(range(len(found)))
        assert found[-1]["type"] == "response.completed"
        answer = self.whole(found[-1]["response"])
        assert answer.text == "".join(_deltas(found, "response.output_text.delta"))
        arguments = "".join(_deltas(found, "response.function_call_arguments.delta"))
        assert answer.arguments == (json.loads(arguments) if arguments else None)
        return answer


def _deltas(found: list[dict[str, Any]], kind: str) -> Iterator[str]:
    return (one["delta"] for one in found if one["type"] == kind)


class GeminiClient(ModelClient):
    path = "/v1beta/models/any:generateContent"
    stream_path = "/v1beta/models/any:streamGenerateContent?alt=sse"

    def body(self, tools: Iterable[str]) -> dict[str, Any]:
        listed = [{"name": name} for name in tools]
        return {"contents": self.items, "tools": [{"functionDeclarations": listed}]}

    def user_item(self, text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    def result_item(self, text: str) -> dict[str, Any]:
        result = {"name": self.call["name"], "response": {"output": text}}
        return {"role": "user", "parts": [{"functionResponse": result}]}

    def whole(self, answer: dict[str, Any]) -> Answer:
        return self.joined([answer])

    def joined(self, found: list[dict[str, Any]]) -> Answer:
        candidates = [one["candidates"][0] for one in found]
        assert [one.get("finishReason") for one in candidates[:-1]] == [None] * (len(found) - 1)
        assert candidates[-1]["finishReason"] == "STOP"
        parts = [part for one in candidates for part in one["content"]["parts"]]
        self.items.append({"role": "model", "parts": parts})
        text = "".join(part.get("text", "") for part in parts)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not calls:
            return Answer(text)
        (self.call,) = calls
        return Answer(text, self.call["name"], self.call["args"])


CLIENTS: Final[dict[str, type[ModelClient]]] = {
    "anthropic_messages": AnthropicClient,
    "openai_chat": ChatClient,
    "openai_responses": ResponsesClient,
    "gemini_content": GeminiClient,
}
DIALECTS: Final = tuple(CLIENTS)
