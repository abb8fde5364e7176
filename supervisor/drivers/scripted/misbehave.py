"""Steps that a correct agent never takes; clients must handle each of them."""

from __future__ import annotations

import json
from typing import Any, Final

from supervisor.core.errors import ConfigError, short_repr
from supervisor.drivers.scripted.flags import parse_number, parse_whole_number

from .turn import ScriptTurn, Step, TurnCancelled, Waiting
from .wire import ErrorReply, ProcessAction

CHUNK_BYTES: Final = 16_384
# A typing error in a script must not bring the machine down.
MAX_CHILDREN: Final = 1000


# The process --------------------------------------------------------------------------------


def fork(turn: ScriptTurn, count: str) -> Waiting[None]:
    """Start COUNT children that only sleep (default 1), and send their pids as a thought."""
    children = parse_whole_number("fork", count or "1")
    if children > MAX_CHILDREN:
        raise ConfigError(f"fork {children} is too many", hint=f"at most {MAX_CHILDREN} at once")
    pids = yield from turn.perform(ProcessAction("fork", children))
    turn.think(f"forked {pids}\n")


def setsid(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Start a child in a session of its own, double forked, and send its pid as a thought."""
    pid = yield from turn.perform(ProcessAction("detach"))
    turn.think(f"detached {pid}\n")


def ignore_term(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Ignore SIGTERM and the end of the input; children inherit the first."""
    turn.engine_state.exits_at_eof = False
    yield from turn.perform(ProcessAction("ignore_term"))


def stop_self(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Stop the process with SIGSTOP."""
    yield from turn.perform(ProcessAction("stop"))


def leave(turn: ScriptTurn, code: str) -> Waiting[None]:
    """Exit with CODE during the turn."""
    yield from turn.perform(ProcessAction("exit", parse_whole_number("exit", code)))


def log(turn: ScriptTurn, text: str) -> Waiting[None]:
    """Write a line to standard error."""
    yield from turn.perform(ProcessAction("log", text=f"{text}\n"))


# Input and output ---------------------------------------------------------------------------


def deaf(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Stop reading standard input, and so miss its end too."""
    yield from turn.perform(ProcessAction("deafen"))


def ignore_eof(turn: ScriptTurn, _: str) -> None:
    """Ignore the end of standard input."""
    turn.engine_state.exits_at_eof = False


def close_stdout(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Close standard output and go on."""
    yield from turn.perform(ProcessAction("close_output"))


def spew(turn: ScriptTurn, count: str) -> Waiting[None]:
    """Write BYTES bytes to standard output, without a newline."""
    left = parse_whole_number("spew", count)
    while left:
        size = min(left, CHUNK_BYTES)
        turn.engine_state.outbox.write(b"x" * size)
        left -= size
        yield from turn.wait_for_output()


def spew_stderr(turn: ScriptTurn, count: str) -> Waiting[None]:
    """Write BYTES bytes to standard error, without a newline."""
    left = parse_whole_number("spew-stderr", count)
    while left:
        size = min(left, CHUNK_BYTES)
        yield from turn.perform(ProcessAction("log", text="x" * size))
        left -= size


def raw(turn: ScriptTurn, text: str) -> None:
    """Write TEXT to standard output as a line, unchanged."""
    turn.engine_state.outbox.write(f"{text}\n".encode(errors="replace"))


# The protocol -------------------------------------------------------------------------------


def answer(turn: ScriptTurn, reason: str) -> None:
    """Answer the prompt now (`end_turn` without a REASON), and go on."""
    turn.answer(turn.result(reason or "end_turn"))


def reply(turn: ScriptTurn, text: str) -> None:
    """Answer the prompt now with JSON, and go on."""
    turn.answer(_json("reply", text))


def error(_turn: ScriptTurn, rest: str) -> None:
    """Answer the prompt with an error: CODE, which is any number, and TEXT."""
    code, _, text = rest.partition(" ")
    try:
        number = int(code)
    except ValueError:
        raise ConfigError(
            f"error {short_repr(code)} is not a code", hint="write: error CODE TEXT"
        ) from None
    raise ErrorReply(number, text)


def update(turn: ScriptTurn, rest: str) -> None:
    """Send a session update of KIND, known or not, with the fields of JSON."""
    kind, _, text = rest.partition(" ")
    turn.update(kind, _object("update", text))


def notify(turn: ScriptTurn, rest: str) -> None:
    """Send the notification METHOD, known or not, with JSON as params."""
    method, _, text = rest.partition(" ")
    turn.engine_state.outbox.notify(method, _object("notify", text))


def request(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Send the request METHOD, known or not, to the client, and say its answer."""
    method, _, text = rest.partition(" ")
    reply = yield from turn.ask(method, _object("request", text))
    shown = {"error": reply.error} if reply.error is not None else {"result": reply.result}
    turn.say(f"{method}: {json.dumps(shown)}\n")


def linger(turn: ScriptTurn, seconds: str) -> Waiting[None]:
    """Wait for ever; when cancelled, say `late` and take SECONDS to end."""
    delay = parse_number("linger", seconds)
    try:
        yield from turn.pause(None)
    except TurnCancelled:
        turn.say("late\n")
        yield from turn.pause(delay)
        raise


MISBEHAVE_STEPS: Final[dict[str, Step]] = {
    "fork [COUNT]": fork,
    "setsid": setsid,
    "ignore-term": ignore_term,
    "stop-self": stop_self,
    "exit CODE": leave,
    "log TEXT": log,
    "deaf": deaf,
    "ignore-eof": ignore_eof,
    "close-stdout": close_stdout,
    "spew BYTES": spew,
    "spew-stderr BYTES": spew_stderr,
    "raw TEXT": raw,
    "answer [REASON]": answer,
    "reply JSON": reply,
    "error CODE TEXT": error,
    "update KIND [JSON]": update,
    "notify METHOD [JSON]": notify,
    "request METHOD [JSON]": request,
    "linger SECONDS": linger,
}


def _json(step: str, text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(
            f"{step} {short_repr(text)} is not JSON", hint="write a JSON value"
        ) from None


def _object(step: str, text: str) -> dict[str, Any]:
    value = _json(step, text or "{}")
    if not isinstance(value, dict):
        raise ConfigError(
            f"{step} {short_repr(text)} is not a JSON object", hint='write: {"name": 1}'
        )
    return value
