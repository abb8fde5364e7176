"""The steps that this agent shares with `drivers/builtin.py`, the table of all steps, `run_script`.

`drivers/builtin.py` has the `scripted` agent that runs in the supervisor's process; a shared step
does the same in both, including its error texts.
"""

from __future__ import annotations

import re
from typing import Final

from supervisor.core.errors import ConfigError, short_repr
from supervisor.drivers.scripted.flags import find_steps, parse_number, parse_whole_number

from . import client_steps, mcp_steps, misbehave, news_steps
from .client_steps import ask_permission
from .turn import ScriptTurn, Step, Waiting
from .wire import INTERNAL_ERROR, ErrorReply, ProcessAction

FLOOD_BYTES: Final = 100
CONTEXT_TOKENS: Final = 200_000
FLOOD_CHUNK: Final = "flood " * (FLOOD_BYTES // 6) + "over"


def say(turn: ScriptTurn, text: str) -> None:
    """Say TEXT."""
    turn.say(text)


def think(turn: ScriptTurn, text: str) -> None:
    """Send TEXT as a thought, which is not part of the answer."""
    turn.think(text)


def tool(turn: ScriptTurn, rest: str) -> Waiting[None]:
    """Make a tool call NAME that takes SECONDS."""
    name, _, seconds = rest.rpartition(" ")
    if not name:
        raise ConfigError(
            f"tool {short_repr(rest)} has no seconds", hint="write: tool NAME SECONDS"
        )
    call = turn.begin_call(name)
    try:
        yield from turn.pause(parse_number("tool", seconds))
    except ConfigError:
        turn.end_call(call, status="failed")
        raise
    turn.end_call(call, status="completed", result="done")


def sleep(turn: ScriptTurn, seconds: str) -> Waiting[None]:
    """Wait for SECONDS."""
    yield from turn.pause(parse_number("sleep", seconds))


def ask(turn: ScriptTurn, name: str) -> Waiting[None]:
    """Ask permission to use TOOL, and say `TOOL: allowed` or `TOOL: rejected`."""
    if not name:
        raise ConfigError(f"a tool's name is {short_repr(name)}", hint="give some text")
    call = {"toolCallId": turn.session.new_call_id(), "title": name, "status": "pending"}
    is_allowed = yield from ask_permission(turn, call)
    turn.say(f"{name}: {'allowed' if is_allowed else 'rejected'}\n")


def spawn(_turn: ScriptTurn, rest: str) -> None:
    """Start a child and say its id; a process cannot, and fails the turn."""
    agent, _, text = rest.partition(" ")
    if not text.strip():
        raise ConfigError(f"spawn {short_repr(rest)} has no text", hint="write: spawn AGENT TEXT")
    raise ConfigError(
        f"an agent in a process cannot spawn {short_repr(agent)}",
        hint="spawn it from the session, or with the in-process scripted agent",
    )


def hang(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Wait for ever and ignore a cancellation."""
    turn.ignores_cancel = True
    yield from turn.pause(None)


def crash(turn: ScriptTurn, _: str) -> Waiting[None]:
    """Exit with code 1 during the turn."""
    yield from turn.perform(ProcessAction("log", text="scripted: the script says crash\n"))
    yield from turn.perform(ProcessAction("exit", 1))


def flood(turn: ScriptTurn, count: str) -> Waiting[None]:
    """Say COUNT texts of about 100 bytes."""
    for _ in range(parse_whole_number("flood", count)):
        turn.say(FLOOD_CHUNK)
        yield from turn.wait_for_output()


def fail(_: ScriptTurn, text: str) -> None:
    """Answer the prompt with an error."""
    raise ErrorReply(INTERNAL_ERROR, text)


def use(turn: ScriptTurn, tokens: str) -> None:
    """Report the use of TOKENS tokens."""
    used = parse_whole_number("use", tokens)
    turn.tokens += used
    turn.session.tokens += used
    turn.update("usage_update", {"used": turn.session.tokens, "size": CONTEXT_TOKENS})


COMMON_STEPS: Final[dict[str, Step]] = {
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

# By usage: the name of the step, then its arguments.
ALL_STEPS: Final[dict[str, Step]] = {
    **COMMON_STEPS,
    **client_steps.CLIENT_STEPS,
    **mcp_steps.MCP_STEPS,
    **news_steps.NEWS_STEPS,
    **misbehave.MISBEHAVE_STEPS,
}

_STEP_BY_NAME: Final = {usage.partition(" ")[0]: step for usage, step in ALL_STEPS.items()}


def run_script(turn: ScriptTurn) -> Waiting[None]:
    """Run the turn's script to its end; raise `ConfigError` at an invalid step."""
    if turn.engine_state.flags.echo:
        yield from _echo(turn)
        return
    for step, rest in find_steps(turn.script, _STEP_BY_NAME):
        waiting = step(turn, rest)
        if waiting is not None:
            yield from waiting
        yield from turn.wait_for_output()


def _echo(turn: ScriptTurn) -> Waiting[None]:
    for word in re.findall(r"\s*\S+\s*", turn.script):
        turn.say(word)
        yield from turn.wait_for_output()
