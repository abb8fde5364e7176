"""Steps that no proper agent would take: each is a way to go wrong that clients must live with."""

from __future__ import annotations

import json
from typing import Any, Final

from supervisor.core.errors import ConfigError, shown
from supervisor.drivers.scripted.amounts import number, whole
from supervisor.drivers.scripted.turn import Cancelled, Step, Turn, Waiting
from supervisor.drivers.scripted.wants import Want
from supervisor.drivers.scripted.wire import Refusal

PIECE_BYTES: Final = 16_384
# A slip of the pen in a script is not to be the end of the machine.
MAX_CHILDREN: Final = 1000


# Its process --------------------------------------------------------------------------------


def fork(turn: Turn, count: str) -> Waiting[None]:
    """Starts children that only sleep, one if no number is given, and thinks of their pids."""
    children = whole("fork", count or "1")
    if children > MAX_CHILDREN:
        raise ConfigError(f"fork {children} is too many", hint=f"at most {MAX_CHILDREN} at once")
    pids = yield from turn.order(Want("fork", children))
    turn.think(f"forked {pids}\n")


def setsid(turn: Turn, _: str) -> Waiting[None]:
    """Starts a sleeper in a session of its own, double forked, and thinks of its pid."""
    pid = yield from turn.order(Want("detach"))
    turn.think(f"detached {pid}\n")


def ignore_term(turn: Turn, _: str) -> Waiting[None]:
    """Can only be killed: ignores SIGTERM, as will children it starts, and the end of its input."""
    turn.around.leaves_at_end = False
    yield from turn.order(Want("ignore_term"))


def stop_self(turn: Turn, _: str) -> Waiting[None]:
    """Stops its process with SIGSTOP."""
    yield from turn.order(Want("stop"))


def leave(turn: Turn, code: str) -> Waiting[None]:
    """Ends its process with that code, in the middle of the turn."""
    yield from turn.order(Want("exit", whole("exit", code)))


def log(turn: Turn, text: str) -> Waiting[None]:
    """Writes a line to standard error."""
    yield from turn.order(Want("log", text=f"{text}\n"))


# Its input and output -----------------------------------------------------------------------


def deaf(turn: Turn, _: str) -> Waiting[None]:
    """Never reads its standard input again, and so does not see the end of it either."""
    yield from turn.order(Want("deafen"))


def ignore_eof(turn: Turn, _: str) -> None:
    """Goes on when its standard input ends."""
    turn.around.leaves_at_end = False


def close_stdout(turn: Turn, _: str) -> Waiting[None]:
    """Closes its standard output, and goes on."""
    yield from turn.order(Want("close_output"))


def spew(turn: Turn, count: str) -> Waiting[None]:
    """Writes so many bytes to standard output, and no end of line."""
    left = whole("spew", count)
    while left:
        piece = min(left, PIECE_BYTES)
        turn.around.outbox.write(b"x" * piece)
        left -= piece
        yield from turn.room()


def spew_stderr(turn: Turn, count: str) -> Waiting[None]:
    """Writes so many bytes to standard error, and no end of line."""
    left = whole("spew-stderr", count)
    while left:
        piece = min(left, PIECE_BYTES)
        yield from turn.order(Want("log", text="x" * piece))
        left -= piece


def raw(turn: Turn, text: str) -> None:
    """Writes the text to standard output as a line, whatever it is."""
    turn.around.outbox.write(f"{text}\n".encode(errors="replace"))


# The protocol -------------------------------------------------------------------------------


def answer(turn: Turn, reason: str) -> None:
    """Answers the prompt now (`end_turn`, if there is no other reason), and plays on."""
    turn.answer(turn.result(reason or "end_turn"))


def reply(turn: Turn, text: str) -> None:
    """Answers the prompt now with that JSON, and plays on."""
    turn.answer(_json("reply", text))


def error(_turn: Turn, rest: str) -> None:
    """Fails the turn with that code, which may be any number, and text."""
    code, _, text = rest.partition(" ")
    try:
        read = int(code)
    except ValueError:
        raise ConfigError(
            f"error {shown(code)} is no code", hint="write: error CODE TEXT"
        ) from None
    raise Refusal(read, text)


def update(turn: Turn, rest: str) -> None:
    """Sends news of that kind, known or not, with what the JSON says, if there is any."""
    kind, _, text = rest.partition(" ")
    turn.update(kind, _object("update", text))


def notify(turn: Turn, rest: str) -> None:
    """Sends a notification, known or not, with what the JSON says, if there is any."""
    method, _, text = rest.partition(" ")
    turn.around.outbox.notify(method, _object("notify", text))


def call(turn: Turn, rest: str) -> Waiting[None]:
    """Asks the client something, known or not, and says what it answers."""
    method, _, text = rest.partition(" ")
    got = yield from turn.ask(method, _object("call", text))
    said = {"error": got.error} if got.error is not None else {"result": got.result}
    turn.say(f"{method}: {json.dumps(said)}\n")


def linger(turn: Turn, seconds: str) -> Waiting[None]:
    """Does nothing; when it is cancelled, says `late` and takes so long to end."""
    lingers = number("linger", seconds)
    try:
        yield from turn.pause(None)
    except Cancelled:
        turn.say("late\n")
        yield from turn.pause(lingers)
        raise


STEPS: Final[dict[str, Step]] = {
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
    "call METHOD [JSON]": call,
    "linger SECONDS": linger,
}


def _json(step: str, text: str) -> Any:  # noqa: ANN401 - whatever it says
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"{step} {shown(text)} is no JSON", hint="write some") from None


def _object(step: str, text: str) -> dict[str, Any]:
    read = _json(step, text or "{}")
    if not isinstance(read, dict):
        raise ConfigError(f"{step} {shown(text)} is no JSON object", hint='write: {"name": 1}')
    return read
