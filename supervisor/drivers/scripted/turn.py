"""The turn of a script: the operations of a step, and the events that a step can wait for.

Rule 1: a step is a function of the turn and the rest of its line. A step that waits is a generator
        that yields a wait object; `service` resumes it.
Rule 2: in a cancelled turn `TurnCancelled` is raised where the step waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from supervisor.core.errors import ConfigError

from .flags import Flags
from .wire import (
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    ClientReply,
    EngineOutbox,
    ErrorReply,
    Json,
    MessageId,
    ProcessAction,
)

MAX_HISTORY: Final = 10_000
MODES: Final = {"code": "Code", "ask": "Ask"}
MODELS: Final = {"small": "Small", "large": "Large"}
EFFORTS: Final = {"low": "Low", "high": "High"}
# The values of the options of a new conversation.
DEFAULTS: Final[Json] = {"model": "small", "brief": False, "thinking": "low"}


class Conversation:
    """A conversation: its settings and its history."""

    def __init__(self, name: str, cwd: str, servers: list[Json], saved: Json | None = None) -> None:
        saved = saved or {}
        self.id = name
        self.cwd = cwd
        self.servers = servers
        self.mode: str = saved.get("mode", "code")
        self.options: Json = DEFAULTS | saved.get("options", {})
        self.tokens: int = saved.get("tokens", 0)
        # The newest updates, as they were sent.
        self.history: deque[Json] = deque(saved.get("history", ()), maxlen=MAX_HISTORY)
        # Invariant: set from a prompt until its answer; another prompt is refused meanwhile.
        self.turn: ScriptTurn | None = None
        # Whether the MCP server `understudy` was greeted.
        self.has_greeted_server = False
        # Saved when a turn starts, so that call ids are never reused.
        self.turns: int = saved.get("turns", 0)
        self._calls = 0

    def new_call_id(self) -> str:
        """Return a tool call id that is unique in the conversation, over all processes."""
        self._calls += 1
        return f"call-{self.turns}-{self._calls}"

    def saved_state(self) -> Json:
        """Return the state to save."""
        return {
            "mode": self.mode,
            "options": self.options,
            "tokens": self.tokens,
            "turns": self.turns,
            "history": list(self.history),
        }

    def modes_and_options(self, flags: Flags, client: Json) -> Json:
        """Return the fields of modes and options for answers that open a session."""
        fields: Json = {}
        if flags.modes:
            available = [{"id": mode, "name": name} for mode, name in MODES.items()]
            fields["modes"] = {"currentModeId": self.mode, "availableModes": available}
        if flags.config_options:
            fields["configOptions"] = self.config_options(client)
        return fields

    def config_options(self, client: Json) -> list[Json]:
        """Return the options; boolean options only if the client supports them."""
        options = [self._select("model", "Model", "model", MODELS)]
        if supports_boolean_options(client):
            brief = {"id": "brief", "name": "Brief", "currentValue": self.options["brief"]}
            options.append({"type": "boolean", **brief})
        return [*options, self._select("thinking", "Thinking", "thought_level", EFFORTS)]

    def _select(self, option: str, name: str, category: str, values: Mapping[str, str]) -> Json:
        return {
            "type": "select",
            "id": option,
            "name": name,
            "category": category,
            "currentValue": self.options[option],
            "options": [{"value": value, "name": label} for value, label in values.items()],
        }

    def choose(self, option: str, value: object, client: Json) -> bool:
        """Set an option; return False if the conversation has no such option or value."""
        if option == "brief":
            is_offered = isinstance(value, bool) and supports_boolean_options(client)
        else:
            is_offered = value in SELECTS.get(option, ())
        if is_offered:
            self.options[option] = value
        return is_offered


SELECTS: Final[Mapping[str, Mapping[str, str]]] = {"model": MODELS, "thinking": EFFORTS}


def supports_boolean_options(client: Json) -> bool:
    """Return True if the client supports boolean options."""
    supported = (client.get("session") or {}).get("configOptions") or {}
    return supported.get("boolean") is not None


T = TypeVar("T")


class TurnCancelled(Exception):
    """Raised in a step when its turn is cancelled."""


class TimeWait(NamedTuple):
    """A wait until the given time; for ever if it is None."""

    until: float | None


class ReplyWait(NamedTuple):
    """A wait for the client's answer to the given request."""

    request: int


