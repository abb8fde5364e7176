"""A client of a scripted agent in memory: sends messages, performs actions, controls the time.

Time advances only in `wait` and `finish`, from one deadline of the agent to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from supervisor.drivers.scripted import MemoryConversations, ProcessAction, ScriptedAgent, parse
from supervisor.drivers.scripted.conversations import SavedConversations

Json: TypeAlias = dict[str, Any]

ABLE: Json = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Client:
    """A client of a scripted agent in memory; its arguments are the agent's command line."""

    def __init__(
        self,
        *words: str,
        saved: SavedConversations | None = None,
        environment: Mapping[str, str] | None = None,
        performs: Mapping[str, str] | None = None,
    ) -> None:
        self.agent = ScriptedAgent(
            parse(words), saved=saved or MemoryConversations(), environment=environment
        )
        self.now = 0.0
        self.heard: list[Json] = []
        # The messages of both sides, in order.
        self.talk: list[tuple[Literal["client", "agent"], Json]] = []
        self.junk: list[bytes] = []
        self.unfinished = b""
        self.actions: list[ProcessAction] = []
        self.is_gone = False
        self._performs = performs or {}
        self._requests = 0

    # Send --------------------------------------------------------------------

    def request(self, method: str, **params: object) -> int:
        """Send a request; the agent's immediate output is received when this returns."""
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
        self.agent.receive_line(line)
        self.attend()

    def initialize(self, capabilities: Json | None = None) -> Json:
        """Send `initialize` and return the result."""
        asked = self.request("initialize", protocolVersion=1, clientCapabilities=capabilities or {})
        return self.result_of(asked)

    def open(self, capabilities: Json | None = None, **more: object) -> str:
        """Initialize the connection and open a session; return its id."""
        self.initialize(capabilities)
        return self.new_session(**more)

    def new_session(self, **more: object) -> str:
        asked = self.request("session/new", **{"cwd": "/project", "mcpServers": [], **more})
        return str(self.result_of(asked)["sessionId"])

    def prompt(self, session: str, *texts: str, **more: object) -> int:
        blocks = [{"type": "text", "text": text} for text in texts]
        return self.request("session/prompt", **{"sessionId": session, "prompt": blocks, **more})

    def cancel(self, session: str) -> None:
        self.notify("session/cancel", sessionId=session)

    # Run ----------------------------------------------------------------------

    def attend(self) -> None:
        """Receive all output and perform all actions that are due now."""
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
        """Let time pass until the request is answered; return the answer."""
        while not self.answers_to(request):
            deadline = self.agent.next_deadline()
            assert deadline is not None, "the agent does not wait for time"
            self.now = max(self.now, deadline)
            self.attend()
        return self.answers_to(request)[0]

    # Received messages -----------------------------------------------------------------------

    def answers_to(self, request: int) -> list[Json]:
        return [said for said in self.heard if said.get("id") == request and "method" not in said]

    def result_of(self, request: int) -> Json:
        (answer,) = self.answers_to(request)
        return dict(answer["result"])

    def error_of(self, request: int) -> tuple[int, str]:
        (answer,) = self.answers_to(request)
        return answer["error"]["code"], answer["error"]["message"]

    def requests(self) -> list[Json]:
        """Return the requests of the agent."""
        return [said for said in self.heard if "method" in said and "id" in said]

    def notifications(self) -> list[Json]:
        return [said for said in self.heard if "method" in said and "id" not in said]

    def updates(self, *kinds: str) -> list[Json]:
        """Return the session updates of these kinds, or all."""
        news = [said["params"]["update"] for said in self.notifications() if _is_update(said)]
        return [update for update in news if not kinds or update["sessionUpdate"] in kinds]

    @property
    def text(self) -> str:
        return "".join(chunk["content"]["text"] for chunk in self.updates("agent_message_chunk"))

    @property
    def thoughts(self) -> str:
        return "".join(chunk["content"]["text"] for chunk in self.updates("agent_thought_chunk"))

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
        actions = self.agent.take_actions()
        for action in actions:
            self.actions.append(action)
            self.is_gone = self.is_gone or action.kind == "exit"
            if not self.is_gone:
                self.agent.action_done(action, self._performs.get(action.kind, ""))
        return bool(actions)


def prompt_line(session: str, script: str, *, number: int = 99) -> bytes:
    """Return an encoded prompt, for tests that pass it to the agent themselves."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": script}]}
    message = {"id": number, "method": "session/prompt", "params": params}
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _is_update(said: Json) -> bool:
    return bool(said["method"] == "session/update")
