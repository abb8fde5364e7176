"""The HTTP server of the stand-in model: routes, the choice of stream or whole, the record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.loopback_apps import serve_on_loopback

from . import anthropic_messages, gemini_content, openai_chat, openai_responses
from .conversation import Conversation, Reply, Tool
from .script import answer
from .sse import EventStream

MODEL_NAME: Final = "stand-in"
WANTED_STREAM: Final = "streamGenerateContent"


@attrs.frozen
class Asked:
    """A request for an answer of the model, and the answer."""

    dialect: str
    body: dict[str, Any]
    conversation: Conversation
    reply: Reply


@attrs.define
class StandInModel:
    """A stand-in model; `url` is its address without a path."""

    url: str = ""
    asked: list[Asked] = attrs.field(factory=list)
    # Methods and paths without a route, such as reports of use that an agent sends.
    unknown: list[str] = attrs.field(factory=list)

    def tools(self) -> set[Tool]:
        """Return all tools that were offered so far."""
        return {tool for one in self.asked for tool in one.conversation.tools}

    def app(self) -> Starlette:
        """Return the application with the routes of all dialects."""
        return Starlette(
            routes=[
                Route("/", _exists, methods=["GET"]),
                Route("/v1/models", _models, methods=["GET"]),
                Route("/v1/messages", self._answers(anthropic_messages), methods=["POST"]),
                Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
                Route("/v1/chat/completions", self._answers(openai_chat), methods=["POST"]),
                Route("/v1/responses", self._answers(openai_responses), methods=["POST"]),
                Route("/v1beta/models/{verb}", self._gemini, methods=["POST"]),
                Route("/{path:path}", self._not_found, methods=_ALL_METHODS),
            ]
        )

    def _answers(self, dialect: ModuleType) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            body = await request.json()
            return self._respond(dialect, body, is_stream=body.get("stream") is True)

        return respond

    async def _gemini(self, request: Request) -> Response:
        name, _, verb = request.path_params["verb"].partition(":")
        if verb == "countTokens":
            return JSONResponse({"totalTokens": 10})
        if verb not in ("generateContent", WANTED_STREAM):
            return await self._not_found(request)
        body = {"model": name, **await request.json()}
        return self._respond(gemini_content, body, is_stream=verb == WANTED_STREAM)

    def _respond(self, dialect: ModuleType, body: dict[str, Any], *, is_stream: bool) -> Response:
        conversation: Conversation = dialect.read(body)
        reply = answer(conversation)
        self.asked.append(Asked(dialect.__name__.rpartition(".")[2], body, conversation, reply))
        if not is_stream:
            return JSONResponse(dialect.whole(reply, body))
        events: Iterator[bytes] = dialect.stream(reply, body)
        return EventStream(events)

    async def _not_found(self, request: Request) -> Response:
        self.unknown.append(f"{request.method} {request.url.path}")
        error = {"type": "not_found_error", "message": f"no route for {request.url.path}"}
        return JSONResponse({"type": "error", "error": error}, status_code=404)


_ALL_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@asynccontextmanager
async def open_stand_in_model() -> AsyncIterator[StandInModel]:
    """Serve a stand-in model on a free port of 127.0.0.1 until the block ends."""
    model = StandInModel()
    async with serve_on_loopback(model.app()) as url:
        model.url = url
        yield model


async def _exists(_: Request) -> Response:
    return Response(status_code=200)


async def _count_tokens(_: Request) -> Response:
    return JSONResponse({"input_tokens": 10})


async def _models(_: Request) -> Response:
    one = {"id": MODEL_NAME, "object": "model", "created": 1, "owned_by": "tests"}
    return JSONResponse({"object": "list", "data": [one]})