class ActionWait(NamedTuple):
    """A wait until the host has performed the action."""

    action: ProcessAction


class OutputWait(NamedTuple):
    """A wait until the host has taken enough of the queued output."""


class McpCall(NamedTuple):
    """A wait for the answer of an MCP server to the given request."""

    request: int


class SteeringWait(NamedTuple):
    """A wait for steering with the text `enough`."""


Wait: TypeAlias = TimeWait | ReplyWait | ActionWait | OutputWait | McpCall | SteeringWait

Waiting: TypeAlias = Generator[Wait, object, T]

Step: TypeAlias = Callable[["ScriptTurn", str], Waiting[None] | None]


class EngineState:
    """The state of the agent that all its conversations share."""

    def __init__(self, flags: Flags, environment: Mapping[str, str]) -> None:
        self.flags = flags
        self.environment = environment
        self.outbox = EngineOutbox(swaps_answers=flags.out_of_order)
        # The client's capabilities.
        self.client: Json = {}
        # The number of prompts that arrived for a session with a running turn.
        self.overlaps = 0
        # False if the agent ignores the end of its input.
        self.exits_at_eof = True
        self._mcp_calls = 0

    def next_mcp_call(self) -> int:
        """Return an unused id for a request to an MCP server."""
        self._mcp_calls += 1
        return self._mcp_calls


