"""A busy program with a supervisor over a real file, made to be killed.

Rule 1: the program reports each acknowledged request on a pipe, in one write, after the
        acknowledgement. A deletion is reported before it is requested.
Rule 2: the program never ends by itself. It is killed from outside, or kills itself inside one of
        SQLite's own steps, as its plan says.

    python -m tests.support.crash_child      reads one plan per line of its input, see `CrashPlan`

The process that reads the plans forks for each of them, so that imports are paid for once; it
reports when the child has exited.
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
from supervisor.core.limits import Lifetime
from supervisor.drivers.python import AgentDied
from supervisor.store.sqlite import files, store

ACTIONS: Final = ("say", "say", "tool", "ask", "spawn", "use", "steer", "nap", "hang", "crash")
MODES: Final[tuple[WhenBusy, ...]] = ("queue", "queue", "steer", "interrupt", "reject")
LIFETIMES: Final[tuple[Lifetime, ...]] = ("with_parent", "with_parent", "detached")
POLICIES: Final = ("never", "on_crash", "always")
KEYS: Final = tuple(f"fake:web:{peer}" for peer in ("ann", "bob", "cy"))
# Bounded because the oracle reads everything again after every kill.
MAX_SESSIONS: Final = 30
SENDERS: Final = 4
STOP_WAIT_SECONDS: Final = 0.1
_PR_SET_PDEATHSIG: Final = 1
SETTINGS: Final = Settings(
    suspend_after_seconds=0.05,
    permission_timeout_seconds=0.5,
    restart=Restart(backoff_seconds=0.0),
    snapshot_every=20,
)


@attrs.frozen
class CrashPlan:
    """The file and seed of a run; `kill_at_step` is the SQLite step at which it kills itself."""

    path: str
    seed: int
    kill_at_step: int | None = None


def report(what: str, **more: Any) -> None:  # noqa: ANN401 - plain data
    """Write a report in one call, short enough for the pipe to be atomic."""
    os.write(1, f"{json.dumps({'what': what, **more})}\n".encode())


# Agents ----------------------------------------------------------------------------------------


@supervisor.agent("fake")
async def busy_agent(turn: Turn) -> str:
    for action in turn.text.split()[1:]:
        await _do(turn, action)
    return "done"


async def _do(turn: Turn, action: str) -> None:  # noqa: C901 - one case per action
    match action:
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
                await turn.spawn("fake", "child say", on_end=random.choice(("tell", "wake")))
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


# Workload --------------------------------------------------------------------------------------


class Workload:
    """Concurrent clients that send, spawn, stop and answer until the program is killed."""

    def __init__(self, sup: Supervisor, plan: CrashPlan) -> None:
        self._sup = sup
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._numbers = count()
        self._sessions: list[Session] = []

    def _name(self) -> str:
        """Return a text that is unique over all runs."""
        return f"{self._plan.seed}.{next(self._numbers)}"

    def _text(self) -> str:
        return " ".join([self._name(), *self._random.choices(ACTIONS, k=self._random.randrange(4))])

    def _key_for_repeats(self) -> str | None:
        return self._name() if self._random.random() < 0.3 else None

    async def run(self) -> None:
        page = await self._sup.list(limit=MAX_SESSIONS)
        self._sessions = [self._sup.session(info.id) for info in page.items]
        for _ in range(4):
            await self._create()
        async with trio.open_nursery() as nursery:
            for _ in range(SENDERS):
                nursery.start_soon(self._repeat_forever, self._send)
            nursery.start_soon(self._repeat_forever, self._control)
            nursery.start_soon(self._repeat_forever, self._answer)

    async def _repeat_forever(self, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            with suppress(SupervisorError):
                await do()
            await trio.lowlevel.checkpoint()

    async def _create(self) -> None:
        if len(self._sessions) >= MAX_SESSIONS:
            return
        key, restart = self._key_for_repeats(), Restart(policy=self._random.choice(POLICIES))
        made = await self._sup.create("fake", restart=restart, idempotency_key=key)
        self._sessions.append(made)
        policy = restart.policy
        report("created", session=made.id, parent=None, key=key, policy=policy)

    async def _send(self) -> None:
        session, text, key = self._random.choice(self._sessions), self._text(), None
        mode, ttl = self._random.choice(MODES), self._random.choice((None, None, None, 0.05))
        key = self._key_for_repeats()
        receipt = await session.send(text, when_busy=mode, ttl_seconds=ttl, idempotency_key=key)
        given = {"text": text, "mode": mode, "ttl": ttl, "key": key}
        report("sent", session=session.id, input=receipt.input_id, **given)

    async def _control(self) -> None:
        await trio.sleep(0.005)
        actions = (
            self._create,
            self._spawn,
            self._spawn,
            self._stop,
            self._resume,
            self._interrupt,
        )
        rare = (self._get_or_create, self._replace, self._delete)
        await self._random.choice((*actions, *actions, *rare))()

    async def _spawn(self) -> None:
        if len(self._sessions) >= MAX_SESSIONS:
            return
        parent, key, text = (
            self._random.choice(self._sessions),
            self._key_for_repeats(),
            self._text(),
        )
        lifetime = self._random.choice(LIFETIMES)
        ttl = self._random.choice((None, None, 0.2))
        child = await parent.spawn(
            "fake", text, lifetime=lifetime, ttl_seconds=ttl, idempotency_key=key
        )
        self._sessions.append(child)
        given = {"text": text, "lifetime": lifetime, "ttl": ttl}
        report("created", session=child.id, parent=parent.id, key=key, **given)

    async def _stop(self) -> None:
        session = self._random.choice(self._sessions)
        # A turn that hangs never ends. Without the bound, no session is stopped or interrupted
        # after that, until all have full queues and every input is refused.
        with trio.move_on_after(STOP_WAIT_SECONDS):
            await session.stop(when=self._random.choice(("now", "after_turn")))

    async def _resume(self) -> None:
        await self._random.choice(self._sessions).resume()

    async def _interrupt(self) -> None:
        await self._random.choice(self._sessions).interrupt("turn", reason="enough")

    async def _get_or_create(self) -> None:
        holder = await self._sup.get_or_create(self._random.choice(KEYS))
        if holder not in self._sessions:
            self._sessions.append(holder)

    async def _replace(self) -> None:
        if len(self._sessions) < MAX_SESSIONS:
            self._sessions.append(await self._sup.new(self._random.choice(KEYS)))

    async def _delete(self) -> None:
        if len(self._sessions) < 2:
            return  # keep a session to work with
        session = self._random.choice(self._sessions)
        report("deleting", session=session.id)
        self._sessions.remove(session)
        await self._sup.delete(session.id)

    async def _answer(self) -> None:
        await trio.sleep(0.01)
        for request in await self._sup.permissions():
            if self._random.random() < 0.3:
                await self._sup.answer(request.id, "allow_once")


async def run_workload(plan: CrashPlan) -> None:
    """Open the supervisor and run the workload until killed."""
    report("opening")
    async with supervisor.open(plan.path, agents=[busy_agent], settings=SETTINGS) as sup:
        report("opened")
        await Workload(sup, plan).run()


# Kills -----------------------------------------------------------------------------------------


def kill_self_at(step: int) -> None:
    """Kill this process when its writer connection has taken `step` SQLite steps."""
    left = [step]

    def look() -> int:
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def open_counting_writer(path: Path) -> sqlite3.Connection:
        connection = files.open_writer(path)
        connection.set_progress_handler(look, 10)
        return connection

    vars(store)["open_writer"] = open_counting_writer


def run_child(plan: CrashPlan) -> None:
    """Run the workload in the forked child; report any error, then wait to be killed."""
    try:
        if plan.kill_at_step is not None:
            kill_self_at(plan.kill_at_step)
        trio.run(run_workload, plan)
        report("broken", error="the workload ended by itself")
    except BaseException:  # noqa: BLE001 - reported to the parent
        report("broken", error=traceback.format_exc()[-3000:])
    while True:
        signal.pause()


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent exits, so that none is left behind.

    The signal is sent when the parent *thread* exits; the parent has only one thread.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Run the plans from standard input, one after the other."""
    for line in sys.stdin:
        plan = CrashPlan(**json.loads(line))
        child = os.fork()
        if child == 0:
            end_with_parent()
            run_child(plan)
        report("started", pid=child)
        os.waitpid(child, 0)
        report("exited")


if __name__ == "__main__":
    main()
