"""What the agent does for a client: the methods that it serves, and the turns they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .sessions import MODELS, MODES, Session, Shelf, knows_booleans
from .steps.language import play
from .turn import Answer, Done, Pause, Room, Surroundings, Turn
from .wants import Want
from .wire import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    UNKNOWN_METHOD,
    Id,
    Json,
    Refusal,
    Reply,
    Request,
)

_BLOCKS: Final = ("text", "resource_link")
_ATTACHMENTS: Final = ("image", "audio", "resource")


class Service:
    """The sessions of one connection, and what is being played in them."""

    def __init__(self, around: Surroundings, shelf: Shelf) -> None:
        self._around = around
        self._shelf = shelf
        self._is_initialized = False
        self._is_authenticated = around.flags.auth is None
        self._sessions: dict[str, Session] = {}
        # Those that are answered and play on are among them.
        self._turns: list[Turn] = []
        self._methods = self._served()

    def serve(self, request: Request) -> Json | None:
        """Do what is asked; None if the answer comes later. Raises `Refusal`."""
        method = self._methods.get(request.method)
        if method is None:
            raise Refusal(UNKNOWN_METHOD, f"there is no method {request.method}")
        if self._is_initialized == (request.method == "initialize"):
            raise Refusal(INVALID_REQUEST, "initialize comes first, and once")
        return method(request)

    def cancel(self, params: Json) -> None:
        """End the turn that is under way in a session."""
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None and session.turn is not None:
            session.turn.cancel()

    def cancel_request(self, request: Id) -> None:
        """Nobody wants the answer to that request any more."""
        for turn in self._turns:
            if turn.request_id == request:
                turn.cancel_request()

    def hear_answer(self, reply: Reply) -> None:
        """The client has answered; if nobody waits for it any more, so be it."""
        for turn in self._turns:
            if isinstance(turn.wait, Answer) and turn.wait.request == reply.id:
                turn.go_on(reply)
                return

    def hear_done(self, want: Want, said: str) -> None:
        """An order was carried out."""
        for turn in self._turns:
            if isinstance(turn.wait, Done) and turn.wait.want == want:
                turn.go_on(said)
                return

    def run(self) -> None:
        """Play all that can be played just now."""
        for turn in self._turns:
            while not turn.is_over and self._is_ready(turn):
                if turn.has_begun:
                    turn.go_on(None)
                else:
                    turn.play(play(turn))
            turn.take_steering()
            if turn.is_over:
                self._keep(turn.session)
        self._turns = [turn for turn in self._turns if not turn.is_over]

    def next_deadline(self) -> float | None:
        """When a turn wants to go on by itself, if one does."""
        now = self._around.outbox.now
        times = [turn.wait.until for turn in self._turns if isinstance(turn.wait, Pause)]
        times += [now for turn in self._turns if self._is_ready(turn)]
        return min((time for time in times if time is not None), default=None)

    # Methods --------------------------------------------------------------------------------

    def _served(self) -> dict[str, Callable[[Request], Json | None]]:
        flags = self._around.flags
        methods: tuple[tuple[str, Callable[[Request], Json | None], bool], ...] = (
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

    def _initialize(self, request: Request) -> Json:
        flags = self._around.flags
        self._is_initialized = True
        self._around.client = request.params.get("clientCapabilities") or {}
        blocks = dict.fromkeys(("image", "audio", "embeddedContext"), flags.attachments)
        able = {"resume": flags.resume, "close": flags.close}
        answer: Json = {
            "protocolVersion": flags.protocol,
            "agentInfo": {"name": "scripted", "version": "1"},
            "agentCapabilities": {
                "loadSession": flags.load,
                "promptCapabilities": blocks,
                "mcpCapabilities": {"http": flags.mcp, "sse": flags.mcp},
                "sessionCapabilities": {name: {} for name, is_able in able.items() if is_able},
            },
            "authMethods": [],
        }
        if flags.auth is not None:
            answer["authMethods"] = [{"id": flags.auth, "name": flags.auth}]
        if flags.steering is not None:
            answer["_meta"] = {"steering": {"supported": True}}
        return answer

    def _authenticate(self, request: Request) -> Json:
        if request.params.get("methodId") != self._around.flags.auth:
            raise Refusal(INVALID_PARAMS, "there is no such method")
        self._is_authenticated = True
        return {}

    def _new(self, request: Request) -> Json:
        session = self._open(self._shelf.new_name(), request.params, kept={})
        self._keep(session)
        return {"sessionId": session.id, **self._choices(session)}

    def _load(self, request: Request) -> Json:
        session = self._reopen(request.params)
        self._replay(session)
        return self._choices(session)

    def _resume(self, request: Request) -> Json:
        session = self._reopen({"mcpServers": [], **request.params})
        if self._around.flags.resume_replays:
            self._replay(session)
        return self._choices(session)

    def _close(self, request: Request) -> Json:
        session = self._session(request.params)
        if session.turn is not None:
            session.turn.cancel()
        del self._sessions[session.id]
        return {}

    def _set_mode(self, request: Request) -> Json:
        session = self._session(request.params)
        mode = request.params.get("modeId")
        if mode not in MODES:
            raise Refusal(INVALID_PARAMS, "there is no such mode")
        session.mode = mode
        self._keep(session)
        return {}

    def _set_option(self, request: Request) -> Json:
        session = self._session(request.params)
        name, value = request.params.get("configId"), request.params.get("value")
        if name == "model" and value in MODELS:
            session.options["model"] = value
        elif name == "brief" and isinstance(value, bool) and knows_booleans(self._around.client):
            session.options["brief"] = value
        else:
            raise Refusal(INVALID_PARAMS, "there is no such option, or no such value")
        self._keep(session)
        return {"configOptions": session.config_options(self._around.client)}

    def _prompt(self, request: Request) -> None:
        session = self._session(request.params)
        blocks = self._blocks(request.params)
        if session.turn is not None:
            self._around.overlaps += 1
            self._around.outbox.want(Want("log", text="scripted: a prompt for a busy session\n"))
            raise Refusal(INVALID_REQUEST, f"session {session.id} is busy with another prompt")
        self._begin(Turn(self._around, session, blocks, request=request.id))

    def _steer(self, request: Request) -> Json:
        session = self._session(request.params)
        blocks = self._blocks(request.params)
        outcome = self._around.flags.steering
        if outcome == "injected" and session.turn is None:
            outcome = _when_idle(request.params)
        if outcome == "promptRequired":
            return {"outcome": outcome, "reason": "noRunningTurn"}
        begun = Turn(self._around, session, blocks, is_owed=False)
        if outcome == "injected" and session.turn is not None:
            self._remember(session, blocks)
            session.turn.steer(begun.script)
        else:
            # Nobody is ever told when this one is over.
            if session.turn is not None:
                session.turn.end()
            self._begin(begun)
        return {"outcome": outcome}

    # Inside ---------------------------------------------------------------------------------

    def _is_ready(self, turn: Turn) -> bool:
        match turn.wait:
            case Pause(until):
                return until is not None and until <= self._around.outbox.now
            case Room():
                return not self._around.outbox.is_full
        return False

    def _begin(self, turn: Turn) -> None:
        turn.session.turn = turn
        turn.session.turns += 1
        self._remember(turn.session, [*turn.context, {"type": "text", "text": turn.script}])
        self._keep(turn.session)
        self._turns.append(turn)

    def _session(self, params: Json) -> Session:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise Refusal(NOT_FOUND, f"there is no session {params.get('sessionId')}")
        return session

    def _blocks(self, params: Json) -> list[Json]:
        blocks = params.get("prompt")
        allowed = _BLOCKS + (_ATTACHMENTS if self._around.flags.attachments else ())
        if not isinstance(blocks, list) or not all(_is_block(block, allowed) for block in blocks):
            raise Refusal(INVALID_PARAMS, f"a prompt is a list of {', '.join(allowed)}")
        return blocks

    def _open(self, name: str, params: Json, kept: Json) -> Session:
        if not self._is_authenticated:
            raise Refusal(AUTH_REQUIRED, "authentication required")
        cwd, servers = params.get("cwd"), params.get("mcpServers")
        if not isinstance(cwd, str) or not cwd.startswith("/"):
            raise Refusal(INVALID_PARAMS, "cwd is an absolute path")
        if not isinstance(servers, list) or not all(map(self._is_server, servers)):
            raise Refusal(INVALID_PARAMS, "mcpServers is a list of servers that were offered")
        session = self._sessions[name] = Session(name, cwd, servers, kept)
        return session

    def _reopen(self, params: Json) -> Session:
        name = str(params.get("sessionId"))
        kept = self._shelf.load(name)
        if kept is None:
            raise Refusal(NOT_FOUND, f"there is no session {name}")
        known = self._sessions.get(name)
        if known is not None and known.turn is not None:
            raise Refusal(INVALID_REQUEST, f"session {name} is busy with a prompt")
        return self._open(name, params, kept)

    def _is_server(self, server: object) -> bool:
        if not isinstance(server, dict) or not isinstance(server.get("name"), str):
            return False
        return server.get("type", "stdio") == "stdio" or self._around.flags.mcp

    def _choices(self, session: Session) -> Json:
        return session.choices(self._around.flags, self._around.client)

    def _replay(self, session: Session) -> None:
        for update in session.history:
            said = {"sessionId": session.id, "update": update}
            self._around.outbox.notify("session/update", said)

    def _remember(self, session: Session, blocks: list[Json]) -> None:
        for block in blocks:
            session.history.append({"sessionUpdate": "user_message_chunk", "content": block})

    def _keep(self, session: Session) -> None:
        self._shelf.save(session.id, session.kept())


def _is_block(block: object, allowed: tuple[str, ...]) -> bool:
    if not isinstance(block, dict) or block.get("type") not in allowed:
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _when_idle(params: Json) -> str:
    """What becomes of steering when no turn runs: the client may have said what it wants."""
    said = (params.get("_meta") or {}).get("steering") or {}
    return "promptRequired" if said.get("idleBehavior") == "promptRequired" else "startedNewTurn"