class ScriptTurn:
    """One script, its conversation, and the request that it answers."""

    def __init__(
        self,
        engine_state: EngineState,
        session: Conversation,
        blocks: Sequence[Json],
        *,
        request: MessageId = None,
        is_answer_pending: bool = True,
    ) -> None:
        self.engine_state = engine_state
        self.session = session
        self.request_id = request
        # True while the client waits for the answer to `request_id`.
        self.is_answer_pending = is_answer_pending
        self.is_over = False
        self.ignores_cancel = False
        texts = [place for place, block in enumerate(blocks) if block.get("type") == "text"]
        # The last text is the script; a client may send context in blocks before it.
        self.script: str = blocks[texts[-1]]["text"] if texts else ""
        self.context = [block for place, block in enumerate(blocks) if place not in texts[-1:]]
        self.tokens = 0
        self.wait: Wait = TimeWait(engine_state.outbox.now)
        self._can_answer = is_answer_pending
        self._steered: list[str] = []
        self._script_generator: Waiting[None] | None = None

    # Used by steps --------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Send agent text."""
        self._send_text("agent_message_chunk", text)

    def think(self, text: str) -> None:
        """Send a thought."""
        self._send_text("agent_thought_chunk", text)

    def update(self, kind: str, body: Mapping[str, Any]) -> None:
        """Send a session update of that kind and add it to the history."""
        update = {"sessionUpdate": kind, **body}
        self.session.history.append(update)
        self.engine_state.outbox.notify(
            "session/update", {"sessionId": self.session.id, "update": update}
        )

    def begin_call(self, title: str, **more: object) -> str:
        """Start a tool call; return its id."""
        call = self.session.new_call_id()
        body = {"toolCallId": call, "title": title, "status": "in_progress", **more}
        self.update("tool_call", body)
        return call

    def end_call(self, call: str, *, status: str, result: str | None = None) -> None:
        """Report the end of a tool call."""
        body: Json = {"toolCallId": call, "status": status}
        if result is not None:
            body["rawOutput"] = result
        self.update("tool_call_update", body)

    def answer(self, result: object) -> None:
        """Answer the prompt, even if it was answered before."""
        if self._can_answer:
            self.engine_state.outbox.answer(self.request_id, result)
        self._mark_answered()

    def result(self, stop_reason: str) -> Json:
        """Return the answer to the prompt, with this stop reason."""
        if not self.engine_state.flags.usage:
            return {"stopReason": stop_reason}
        used = {"totalTokens": self.tokens, "inputTokens": 0, "outputTokens": self.tokens}
        return {"stopReason": stop_reason, "usage": used}

    def pause(self, seconds: float | None) -> Waiting[None]:
        """Wait for the given seconds; for ever if they are None."""
        yield TimeWait(None if seconds is None else self.engine_state.outbox.now + seconds)

    def wait_for_output(self) -> Waiting[None]:
        """Wait until the host has taken enough of the queued output."""
        while self.engine_state.outbox.is_full:
            yield OutputWait()

    def wait_for_steering(self) -> Waiting[None]:
        """Wait for steering with the text `enough`."""
        yield SteeringWait()

    def perform(self, action: ProcessAction) -> Waiting[str]:
        """Request an action, wait until it is done, and return its output."""
        self.engine_state.outbox.request_action(action)
        output = yield ActionWait(action)
        assert isinstance(output, str)
        return output

    def ask(self, method: str, params: Json) -> Waiting[ClientReply]:
        """Send a request about this session to the client, and wait for the answer."""
        reply = yield ReplyWait(self.send(method, params))
        assert isinstance(reply, ClientReply)
        return reply

    def send(self, method: str, params: Json) -> int:
        """Send a request about this session to the client; return its id without waiting."""
        return self.engine_state.outbox.request(method, {"sessionId": self.session.id, **params})

    # Used by the service --------------------------------------------------------------------

    def start(self, script: Waiting[None]) -> None:
        """Run the script until its first wait."""
        self._script_generator = script
        self.resume(None)

    @property
    def has_started(self) -> bool:
        """True once the script was started."""
        return self._script_generator is not None

    def resume(self, value: object) -> None:
        """Continue the script with the value that it waited for."""
        script = self._script_generator
        assert script is not None
        self._run(lambda: script.send(value))

    def cancel(self) -> None:
        """Cancel the script, unless the script ignores cancellation."""
        if self.ignores_cancel or self.is_over:
            return
        if isinstance(self.wait, ReplyWait):
            # The client may still wait for a person to answer it.
            self.engine_state.outbox.notify("$/cancel_request", {"requestId": self.wait.request})
        script = self._script_generator
        if script is None:
            self._end_with(self.result("cancelled"))
        else:
            self._run(lambda: script.throw(TurnCancelled()))

    def cancel_request(self) -> None:
        """Answer the cancelled prompt with an error, and cancel the script."""
        if self.is_answer_pending and not self.ignores_cancel:
            self.engine_state.outbox.refuse(self.request_id, REQUEST_CANCELLED, "request cancelled")
            self._mark_answered()
            self.cancel()

    def end(self) -> None:
        """Answer the prompt with `end_turn`, and cancel the script."""
        if self.is_answer_pending:
            self.answer(self.result("end_turn"))
        self._mark_answered()
        self.cancel()

    def steer(self, text: str) -> None:
        """Add a steering text, which the turn sends as agent text the next time it runs."""
        self._steered.append(text)

    def take_steering(self) -> None:
        """Send the steering texts as agent text; `enough` resumes a step that waits for it."""
        steered, self._steered = self._steered, []
        for text in steered:
            self.say(f"{text}; ")
            if text == "enough" and isinstance(self.wait, SteeringWait):
                self.resume(None)

    def _send_text(self, kind: str, text: str) -> None:
        if text:
            self.update(kind, {"content": {"type": "text", "text": text}})

    def _mark_answered(self) -> None:
        self.is_answer_pending = False
        if self.session.turn is self:
            self.session.turn = None

    def _run(self, advance: Callable[[], Wait]) -> None:
        try:
            self.wait = advance()
        except StopIteration:
            self._end_with(self.result("end_turn"))
        except TurnCancelled:
            self._end_with(self.result("cancelled"))
        except ErrorReply as refusal:
            self._fail(refusal.code, refusal.text)
        except ConfigError as error:
            self._fail(INTERNAL_ERROR, str(error))

    def _end_with(self, result: Json) -> None:
        self.is_over = True
        if self.is_answer_pending:
            self.answer(result)
        self._mark_answered()

    def _fail(self, code: int, text: str) -> None:
        self.is_over = True
        if self.is_answer_pending:
            self.engine_state.outbox.refuse(self.request_id, code, text)
        else:
            self.engine_state.outbox.request_action(
                ProcessAction("log", text=f"scripted: {text}\n")
            )
        self._mark_answered()
