"""An editor that speaks the protocol: the client's end of `serve_client`, controlled by the test.

Every line that it receives is checked against the published schema.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
import trio
from attrs import define, field
from trio.testing import memory_stream_pair

import supervisor
from supervisor.acp_agent.acp_options import AcpOptions
from supervisor.acp_agent.serve_client import serve_client
from supervisor.json_rpc.lines import LineSplitter
from tests.support.acp_schema import Conversation

TEST_SECONDS: Final = 20
LEAVING_SECONDS: Final = 5
# In the newest schema only, which no release of the official SDK for Python has.
NEWER: Final = frozenset({"notice"})
NEWER_METHODS: Final = frozenset(
    {"session/set_title", "session/archive", "session/unarchive", "session/status"}
)
NEWER_CAPABILITIES: Final = ("archive", "status", "title")

Answer = dict[str, Any]


class Refused(Exception):
    """The request was refused."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Mapping[str, Any] = error.get("data") or {}


class EditorStreams:
    """Our end of the connection, in the place of standard input and output."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.hangup = trio.Event()

    async def receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some())
        except trio.BrokenResourceError:
            return b""

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise BrokenPipeError from error

    async def wait_hangup(self) -> None:
        await self.hangup.wait()


@define(eq=False)
class Editor:
    """The client: requests, answers, and everything that it was told."""

    _stream: trio.abc.Stream
    # Answers the requests that we are sent; None leaves a request open.
    decide: Callable[[Answer], Answer | None] = lambda _: None
    told: list[Answer] = field(factory=list)
    asked: list[Answer] = field(factory=list)
    # Lines in the order in which they came: the method, or the id of an answered request.
    order: list[object] = field(factory=list)
    cancelled: list[object] = field(factory=list)
    has_ended: bool = False
    _answers: dict[int | str, Answer] = field(factory=dict)
    _last_id: int = 0
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _talk: Conversation = field(factory=Conversation)

    # Out ----------------------------------------------------------------------------------

    async def ask(self, method: str, **params: Any) -> int:  # noqa: ANN401 - any JSON value
        """Send a request and return its id."""
        self._last_id += 1
        await self.request(self._last_id, method, params)
        return self._last_id

    async def request(self, request_id: int | str, method: str, params: object) -> None:
        """Send a request with any params."""
        self._talk._open["client", request_id] = "_" if method.startswith("_") else method
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        await self.write(orjson.dumps(message) + b"\n")

    async def call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Send a request and return its result; raise `Refused`."""
        return await self.answer_to(await self.ask(method, **params))

    async def answer_to(self, request_id: int | str) -> Any:  # noqa: ANN401 - any JSON value
        """Wait for the answer to a request."""
        await self.until(lambda: request_id in self._answers)
        answer = self._answers[request_id]
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def is_answered(self, request_id: int | str) -> bool:
        return request_id in self._answers

    async def notify(self, method: str, **params: Any) -> None:  # noqa: ANN401 - any JSON value
        await self.write(
            orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"
        )

    async def write(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def answer(self, request: Answer, result: Answer) -> None:
        """Answer a request that we were sent."""
        message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        self._talk._open.pop(("agent", request["id"]), None)
        await self.write(orjson.dumps(message) + b"\n")

    async def allow(self, request: Answer, option: str = "allow_once") -> None:
        await self.answer(request, {"outcome": {"outcome": "selected", "optionId": option}})

    async def leave(self) -> None:
        """Close our end, as an editor does that exits."""
        await self._stream.aclose()

    # In -----------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on what was received holds."""
        while not condition():
            assert not self.has_ended, "nothing more will come"
            await self._changed.park()

    async def until_over(self) -> None:
        """Wait until nothing more comes."""
        while not self.has_ended:
            await self._changed.park()

    async def asked_for(self, method: str, count: int = 1) -> Answer:
        """Wait for the n-th request of a method."""

        def found() -> list[Answer]:
            return [one for one in self.asked if one["method"] == method]

        await self.until(lambda: len(found()) >= count)
        return found()[count - 1]

    def updates(self, kind: str, session_id: str | None = None) -> list[Answer]:
        """Return the updates of a kind that were received."""
        return [
            one["update"]
            for one in self.told
            if one["update"]["sessionUpdate"] == kind and session_id in (None, one["sessionId"])
        ]

    def text(self, kind: str = "agent_message_chunk", session_id: str | None = None) -> str:
        """Return the text of all chunks."""
        return "".join(one["content"]["text"] for one in self.updates(kind, session_id))

    async def read(self) -> None:
        """Read until the end."""
        lines = LineSplitter()
        while True:
            try:
                data = bytes(await self._stream.receive_some())
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                break
            if not data:
                break
            for line in lines.feed(data):
                assert isinstance(line, bytes)
                await self._take(orjson.loads(line))
                self._changed.unpark_all()
        self.has_ended = True
        self._changed.unpark_all()

    async def _take(self, message: Answer) -> None:
        self._check(message)
        method = message.get("method")
        self.order.append(method or message["id"])
        if method is None:
            self._answers[message["id"]] = message
        elif method == "session/update":
            self.told.append(message["params"])
        elif method == "$/cancel_request":
            self.cancelled.append(message["params"]["requestId"])
        else:
            self.asked.append(message)
            answer = self.decide(message)
            if answer is not None:
                await self.answer(message, answer)

    def _check(self, message: Answer) -> None:
        update = (message.get("params") or {}).get("update") or {}
        if update.get("sessionUpdate") in NEWER:
            return
        if "method" not in message:
            asked = self._talk._open.get(("client", message["id"]), "")
            if asked == "initialize" and "result" in message:
                message = _without_newer_capabilities(message)
            if asked in NEWER_METHODS:
                self._talk._open.pop(("client", message["id"]), None)
                return
        if "error" in message and message.get("id") is None:
            return
        self._talk.says("agent", message)

    # A session ----------------------------------------------------------------------------

    async def start(self, **capabilities: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Initialize the connection."""
        return await self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)

    async def new(self, cwd: str = "/tmp") -> str:  # noqa: S108 - any folder that exists
        """Open a new session."""
        session: str = (await self.call("session/new", cwd=cwd, mcpServers=[]))["sessionId"]
        return session

    async def prompt(self, session_id: str, text: str) -> Any:  # noqa: ANN401 - any JSON value
        return await self.answer_to(await self.begin(session_id, text))

    async def begin(self, session_id: str, text: str) -> int:
        """Send a prompt and return the id of the request."""
        blocks = [{"type": "text", "text": text}]
        return await self.ask("session/prompt", sessionId=session_id, prompt=blocks)


def _without_newer_capabilities(message: Answer) -> Answer:
    checked: Answer = orjson.loads(orjson.dumps(message))
    sessions = checked["result"]["agentCapabilities"]["sessionCapabilities"]
    for name in NEWER_CAPABILITIES:
        sessions.pop(name, None)
    return checked


@asynccontextmanager
async def editing(
    sup: Any,  # noqa: ANN401 - a supervisor, here or remote
    **options: Any,  # noqa: ANN401 - AcpOptions
) -> AsyncIterator[Editor]:
    """Serve an editor during the block; it leaves at the end."""
    options.setdefault("agent", "scripted")
    near, far = memory_stream_pair()
    editor, streams = Editor(far), EditorStreams(near)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(editor.read)
        nursery.start_soon(serve_client, sup, streams, AcpOptions(**options))
        yield editor
        await editor.leave()
        nursery.cancel_scope.deadline = trio.current_time() + LEAVING_SECONDS
    assert not nursery.cancel_scope.cancelled_caught, "it did not end when the editor left"


@asynccontextmanager
async def opened_supervisor(**options: Any) -> AsyncIterator[supervisor.Supervisor]:  # noqa: ANN401
    """Open a supervisor in memory."""
    quick = supervisor.Settings(exit_seconds=0.2, ladder=supervisor.Ladder(ask_seconds=0.5))
    with trio.fail_after(TEST_SECONDS):
        async with supervisor.open(**{"settings": quick, **options}) as sup:
            yield sup


async def recorded(session: supervisor.Session, kind: str, count: int = 1) -> None:
    """Wait until a session has that many records of a kind."""
    async with session.watch() as feed:
        async for item in feed:
            count -= isinstance(item, supervisor.Record) and item.kind == kind
            if not count:
                return


async def accepted(session: supervisor.Session, count: int) -> None:
    """Wait until a session has accepted that many inputs."""
    await recorded(session, "input_accepted", count)
