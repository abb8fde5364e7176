"""A client with an agent in memory: it talks to it, does what it wants done, and has the time.

Time stands still but in `wait` and `finish`, which go from one of its deadlines to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from supervisor.drivers.scripted import MemoryShelf, ScriptedAgent, Want, parse
from supervisor.drivers.scripted.sessions import Shelf

Json: TypeAlias = dict[str, Any]

ABLE: Json = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Client:
    """Give it the agent's command line."""

    def __init__(
        self,
        *words: str,
        shelf: Shelf | None = None,
        environment: Mapping[str, str] | None = None,
        performs: Mapping[str, str] | None = None,
    ) -> None:
        self.agent = ScriptedAgent(
            parse(words), shelf=shelf or MemoryShelf(), environment=environment
        )
        self.now = 0.0
        self.heard: list[Json] = []
        # What both have said, in order.
        self.talk: list[tuple[Literal["client", "agent"], Json]] = []
        self.junk: list[bytes] = []
        self.unfinished = b""
        self.wants: list[Want] = []
        self.is_gone = False
        self._performs = performs or {}
        self._requests = 0

    # What it says ---------------------------------------------------------------------------

    def request(self, method: str, **params: object) -> int:
        """Ask the agent; what it has to say at once is heard when this returns."""
        self._requests += 1
        self.say({"id": self._requests, "method": method, "params": params})
        return self._requests

    def notify(self, method: str, **params: object) -> None:
        self.say({"method": method, "params": params})

    def answer(self, request: int, result: object) -> None:
        self.say({"id": request, "result": result})

    def refuse(self, request: int, code: int, message: str) -> None:
        self.say({"id": request, "error": {"code": code, "message": message}})

    def say(self, message: Json) -> None:
        message = {"jsonrpc": "2.0", **message}
        self.talk.append(("client", message))
        self.say_line(json.dumps(message).encode())

    def say_line(self, line: bytes) -> None:
        self.agent.tick(self.now)
        self.agent.hear(line)
        self.attend()

    def initialize(self, capabilities: Json | None = None) -> Json:
        """The answer to `initialize`."""
        asked = self.request("initialize", protocolVersion=1, clientCapabilities=capabilities or {})
        return self.result_of(asked)

    def open(self, capabilities: Json | None = None, **more: object) -> str:
        """A new session, on a new connection."""
        self.initialize(capabilities)
        return self.new_session(**more)

    def new_session(self, **more: object) -> str:
        asked = self.request("session/new", **{"cwd": "/work", "mcpServers": [], **more})
        return str(self.result_of(asked)["sessionId"])

    def prompt(self, session: str, *texts: str, **more: object) -> int:
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.request("session/prompt", **{"sessionId": session, "prompt": blocks, **more})

    def cancel(self, session: str) -> None:
        self.notify("session/cancel", sessionId=session)

    # What it does -----------------------------------------------------------------------------

    def attend(self) -> None:
        """Hear all that there is to hear, and do all that there is to do, at this time."""
        while not self.is_gone:
            self.agent.tick(self.now)
            if self._hear() or self._perform():
                continue
            deadline = self.agent.next_deadline()
            if deadline is None or deadline > self.now:
                return

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while (deadline := self.agent.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.attend()
        self.now = until
        self.attend()

    def finish(self, request: int) -> Json:
        """Let time pass until the request is answered; gives the answer."""
        while not self.answers_to(request):
            deadline = self.agent.next_deadline()
            assert deadline is not None, "it waits for something else than time"
            self.now = max(self.now, deadline)
            self.attend()
        return self.answers_to(request)[0]

    # What it heard ------------------------------------------------------------------------------

    def answers_to(self, request: int) -> list[Json]:
        return [said for said in self.heard if said.get("id") == request and "method" not in said]

    def result_of(self, request: int) -> Json:
        (answer,) = self.answers_to(request)
        return dict(answer["result"])

    def error_of(self, request: int) -> tuple[int, str]:
        (answer,) = self.answers_to(request)
        return answer["error"]["code"], answer["error"]["message"]

    def requests(self) -> list[Json]:
        """What the agent has asked."""
        return [said for said in self.heard if "method" in said and "id" in said]

    def notifications(self) -> list[Json]:
        return [said for said in self.heard if "method" in said and "id" not in said]

    def updates(self, *kinds: str) -> list[Json]:
        """News of sessions, of these kinds or of all."""
        news = [said["params"]["update"] for said in self.notifications() if _is_update(said)]
        return [update for update in news if not kinds or update["sessionUpdate"] in kinds]

    @property
    def text(self) -> str:
        return "".join(chunk["content"]["text"] for chunk in self.updates("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        return "".join(chunk["content"]["text"] for chunk in self.updates("agent_thought_chunk"))

    # Inside -------------------------------------------------------------------------------------

    def _hear(self) -> bool:
        taken = self.agent.take_output()
        *lines, self.unfinished = (self.unfinished + b"".join(taken)).split(b"\n")
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:
                self.junk.append(line)
            else:
                self.heard.append(said)
                self.talk.append(("agent", said))
        return bool(taken)

    def _perform(self) -> bool:
        wants = self.agent.take_wants()
        for want in wants:
            self.wants.append(want)
            self.is_gone = self.is_gone or want.do == "exit"
            if not self.is_gone:
                self.agent.done(want, self._performs.get(want.do, ""))
        return bool(wants)


def prompt_line(session: str, script: str, *, number: int = 99) -> bytes:
    """A prompt as it goes over the wire, for tests that hand it to the agent themselves."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": script}]}
    message = {"id": number, "method": "session/prompt", "params": params}
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _is_update(said: Json) -> bool:
    return bool(said["method"] == "session/update")
