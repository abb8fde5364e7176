"""The ACP methods of the scripted agent, and the turns that they start."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from .conversations import SavedConversations
from .steps import run_script
from .turn import (
    MODES,
    ActionWait,
    Conversation,
    EngineState,
    McpCall,
    OutputWait,
    ReplyWait,
    ScriptTurn,
    TimeWait,
)
from .wire import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    UNKNOWN_METHOD,
    ClientReply,
    ClientRequest,
    ErrorReply,
    Json,
    MessageId,
    ProcessAction,
)

_BLOCKS: Final = ("text", "resource_link")
_ATTACHMENTS: Final = ("image", "audio", "resource")


class Service:
    """The conversations of one connection, and their running scripts."""

    def __init__(self, engine_state: EngineState, saved: SavedConversations) -> None:
        self._engine_state = engine_state
        self._saved = saved
        self._is_initialized = False
        self._is_authenticated = engine_state.flags.auth is None
        self._sessions: dict[str, Conversation] = {}
        # Includes turns whose prompt is answered while their script runs on.
        self._turns: list[ScriptTurn] = []
        self._methods = self._method_table()

    def serve(self, request: ClientRequest) -> Json | None:
        """Serve a request; return None if the answer comes later.

        Raise `ErrorReply` to refuse it.
        """
        method = self._methods.get(request.method)
        if method is None:
            raise ErrorReply(UNKNOWN_METHOD, f"unknown method {request.method}")
        if self._is_initialized == (request.method == "initialize"):
            raise ErrorReply(INVALID_REQUEST, "initialize must be the first request, and only once")
        return method(request)

    def cancel(self, params: Json) -> None:
        """Cancel the running turn of a session."""
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None and session.turn is not None:
            session.turn.cancel()

    def cancel_request(self, request: MessageId) -> None:
        """Cancel the turn that answers that request."""
        for turn in self._turns:
            if turn.request_id == request:
                turn.cancel_request()

    def on_client_reply(self, reply: ClientReply) -> None:
        """Resume the turn that waits for this answer; ignore an answer that no turn waits for."""
        for turn in self._turns:
            if isinstance(turn.wait, ReplyWait) and turn.wait.request == reply.id:
                turn.resume(reply)
                return

    def on_action_done(self, action: ProcessAction, output: str) -> None:
        """Resume the turn that waits for this action."""
        for turn in self._turns:
            if isinstance(turn.wait, ActionWait) and turn.wait.action == action:
                turn.resume(output)
                return

    def on_server_line(self, line: bytes) -> None:
        """Resume the turn that waits for this answer of an MCP server; ignore other lines."""
        try:
            answer = json.loads(line)
        except ValueError:
            return
        for turn in self._turns if isinstance(answer, dict) else ():
            if isinstance(turn.wait, McpCall) and turn.wait.request == answer.get("id"):
                turn.resume(answer)
                return

    def on_server_end(self) -> None:
        """Resume the turns that wait for an MCP server, which has ended."""
        for session in self._sessions.values():
            session.has_greeted_server = False
        for turn in self._turns:
            if isinstance(turn.wait, McpCall):
                turn.resume({"error": {"code": 0, "message": "the MCP server has ended"}})

    def run(self) -> None:
        """Run all turns until each waits or is over."""
        for turn in self._turns:
            while not turn.is_over and self._is_ready(turn):
                if turn.has_started:
                    turn.resume(None)
                else:
                    turn.start(run_script(turn))
            turn.take_steering()
            if turn.is_over:
                self._save(turn.session)
        self._turns = [turn for turn in self._turns if not turn.is_over]

    def next_deadline(self) -> float | None:
        """Return the time at which a turn next continues without input.

        Return None if all turns wait for input.
        """
        now = self._engine_state.outbox.now
        times = [turn.wait.until for turn in self._turns if isinstance(turn.wait, TimeWait)]
        times += [now for turn in self._turns if self._is_ready(turn)]
        return min((time for time in times if time is not None), default=None)

    # Methods --------------------------------------------------------------------------------

    def _method_table(self) -> dict[str, Callable[[ClientRequest], Json | None]]:
        flags = self._engine_state.flags
        methods: tuple[tuple[str, Callable[[ClientRequest], Json | None], bool], ...] = (
            ("initialize", self._initialize, True),
            ("session/new", self._new, True),
            ("session/prompt", self._prompt, True),
            ("authenticate", self._authenticate, flags.auth is not None),
            ("session/load", self._load, flags.load),
            ("session/resume", self._resume, flags.resume),
            ("session/close", self._close, flags.close),
            ("session/set_mode", self._set_mode, flags.modes),
            ("session/set_config_option", self._set_option, flags.config_options),
            ("_session/steering", self._steer, flags.steering is not None),
        )
        return {method: serve for method, serve, is_served in methods if is_served}

    def _initialize(self, request: ClientRequest) -> Json:
        flags = self._engine_state.flags
        self._is_initialized = True
        self._engine_state.client = request.params.get("clientCapabilities") or {}
        blocks = dict.fromkeys(("image", "audio", "embeddedContext"), flags.attachments)
        supported = {"resume": flags.resume, "close": flags.close}
        answer: Json = {
            "protocolVersion": flags.protocol,
            "agentInfo": {"name": "scripted", "version": "1"},
            "agentCapabilities": {
                "loadSession": flags.load,
                "promptCapabilities": blocks,
                "mcpCapabilities": {"http": flags.mcp, "sse": flags.mcp},
                "sessionCapabilities": {name: {} for name, has in supported.items() if has},
            },
            "authMethods": [],
        }
        if flags.auth is not None:
            answer["authMethods"] = [{"id": flags.auth, "name": flags.auth}]
        if flags.steering is not None:
            answer["_meta"] = {"steering": {"supported": True}}
        return answer

    def _authenticate(self, request: ClientRequest) -> Json:
        if request.params.get("methodId") != self._engine_state.flags.auth:
            raise ErrorReply(INVALID_PARAMS, "unknown authentication method")
        self._is_authenticated = True
        return {}

    def _new(self, request: ClientRequest) -> Json:
        session = self._open(self._saved.new_conversation_id(), request.params, saved={})
        self._save(session)
        return {"sessionId": session.id, **self._modes_and_options(session)}

    def _load(self, request: ClientRequest) -> Json:
        session = self._reopen(request.params)
        self._replay(session)
        return self._modes_and_options(session)

    def _resume(self, request: ClientRequest) -> Json:
        session = self._reopen({"mcpServers": [], **request.params})
        if self._engine_state.flags.resume_replays:
            self._replay(session)
        return self._modes_and_options(session)

    def _close(self, request: ClientRequest) -> Json:
        session = self._session(request.params)
        if session.turn is not None:
            session.turn.cancel()
        del self._sessions[session.id]
        return {}

    def _set_mode(self, request: ClientRequest) -> Json:
        session = self._session(request.params)
        mode = request.params.get("modeId")
        if mode not in MODES:
            raise ErrorReply(INVALID_PARAMS, "unknown mode")
        session.mode = mode
        self._save(session)
        return {}

    def _set_option(self, request: ClientRequest) -> Json:
        session = self._session(request.params)
        name, value = str(request.params.get("configId")), request.params.get("value")
        if not session.choose(name, value, self._engine_state.client):
            raise ErrorReply(INVALID_PARAMS, "unknown option or value")
        self._save(session)
        return {"configOptions": session.config_options(self._engine_state.client)}

    def _prompt(self, request: ClientRequest) -> None:
        session = self._session(request.params)
        blocks = self._blocks(request.params)
        if session.turn is not None:
            self._engine_state.overlaps += 1
            self._engine_state.outbox.request_action(
                ProcessAction("log", text="scripted: a prompt for a busy session\n")
            )
            raise ErrorReply(INVALID_REQUEST, f"session {session.id} is busy with another prompt")
        self._begin(ScriptTurn(self._engine_state, session, blocks, request=request.id))

    def _steer(self, request: ClientRequest) -> Json:
        session = self._session(request.params)
        blocks = self._blocks(request.params)
        outcome = self._engine_state.flags.steering
        if outcome == "injected" and session.turn is None:
            outcome = _when_idle(request.params)
        if outcome == "promptRequired":
            return {"outcome": outcome, "reason": "noRunningTurn"}
        turn = ScriptTurn(self._engine_state, session, blocks, is_answer_pending=False)
        if outcome == "injected" and session.turn is not None:
            self._remember(session, blocks)
            session.turn.steer(turn.script)
        else:
            # The end of this turn is not reported to the client.
            if session.turn is not None:
                session.turn.end()
            self._begin(turn)
        return {"outcome": outcome}

    # Helpers --------------------------------------------------------------------------------
    def _is_ready(self, turn: ScriptTurn) -> bool:
        match turn.wait:
            case TimeWait(until):
                return until is not None and until <= self._engine_state.outbox.now
            case OutputWait():
                return not self._engine_state.outbox.is_full
        return False

    def _begin(self, turn: ScriptTurn) -> None:
        turn.session.turn = turn
        turn.session.turns += 1
        self._remember(turn.session, [*turn.context, {"type": "text", "text": turn.script}])
        self._save(turn.session)
        self._turns.append(turn)

    def _session(self, params: Json) -> Conversation:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise ErrorReply(NOT_FOUND, f"unknown session {params.get('sessionId')}")
        return session

    def _blocks(self, params: Json) -> list[Json]:
        blocks = params.get("prompt")
        allowed = _BLOCKS + (_ATTACHMENTS if self._engine_state.flags.attachments else ())
        if not isinstance(blocks, list) or not all(_is_block(block, allowed) for block in blocks):
            raise ErrorReply(INVALID_PARAMS, f"prompt must be a list of {', '.join(allowed)}")
        return blocks

    def _open(self, name: str, params: Json, saved: Json) -> Conversation:
        if not self._is_authenticated:
            raise ErrorReply(AUTH_REQUIRED, "authentication required")
        cwd, servers = params.get("cwd"), params.get("mcpServers")
        if not isinstance(cwd, str) or not cwd.startswith("/"):
            raise ErrorReply(INVALID_PARAMS, "cwd must be an absolute path")
        if not isinstance(servers, list) or not all(map(self._is_server, servers)):
            raise ErrorReply(INVALID_PARAMS, "mcpServers must be a list of supported servers")
        session = self._sessions[name] = Conversation(name, cwd, servers, saved)
        return session

    def _reopen(self, params: Json) -> Conversation:
        name = str(params.get("sessionId"))
        saved = self._saved.load(name)
        if saved is None:
            raise ErrorReply(NOT_FOUND, f"unknown session {name}")
        known = self._sessions.get(name)
        if known is not None and known.turn is not None:
            raise ErrorReply(INVALID_REQUEST, f"session {name} is busy with a prompt")
        return self._open(name, params, saved)

    def _is_server(self, server: object) -> bool:
        if not isinstance(server, dict) or not isinstance(server.get("name"), str):
            return False
        return server.get("type", "stdio") == "stdio" or self._engine_state.flags.mcp

    def _modes_and_options(self, session: Conversation) -> Json:
        return session.modes_and_options(self._engine_state.flags, self._engine_state.client)

    def _replay(self, session: Conversation) -> None:
        for update in session.history:
            params = {"sessionId": session.id, "update": update}
            self._engine_state.outbox.notify("session/update", params)

    def _remember(self, session: Conversation, blocks: list[Json]) -> None:
        for block in blocks:
            session.history.append({"sessionUpdate": "user_message_chunk", "content": block})

    def _save(self, session: Conversation) -> None:
        self._saved.save(session.id, session.saved_state())


def _is_block(block: object, allowed: tuple[str, ...]) -> bool:
    if not isinstance(block, dict) or block.get("type") not in allowed:
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _when_idle(params: Json) -> str:
    """Return the outcome of steering while no turn runs; the client chooses it in the params."""
    options = (params.get("_meta") or {}).get("steering") or {}
    return "promptRequired" if options.get("idleBehavior") == "promptRequired" else "startedNewTurn"
