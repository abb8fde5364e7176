"""Two agents that are always available and need no model: `echo` and `scripted`.

The input of `scripted` is its script, one step per line; STEPS below lists all steps.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from supervisor.core.errors import ConfigError, short_repr

from .python import AgentDied, PythonAgent
from .scripted.flags import find_steps, parse_number, parse_whole_number
from .turn import Turn

FLOOD_BYTES: Final = 100


async def _echo(turn: Turn) -> None:
    """Send the input as agent text, word by word."""
    for word in re.findall(r"\s*\S+\s*", turn.text):
        await turn.say(word)


echo: Final = PythonAgent("echo", _echo)


async def _say(turn: Turn, text: str) -> None:
    await turn.say(text)


async def _think(turn: Turn, text: str) -> None:
    await turn.think(text)


async def _tool(turn: Turn, rest: str) -> None:
    name, _, seconds = rest.rpartition(" ")
    if not name:
        raise ConfigError(
            f"tool {short_repr(rest)} has no seconds", hint="write: tool NAME SECONDS"
        )
    async with turn.tool(name) as call:
        await trio.sleep(parse_number("tool", seconds))
        call.result("done")
    turn.steering()  # taken at the boundary, as agents do; a script does not use it


async def _sleep(_: Turn, seconds: str) -> None:
    await trio.sleep(parse_number("sleep", seconds))


async def _ask(turn: Turn, tool: str) -> None:
    allowed = await turn.ask(f"May I use {tool}?", tool=tool)
    await turn.say(f"{tool}: {'allowed' if allowed else 'rejected'}\n")


async def _crash(_: Turn, __: str) -> None:
    raise AgentDied("the script says crash")


async def _flood(turn: Turn, count: str) -> None:
    chunk = "flood " * (FLOOD_BYTES // 6) + "over"
    for _ in range(parse_whole_number("flood", count)):
        await turn.say(chunk)


async def _fail(_: Turn, text: str) -> None:
    raise RuntimeError(text)


async def _use(turn: Turn, tokens: str) -> None:
    turn.usage(output_tokens=parse_whole_number("use", tokens))
    await trio.lowlevel.checkpoint()


async def _spawn(turn: Turn, rest: str) -> None:
    agent, _, text = rest.partition(" ")
    if not text.strip():
        raise ConfigError(f"spawn {short_repr(rest)} has no text", hint="write: spawn AGENT TEXT")
    child = await turn.spawn(agent, text)
    await turn.say(f"spawned {child.id}\n")


async def _hang(turn: Turn, _: str) -> None:
    await turn.hang()


STEPS: Final[dict[str, Callable[[Turn, str], Awaitable[None]]]] = {
    "say": _say,
    "think": _think,
    "tool": _tool,
    "sleep": _sleep,
    "ask": _ask,
    "spawn": _spawn,
    "hang": _hang,
    "crash": _crash,
    "flood": _flood,
    "fail": _fail,
    "use": _use,
}


async def _scripted(turn: Turn) -> None:
    for step, rest in find_steps(turn.text, STEPS):
        await step(turn, rest)


scripted: Final = PythonAgent("scripted", _scripted)
BUILT_IN: Final = (echo, scripted)
