"""The steps that every scripted agent knows, in a process or not: DESIGN's language.

Rule: what a script does here it does in `drivers.builtin` too, down to the words of its errors.
"""

from __future__ import annotations

from typing import Final

from supervisor.core.errors import ConfigError, shown
from supervisor.drivers.scripted.amounts import number, whole
from supervisor.drivers.scripted.turn import Step, Turn, Waiting
from supervisor.drivers.scripted.wants import Want
from supervisor.drivers.scripted.wire import INTERNAL_ERROR, Json, Refusal

FLOOD_BYTES: Final = 100
CONTEXT_TOKENS: Final = 200_000
FLOOD_CHUNK: Final = "flood " * (FLOOD_BYTES // 6) + "over"


def say(turn: Turn, text: str) -> None:
    """Says it."""
    turn.say(text)


def think(turn: Turn, text: str) -> None:
    """Thinks it: it is on record and not in the text."""
    turn.think(text)


def tool(turn: Turn, rest: str) -> Waiting[None]:
    """A tool call that takes so long."""
    name, _, seconds = rest.rpartition(" ")
    if not name:
        raise ConfigError(f"tool {shown(rest)} has no seconds", hint="write: tool NAME SECONDS")
    call = turn.begin_call(name)
    try:
        yield from turn.pause(number("tool", seconds))
    except ConfigError:
        turn.end_call(call, status="failed")
        raise
    turn.end_call(call, status="completed", result="done")


def sleep(turn: Turn, seconds: str) -> Waiting[None]:
    """Does nothing for so long."""
    yield from turn.pause(number("sleep", seconds))


def ask(turn: Turn, name: str) -> Waiting[None]:
    """Asks whether it may use the tool, and says `allowed` or `rejected`."""
    if not name:
        raise ConfigError(f"a tool's name is {shown(name)}", hint="give some text")
    call = {"toolCallId": turn.session.new_call(), "title": name, "status": "pending"}
    is_allowed = yield from permission(turn, call)
    turn.say(f"{name}: {'allowed' if is_allowed else 'rejected'}\n")


def permission(turn: Turn, call: Json) -> Waiting[bool]:
    """Ask for a tool call, and wait for the answer; whatever is no permission is none."""
    kinds = {f"option-{place}": kind for place, kind in enumerate(turn.around.flags.offers, 1)}
    options = [
        {"optionId": option, "name": kind.replace("_", " "), "kind": kind}
        for option, kind in kinds.items()
    ]
    asked = {"toolCall": call, "options": options}
    reply = yield from turn.ask("session/request_permission", asked)
    outcome = reply.result.get("outcome") if isinstance(reply.result, dict) else None
    chosen = outcome.get("optionId") if isinstance(outcome, dict) else None
    return isinstance(chosen, str) and kinds.get(chosen, "").startswith("allow")


def spawn(_turn: Turn, rest: str) -> None:
    """Fails the turn, for no process can spawn a session."""
    agent, _, text = rest.partition(" ")
    if not text.strip():
        raise ConfigError(f"spawn {shown(rest)} has no text", hint="write: spawn AGENT TEXT")
    raise ConfigError(
        f"an agent in a process cannot spawn {shown(agent)}",
        hint="spawn it from the session, or with the scripted agent that is no process",
    )


def hang(turn: Turn, _: str) -> Waiting[None]:
    """Does nothing any more, and does not hear that it is cancelled."""
    turn.is_deaf = True
    yield from turn.pause(None)


def crash(turn: Turn, _: str) -> Waiting[None]:
    """Dies in the middle of the turn, with code 1."""
    yield from turn.order(Want("log", text="scripted: the script says crash\n"))
    yield from turn.order(Want("exit", 1))


def flood(turn: Turn, count: str) -> Waiting[None]:
    """Says so many texts of about 100 bytes."""
    for _ in range(whole("flood", count)):
        turn.say(FLOOD_CHUNK)
        yield from turn.room()


def fail(_: Turn, text: str) -> None:
    """Fails the turn: its prompt is answered with an error."""
    raise Refusal(INTERNAL_ERROR, text)


def use(turn: Turn, tokens: str) -> None:
    """Reports that so many tokens were used."""
    used = whole("use", tokens)
    turn.tokens += used
    turn.session.tokens += used
    turn.update("usage_update", {"used": turn.session.tokens, "size": CONTEXT_TOKENS})


STEPS: Final[dict[str, Step]] = {
    "say TEXT": say,
    "think TEXT": think,
    "tool NAME SECONDS": tool,
    "sleep SECONDS": sleep,
    "ask TOOL": ask,
    "spawn AGENT TEXT": spawn,
    "hang": hang,
    "crash": crash,
    "flood COUNT": flood,
    "fail TEXT": fail,
    "use TOKENS": use,
}
