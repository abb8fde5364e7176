"""Two agents that are always there and need no model: `echo`, and `scripted`, which does as told.

The text that `scripted` gets is its script, one step a line; STEPS below is the whole language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from supervisor.core.errors import ConfigError, shown

from .python import AgentDied, PythonAgent
from .turn import Turn

FLOOD_BYTES: Final = 100
LARGEST: Final = 1e9


async def _echo(turn: Turn) -> None:
    """Say the text again, word by word."""
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
        raise ConfigError(f"tool {shown(rest)} has no seconds", hint="write: tool NAME SECONDS")
    async with turn.tool(name) as call:
        await trio.sleep(_number("tool", seconds))
        call.result("done")
    turn.steering()  # taken at the boundary, as by any agent; a script has no use for it


async def _sleep(_: Turn, seconds: str) -> None:
    await trio.sleep(_number("sleep", seconds))


async def _ask(turn: Turn, tool: str) -> None:
    allowed = await turn.ask(f"May I use {tool}?", tool=tool)
    await turn.say(f"{tool}: {'allowed' if allowed else 'rejected'}\n")


async def _crash(_: Turn, __: str) -> None:
    raise AgentDied("the script says crash")


async def _flood(turn: Turn, count: str) -> None:
    chunk = "flood " * (FLOOD_BYTES // 6) + "over"
    for _ in range(_whole("flood", count)):
        await turn.say(chunk)


async def _fail(_: Turn, text: str) -> None:
    raise RuntimeError(text)


async def _use(turn: Turn, tokens: str) -> None:
    turn.usage(output_tokens=_whole("use", tokens))
    await trio.lowlevel.checkpoint()


async def _spawn(turn: Turn, rest: str) -> None:
    agent, _, text = rest.partition(" ")
    if not text.strip():
        raise ConfigError(f"spawn {shown(rest)} has no text", hint="write: spawn AGENT TEXT")
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
    for number, line in enumerate(turn.text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if not word:
            continue
        step = STEPS.get(word)
        if step is None:
            raise ConfigError(
                f"line {number} of the script begins with {shown(word)}",
                hint=f"the steps are {', '.join(STEPS)}",
            )
        await step(turn, rest.strip())


scripted: Final = PythonAgent("scripted", _scripted)
BUILT_IN: Final = (echo, scripted)


def _whole(step: str, text: str) -> int:
    number = _number(step, text)
    if not number.is_integer():
        raise ConfigError(
            f"{step} {shown(text)} is no whole number", hint="there are no halves of it"
        )
    return int(number)


def _number(step: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < LARGEST:
        raise ConfigError(f"{step} {shown(text)} is no number", hint="give a number of at least 0")
    return number
