"""The golden scenario, described once: its steps, and how they are played.

A player is one of our interfaces. It does each step by its own means, and finds the ids that it
needs, of the permission request and of the tool call, by its own means too. After a step the
observer waits for the record that it leads to, so that nothing depends on time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
import trio

from supervisor import Record
from tests.support.served_supervisor import Session, Sup

Word: TypeAlias = Literal[
    "create",
    "prompt",
    "send",
    "steer",
    "allow",
    "interrupt_call",
    "spawn",
    "limit_tokens",
    "refused",
    "resume",
    "stop",
]

STEP_SECONDS: Final = 20.0
INTERRUPT_REASON: Final = "enough"


class Player(Protocol):
    """One interface: a method for each word.

    `prompt` returns the text of the turn, `refused` sends a text and returns the code of the error.
    All take the text as it is; `interrupt_call` and `allow` take the only one that there is.
    """

    session: str

    async def create(self, folder: str) -> None: ...
    async def prompt(self, text: str) -> str: ...
    async def send(self, text: str) -> None: ...
    async def steer(self, text: str) -> None: ...
    async def allow(self) -> None: ...
    async def interrupt_call(self) -> None: ...
    async def spawn(self, text: str) -> None: ...
    async def limit_tokens(self, tokens: int) -> None: ...
    async def refused(self, text: str) -> str: ...
    async def resume(self) -> None: ...
    async def stop(self) -> None: ...


@attrs.frozen
class Step:
    """A step: what is done, what it answers, and the record that it leads to: n-th of a kind."""

    word: Word
    given: str | int | None = None
    answer: str | None = None
    until: tuple[str, int] | None = None


# The agent is the scripted one in the process of the supervisor: it can end a single tool call.
AGENT: Final = "scripted"
SCENARIO: Final = (
    Step("create"),
    Step("prompt", "say hello", "hello"),
    # A turn that asks, then works: with a queued input and a steering text in the meantime.
    Step("send", "ask deploy\ntool build 60\nsay built", until=("permission_asked", 1)),
    Step("send", "say queued", until=("input_accepted", 3)),
    Step("steer", "be brief", until=("input_changed", 1)),
    Step("allow", until=("tool_call", 1)),
    Step("interrupt_call", until=("turn_ended", 3)),
    Step("spawn", "say from below", until=("child_ended", 1)),
    # A budget that the next turn exhausts, which stops the session and the child.
    Step("limit_tokens", 40),
    Step("send", "use 50\nsleep 60", until=("session_stopped", 1)),
    Step("refused", "say too much", "budget_spent"),
    Step("limit_tokens", 1000),
    Step("resume"),
    Step("prompt", "say again", "again", until=("turn_ended", 5)),
    # The next prompt starts a session again that a person has stopped.
    Step("stop", until=("session_stopped", 2)),
    Step("prompt", "say back", "back", until=("turn_ended", 6)),
)


async def play(player: Player, sup: Sup, folder: str) -> list[list[Record]]:
    """Play all steps; return the records of the session and of its child."""
    for step in SCENARIO:
        with trio.fail_after(STEP_SECONDS):
            await _do(step, player, sup, folder)
    page = await sup.list(root=player.session)
    assert len(page.items) == 2
    found: list[list[Record]] = []
    for info in page.items:
        turns = await sup.session(info.id).history()
        found.append([record for turn in turns for record in turn.records])
    return found


async def _do(step: Step, player: Player, sup: Sup, folder: str) -> None:
    act: Callable[..., Any] = getattr(player, step.word)
    given = folder if step.word == "create" else step.given
    answer = await (act() if given is None else act(given))
    assert answer == step.answer, step
    if step.until is not None:
        await _seen(sup.session(player.session), *step.until)


async def _seen(session: Session, kind: str, count: int) -> None:
    """Wait until the session has that many records of a kind."""
    async with session.watch() as feed:
        async for item in feed:
            count -= isinstance(item, Record) and item.kind == kind
            if count == 0:
                return
    raise AssertionError(f"the session has ended without {kind}")
