"""The scripted agent without I/O: it receives lines and the time, and returns lines and actions.

Rule 1: it does no I/O and has no clock and no randomness: the same calls return the same lines.
Rule 2: its time is that of the last tick; the host calls `tick` before `receive_line`.
Rule 3: no script continues while an action waits to be taken, so that its later output cannot come
        before the action is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import assert_never

from .conversations import MemoryConversations, SavedConversations
from .flags import NO_FLAGS, Flags
from .service import Service
from .turn import EngineState
from .wire import (
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    ClientNotification,
    ClientReply,
    ClientRequest,
    ErrorReply,
    MalformedMessage,
    ProcessAction,
    parse_line,
)


class ScriptedAgent:
    """A scripted agent without its process.

    The host calls `tick`, then `receive_line` for each line of input; writes all of `take_output`;
    performs `take_actions` and calls `action_done` after each; then waits for `next_deadline` or
    for more input.
    """

    def __init__(
        self,
        flags: Flags = NO_FLAGS,
        *,
        saved: SavedConversations | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._flags = flags
        self._engine_state = EngineState(flags, environment or {})
        self._outbox = self._engine_state.outbox
        self._service = Service(self._engine_state, saved or MemoryConversations())
        # Requests delayed by --delay, each with the time at which it is served.
        self._delayed_requests: deque[tuple[float, ClientRequest]] = deque()
        if flags.banner is not None:
            self._outbox.write(f"{flags.banner}\n".encode())

    @property
    def overlaps(self) -> int:
        """The number of prompts that arrived for a session with a running turn."""
        return self._engine_state.overlaps

    def tick(self, now: float) -> None:
        """Set the current time, and continue scripts and send answers that are due."""
        self._outbox.tick(now)
        while self._delayed_requests and self._delayed_requests[0][0] <= now:
            self._serve(self._delayed_requests.popleft()[1])
        self._run()

    def receive_line(self, line: bytes) -> None:
        """Handle a line of input, with or without its newline."""
        if not line.strip():
            return
        match parse_line(line):
            case MalformedMessage(request, code, text):
                self._outbox.refuse(request, code, text)
            case ClientRequest(_, method, _) as request:
                if self._flags.delay and method != "session/prompt":
                    self._delayed_requests.append((self._outbox.now + self._flags.delay, request))
                else:
                    self._serve(request)
            case ClientNotification() as notification:
                self._receive_notification(notification)
            case ClientReply() as reply:
                self._service.on_client_reply(reply)
            case never:
                assert_never(never)
        self._run()

    def receive_server_line(self, line: bytes) -> None:
        """Handle a line of an MCP server that the host runs for the agent."""
        self._service.on_server_line(line)
        self._run()

    def receive_server_end(self) -> None:
        """Handle the end of an MCP server."""
        self._service.on_server_end()
        self._run()

    def receive_eof(self) -> None:
        """Handle the end of the input."""
        if self._engine_state.exits_at_eof:
            self._outbox.request_action(ProcessAction("exit", 0))

    def action_done(self, action: ProcessAction, output: str = "") -> None:
        """Continue the script that requested the action; `output` is the action's result."""
        self._service.on_action_done(action, output)
        self._run()

    def take_output(self) -> list[bytes]:
        """Return the bytes to write, in order: lines with their newlines, or raw output."""
        return self._outbox.take()

    def take_actions(self) -> list[ProcessAction]:
        """Return the actions to perform, in order, after all output was taken and written."""
        return self._outbox.take_actions()

    @property
    def is_exiting(self) -> bool:
        """True if an action is to exit the process, which the host should not delay."""
        return self._outbox.is_exiting

    def next_deadline(self) -> float | None:
        """Return the time of the next tick; None if there is nothing to do before more input."""
        if self._outbox.has_actions:
            return None
        times = [self._outbox.next_deadline(), self._service.next_deadline()]
        times += [due for due, _ in list(self._delayed_requests)[:1]]
        return min((time for time in times if time is not None), default=None)

    def _run(self) -> None:
        if not self._outbox.has_actions:
            self._service.run()

    def _receive_notification(self, notification: ClientNotification) -> None:
        method, params = notification
        if method in self._flags.die_at:
            self._die(method)
        elif method in self._flags.hang_at:
            pass
        elif method == "session/cancel":
            self._service.cancel(params)
        elif method == "$/cancel_request":
            self._cancel_request(params.get("requestId"))

    def _cancel_request(self, name: object) -> None:
        if not isinstance(name, int | str | None):
            return
        cancelled = [request for _, request in self._delayed_requests if request.id == name]
        self._delayed_requests = deque(
            item for item in self._delayed_requests if item[1].id != name
        )
        for request in cancelled:
            self._outbox.refuse(request.id, REQUEST_CANCELLED, "request cancelled")
        self._service.cancel_request(name)

    def _serve(self, request: ClientRequest) -> None:
        flags, method = self._flags, request.method
        if method in flags.die_at:
            self._die(method)
        elif method in flags.hang_at:
            pass
        elif method in flags.fail_at:
            self._outbox.refuse(request.id, INTERNAL_ERROR, f"told to fail at {method}")
        elif method in flags.rubbish_at:
            self._outbox.answer(request.id, "rubbish")
        else:
            try:
                result = self._service.serve(request)
            except ErrorReply as refusal:
                self._outbox.refuse(request.id, refusal.code, refusal.text)
            else:
                if result is not None:
                    self._outbox.answer(request.id, result)

    def _die(self, method: str) -> None:
        self._outbox.request_action(
            ProcessAction("log", text=f"scripted: told to die at {method}\n")
        )
        self._outbox.request_action(ProcessAction("exit", 1))
