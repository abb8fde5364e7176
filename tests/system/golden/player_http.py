"""HTTP, by raw requests over the socket of the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx

from .scenario import AGENT, INTERRUPT_REASON, STEP_SECONDS


class HttpPlayer:
    """A program that sends requests."""

    def __init__(self, http: httpx.AsyncClient, session: str = "") -> None:
        self.session = session
        self._http = http

    async def create(self, folder: str) -> None:
        made = await self._post("/v1/sessions", agent=AGENT, workspace=folder)
        self.session = made["id"]

    async def prompt(self, text: str) -> str:
        receipt = await self._on_session("inputs", text=text)
        ended = await self._get(f"{self._path}/inputs/{receipt['input_id']}?wait=20")
        found: str = ended["result"]["text"]
        return found

    async def send(self, text: str) -> None:
        await self._on_session("inputs", text=text)

    async def steer(self, text: str) -> None:
        await self._on_session("steer", text=text)

    async def allow(self) -> None:
        (request,) = (await self._get("/v1/permissions"))["items"]
        await self._post(f"/v1/permissions/{request['id']}", decision="allow_once")

    async def interrupt_call(self) -> None:
        records = (await self._get(f"{self._path}/events?limit=1000"))["items"]
        (call,) = [one["body"]["call_id"] for one in records if one["kind"] == "tool_call"]
        report = await self._on_session(
            "interrupt", scope="tool_call", call_id=call, reason=INTERRUPT_REASON
        )
        assert (report["matched"], report["stopped"]) == (1, 1)

    async def spawn(self, text: str) -> None:
        await self._on_session("spawn", agent=AGENT, text=text)

    async def limit_tokens(self, tokens: int) -> None:
        answer = await self._http.patch(self._path, json={"limits": {"tokens": tokens}})
        answer.raise_for_status()

    async def refused(self, text: str) -> str:
        answer = await self._http.post(f"{self._path}/inputs", json={"text": text})
        assert answer.status_code == HTTPStatus.TOO_MANY_REQUESTS
        code: str = answer.json()["code"]
        return code

    async def stop(self) -> None:
        await self._on_session("stop")

    async def resume(self) -> None:
        await self._on_session("resume")

    # Requests -----------------------------------------------------------------------------

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{self.session}"

    async def _on_session(self, action: str, **body: object) -> Any:  # noqa: ANN401 - any JSON value
        return await self._post(f"{self._path}/{action}", **body)

    async def _post(self, path: str, **body: object) -> Any:  # noqa: ANN401 - any JSON value
        answer = await self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    async def _get(self, path: str) -> Any:  # noqa: ANN401 - any JSON value
        answer = await self._http.get(path)
        answer.raise_for_status()
        return answer.json()


@asynccontextmanager
async def http_player(socket: str) -> AsyncIterator[HttpPlayer]:
    """Yield a player that sends requests to this socket."""
    transport = httpx.AsyncHTTPTransport(uds=socket)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=STEP_SECONDS
    ) as http:
        yield HttpPlayer(http)
