"""The kinds of agents that keep the contract, and how each is brought to do what a test needs.

A new kind is one more `Kind` in KINDS, with a text for every deed that it is able to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import pytest
import trio

from supervisor import PythonAgent, Turn
from supervisor.drivers.acp.agent import scripted_process
from supervisor.drivers.builtin import scripted
from supervisor.drivers.command.agent import command
from supervisor.drivers.port import AgentKind
from supervisor.drivers.python import AgentDied
from tests.drivers import command_play
from tests.drivers.deeds import Deed

Test = TypeVar("Test", bound=Callable[..., Any])


@attrs.frozen
class Kind:
    name: str
    agent: AgentKind
    texts: Mapping[Deed, str]


def kinds_that(*deeds: Deed) -> Callable[[Test], Test]:
    """Run the test with every kind that is able to do these; `kind` is the test's argument."""

    def mark(test: Test) -> Test:
        test.deeds = deeds  # type: ignore[attr-defined]  # for who tells the test again, elsewhere
        return of_those_able(test, KINDS)

    return mark


def of_those_able(test: Test, kinds: Sequence[Kind]) -> Test:
    """The test, for each of these kinds that is able to do its deeds."""
    deeds: Sequence[Deed] = test.deeds  # type: ignore[attr-defined]  # see above
    able = [kind for kind in kinds if all(deed in kind.texts for deed in deeds)]
    marked: Test = pytest.mark.parametrize("kind", able, ids=[kind.name for kind in able])(test)
    return marked


# Python --------------------------------------------------------------------------------------


async def _greet(turn: Turn) -> None:
    await turn.say("hello")


async def _wait(_: Turn) -> None:
    await trio.sleep_forever()


async def _fail(_: Turn) -> None:
    raise RuntimeError("no luck")


async def _die(_: Turn) -> None:
    raise AgentDied("it left")


async def _use_a_tool(turn: Turn) -> None:
    async with turn.tool("bash") as call:
        call.result("done")
    await turn.say("after")


async def _stay_in_a_tool(turn: Turn) -> None:
    await _stay_in(turn, "bash")
    await turn.say("after")


async def _stay_in_two_tools(turn: Turn) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stay_in, turn, "bash")
        nursery.start_soon(_stay_in, turn, "grep")


async def _stay_in(turn: Turn, tool: str) -> None:
    async with turn.tool(tool):
        await trio.sleep_forever()


async def _ask(turn: Turn) -> None:
    allowed = await turn.ask("May I?", tool="bash")
    await turn.say(f"bash: {'allowed' if allowed else 'rejected'}")


async def _be_deaf(turn: Turn) -> None:
    await turn.hang()
    await turn.say("late")


async def _flood(turn: Turn) -> None:
    for _ in range(50):
        await turn.say("x" * 100)


async def _spend(turn: Turn) -> None:
    turn.usage(output_tokens=40)


async def _take_steering(turn: Turn) -> None:
    while True:
        await trio.sleep(1.0)
        for text in turn.steering():
            await turn.say(f"{text}; ")
            if text == "enough":
                return


DEEDS: Final[Mapping[Deed, Callable[[Turn], Awaitable[None]]]] = {
    "greet": _greet,
    "wait": _wait,
    "fail": _fail,
    "die": _die,
    "use a tool": _use_a_tool,
    "stay in a tool": _stay_in_a_tool,
    "stay in two tools": _stay_in_two_tools,
    "ask": _ask,
    "be deaf": _be_deaf,
    "flood": _flood,
    "spend": _spend,
    "take steering": _take_steering,
}


async def _do_as_told(turn: Turn) -> None:
    for deed, do in DEEDS.items():
        if deed == turn.text:
            await do(turn)


# Scripted ------------------------------------------------------------------------------------

SCRIPTS: Final[Mapping[Deed, str]] = {
    "greet": "say hello",
    "wait": "sleep 1000000",
    "fail": "fail no luck",
    "die": "crash",
    "use a tool": "tool bash 0\nsay after",
    "stay in a tool": "tool bash 1000000\nsay after",
    "ask": "ask bash",
    "be deaf": "hang\nsay late",
    "flood": "flood 50",
    "spend": "use 40",
}


# A process is ended by the further steps of the ladder, and its calls are its own affair unless
# they run in a terminal of ours: see tests/drivers/acp.
PROCESS_SCRIPTS: Final[Mapping[Deed, str]] = {
    deed: script for deed, script in SCRIPTS.items() if deed not in ("be deaf", "stay in a tool")
}


KINDS: Final = (
    Kind("python", PythonAgent("obedient", _do_as_told), {deed: deed for deed in DEEDS}),
    Kind("scripted", scripted, SCRIPTS),
    Kind("acp", scripted_process(), PROCESS_SCRIPTS),
    Kind(
        "command",
        command("obedient", [command_play.PLAY, "{prompt}"]),
        {deed: deed for deed in command_play.DEEDS},
    ),
)
