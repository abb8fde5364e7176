"""The one who is killed: a program with a supervisor over a real file, and much going on in it.

Rule 1: it says what it was promised on a pipe, in one write for each promise, after it was given.
        What is about to be deleted it says before.
Rule 2: it never ends by itself. It is killed from outside, or kills itself in the middle of one of
        SQLite's own steps, as it was told.

    python -m tests.house.kills.victim      an order on each line of its input, see `Order`

The process that takes the orders forks for each of them, so that nothing is imported a thousand
times; when a child is dead and gone, it says so.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import attrs
import trio

import supervisor
from supervisor import (
    Restart,
    Session,
    Settings,
    Supervisor,
    SupervisorError,
    Turn,
    WhenBusy,
)
from supervisor.core.session import Lifetime
from supervisor.drivers.python import AgentDied
from supervisor.store.sqlite import files, store

DEEDS: Final = ("say", "say", "tool", "ask", "spawn", "use", "steer", "nap", "hang", "crash")
MODES: Final[tuple[WhenBusy, ...]] = ("queue", "queue", "steer", "interrupt", "reject")
LIFETIMES: Final[tuple[Lifetime, ...]] = ("with_parent", "with_parent", "detached")
POLICIES: Final = ("never", "on_crash", "always")
KEYS: Final = tuple(f"player:house:{peer}" for peer in ("ann", "bob", "cy"))
# So many sessions at most: what is found must all be read again, many times.
MOST_SESSIONS: Final = 30
SENDERS: Final = 4
_PR_SET_PDEATHSIG: Final = 1
SETTINGS: Final = Settings(
    suspend_after_seconds=0.05,
    permission_timeout_seconds=0.5,
    restart=Restart(backoff_seconds=0.0),
    snapshot_every=20,
)


@attrs.frozen
class Order:
    """Live on that file; `dies_at` is the step of SQLite to die at, if nobody kills it before."""

    path: str
    seed: int
    dies_at: int | None = None


def report(what: str, **more: Any) -> None:  # noqa: ANN401 - plain data
    """Say it in one write, which is short enough to come out whole or not at all."""
    os.write(1, f"{json.dumps({'what': what, **more})}\n".encode())


# Agents ----------------------------------------------------------------------------------------


@supervisor.agent("player")
async def player(turn: Turn) -> str:
    for deed in turn.text.split()[1:]:
        await _do(turn, deed)
    return "done"


async def _do(turn: Turn, deed: str) -> None:  # noqa: C901 - a case for each
    match deed:
        case "say":
            for _ in range(3):
                await turn.say("word " * 100)
        case "tool":
            async with turn.tool("bash", {"cmd": "ls"}) as call:
                await turn.say("between")
                call.result("README.md")
        case "ask":
            await turn.ask("may I?", tool="bash")
        case "spawn":
            with suppress(SupervisorError):
                await turn.spawn("player", "child say", on_end=random.choice(("tell", "wake")))
        case "use":
            turn.usage(output_tokens=7)
        case "steer":
            turn.steering()
        case "nap":
            await trio.sleep(0.01)
        case "hang":
            await trio.sleep_forever()
        case "crash":
            raise AgentDied("on purpose")


# People ----------------------------------------------------------------------------------------


class Life:
    """One life of the program, until it is killed."""

    def __init__(self, sup: Supervisor, order: Order) -> None:
        self._sup = sup
        self._order = order
        self._chance = random.Random(order.seed)
        self._numbers = count()
        self._sessions: list[Session] = []

    def _name(self) -> str:
        """What nobody else has said, in this life or another."""
        return f"{self._order.seed}.{next(self._numbers)}"

    def _text(self) -> str:
        return " ".join([self._name(), *self._chance.choices(DEEDS, k=self._chance.randrange(4))])

    def _key_for_repeats(self) -> str | None:
        return self._name() if self._chance.random() < 0.3 else None

    async def run(self) -> None:
        page = await self._sup.list(limit=MOST_SESSIONS)
        self._sessions = [self._sup.session(info.id) for info in page.items]
        for _ in range(4):
            await self._create()
        async with trio.open_nursery() as nursery:
            for _ in range(SENDERS):
                nursery.start_soon(self._go_on, self._send)
            nursery.start_soon(self._go_on, self._meddle)
            nursery.start_soon(self._go_on, self._answer)

    async def _go_on(self, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            with suppress(SupervisorError):
                await do()
            await trio.lowlevel.checkpoint()

    async def _create(self) -> None:
        if len(self._sessions) >= MOST_SESSIONS:
            return
        key, restart = self._key_for_repeats(), Restart(policy=self._chance.choice(POLICIES))
        made = await self._sup.create("player", restart=restart, idempotency_key=key)
        self._sessions.append(made)
        policy = restart.policy
        report("made", session=made.id, parent=None, key=key, policy=policy)

    async def _send(self) -> None:
        session, text, key = self._chance.choice(self._sessions), self._text(), None
        mode, ttl = self._chance.choice(MODES), self._chance.choice((None, None, None, 0.05))
        key = self._key_for_repeats()
        receipt = await session.send(text, when_busy=mode, ttl_seconds=ttl, idempotency_key=key)
        given = {"text": text, "mode": mode, "ttl": ttl, "key": key}
        report("sent", session=session.id, input=receipt.input_id, **given)

    async def _meddle(self) -> None:
        await trio.sleep(0.005)
        deeds = (self._create, self._spawn, self._spawn, self._stop, self._resume, self._interrupt)
        rare = (self._bear, self._replace, self._delete)
        await self._chance.choice((*deeds, *deeds, *rare))()

    async def _spawn(self) -> None:
        if len(self._sessions) >= MOST_SESSIONS:
            return
        parent, key, text = (
            self._chance.choice(self._sessions),
            self._key_for_repeats(),
            self._text(),
        )
        lifetime = self._chance.choice(LIFETIMES)
        ttl = self._chance.choice((None, None, 0.2))
        child = await parent.spawn(
            "player", text, lifetime=lifetime, ttl_seconds=ttl, idempotency_key=key
        )
        self._sessions.append(child)
        given = {"text": text, "lifetime": lifetime, "ttl": ttl}
        report("made", session=child.id, parent=parent.id, key=key, **given)

    async def _stop(self) -> None:
        session = self._chance.choice(self._sessions)
        await session.stop(when=self._chance.choice(("now", "after_turn")))

    async def _resume(self) -> None:
        await self._chance.choice(self._sessions).resume()

    async def _interrupt(self) -> None:
        await self._chance.choice(self._sessions).interrupt("turn", reason="enough")

    async def _bear(self) -> None:
        bearer = await self._sup.get_or_create(self._chance.choice(KEYS))
        if bearer not in self._sessions:
            self._sessions.append(bearer)

    async def _replace(self) -> None:
        if len(self._sessions) < MOST_SESSIONS:
            self._sessions.append(await self._sup.new(self._chance.choice(KEYS)))

    async def _delete(self) -> None:
        if len(self._sessions) < 2:
            return  # or there were nobody to go on with
        session = self._chance.choice(self._sessions)
        report("deleting", session=session.id)
        self._sessions.remove(session)
        await self._sup.delete(session.id)

    async def _answer(self) -> None:
        await trio.sleep(0.01)
        for request in await self._sup.permissions():
            if self._chance.random() < 0.3:
                await self._sup.answer(request.id, "allow_once")


async def live(order: Order) -> None:
    """Until killed."""
    report("opening")
    async with supervisor.open(order.path, agents=[player], settings=SETTINGS) as sup:
        report("opened")
        await Life(sup, order).run()


# Dying -----------------------------------------------------------------------------------------


def die_at(step: int) -> None:
    """Have this process killed when its one writer has taken so many of SQLite's own steps."""
    left = [step]

    def look() -> int:
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def open_mortal_writer(path: Path) -> sqlite3.Connection:
        connection = files.open_writer(path)
        connection.set_progress_handler(look, 10)
        return connection

    vars(store)["open_writer"] = open_mortal_writer


def be_killed(order: Order) -> None:
    """What the child does: whatever goes wrong, it says so and waits for its end."""
    try:
        if order.dies_at is not None:
            die_at(order.dies_at)
        trio.run(live, order)
        report("broken", error="it came to its end")
    except BaseException:  # noqa: BLE001 - told to who judges
        report("broken", error=traceback.format_exc()[-3000:])
    while True:
        signal.pause()


def end_with_parent() -> None:
    """Have the kernel kill us when whoever takes the orders is gone: nobody is left behind.

    That one has a single thread, so it is gone when the process is, and not before.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Take orders, one after the other."""
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            end_with_parent()
            be_killed(order)
        report("born", pid=child)
        os.waitpid(child, 0)
        report("dead")


if __name__ == "__main__":
    main()
