"""The MCP server of `server.py` as an ASGI app: streamable HTTP, stateless, answers in JSON."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .server import answer_message

PATH = "/mcp"


def echo_app(calls: list[str]) -> Starlette:
    """Return the server at `PATH`; `calls` gets the text of each call."""

    async def post(request: Request) -> Response:
        answer = answer_message(await request.json(), calls.append)
        return Response(status_code=202) if answer is None else JSONResponse(answer)

    return Starlette(routes=[Route(PATH, post, methods=["POST"])])
