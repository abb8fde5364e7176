"""The kinds of agents that the driver contract is tested with, and the input for each action.

A new kind is one more `Kind` in KINDS, with a text for every action that it can perform.
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
from tests.support import fake_command

from .agent_actions import AgentAction

Test = TypeVar("Test", bound=Callable[..., Any])


@attrs.frozen
class Kind:
    name: str
    agent: AgentKind
    texts: Mapping[AgentAction, str]


def kinds_that(*actions: AgentAction) -> Callable[[Test], Test]:
    """Run the test with every kind that can perform these actions, as its argument `kind`."""

    def mark(test: Test) -> Test:
        test.actions = actions  # type: ignore[attr-defined]  # for tests/drivers/real
        return for_able_kinds(test, KINDS)

    return mark


def for_able_kinds(test: Test, kinds: Sequence[Kind]) -> Test:
    """Parametrize the test with the kinds that can perform its actions."""
    actions: Sequence[AgentAction] = test.actions  # type: ignore[attr-defined]  # see above
    able = [kind for kind in kinds if all(action in kind.texts for action in actions)]
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


ACTIONS: Final[Mapping[AgentAction, Callable[[Turn], Awaitable[None]]]] = {
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


async def _perform(turn: Turn) -> None:
    for action, do in ACTIONS.items():
        if action == turn.text:
            await do(turn)


# Scripted ------------------------------------------------------------------------------------

SCRIPTS: Final[Mapping[AgentAction, str]] = {
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


# A process that ignores a cancellation is ended by the later steps of the ladder, and its calls
# cannot be cancelled unless they run in a terminal of ours: see tests/drivers/acp.
PROCESS_SCRIPTS: Final[Mapping[AgentAction, str]] = {
    action: script
    for action, script in SCRIPTS.items()
    if action not in ("be deaf", "stay in a tool")
}


KINDS: Final = (
    Kind("python", PythonAgent("obedient", _perform), {action: action for action in ACTIONS}),
    Kind("scripted", scripted, SCRIPTS),
    Kind("acp", scripted_process(), PROCESS_SCRIPTS),
    Kind(
        "command",
        command("obedient", [fake_command.PLAY, "{prompt}"]),
        {action: action for action in fake_command.ACTIONS},
    ),
)
