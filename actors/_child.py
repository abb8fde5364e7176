"""What a supervisor knows of whatever it supervises: an actor, or a group of them.

Rule 1: `wanted` says what the child should be doing, `state` what it is doing. Only `run` may
        become `halt`, and anything may become `stop`; a stop is never taken back.
Rule 2: `finish` is the end, once: waiters are woken and watchers told in that same step.
Rule 3: to halt is not to end. A halted child keeps its mailbox and its refs and is expected
        to be launched again, or finished, by whoever halted it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import trio

from ._errors import AskSelf, GaveUp
from ._message import Ended, Timeouts
from ._restart import Exit, RestartPolicy

if TYPE_CHECKING:
    from ._cell import Cell
    from ._group import Group
    from ._ref import Ref
    from ._supervisor import Supervisor

State: TypeAlias = Literal["starting", "running", "restarting", "stopping", "stopped"]
Wanted: TypeAlias = Literal["run", "halt", "stop"]


@attrs.frozen(eq=False)
class House:
    """What everything under one roof shares: where tasks run, time-outs, dice, the way out."""

    nursery: trio.Nursery
    timeouts: Timeouts
    jitter: Callable[[], float]
    escalate: Callable[[GaveUp], None]


class Child(abc.ABC):
    """The part that an actor's life and a group's life have in common."""

    __slots__ = (
        "_over",
        "_waiters",
        "_watchers",
        "declared",
        "house",
        "launches",
        "name",
        "policy",
        "reason",
        "recent",
        "state",
        "supervisor",
        "wanted",
        "was_up",
    )

    def __init__(
        self, name: str, policy: RestartPolicy, *, supervisor: Supervisor | None, house: House
    ) -> None:
        self.name = name
        self.policy = policy
        self.supervisor = supervisor
        self.house = house
        self.state: State = "starting"
        self.wanted: Wanted = "run"
        # True for the children a group was described with: it goes on listing them when they
        # have ended, while later ones are forgotten, or ten thousand of them would pile up.
        self.declared = False
        # False while the very first start is under way: until then no restart reaches it. (The
        # children of a description count as up from the beginning: they start as one.)
        self.was_up = False
        self.launches = 0
        # The restarts that count against `policy`, where that is the child's own to spend.
        self.recent: tuple[float, ...] = ()
        # Invariant: None until `finish`, then how it ended, for good.
        self.reason: Exit | None = None
        self._over: trio.Event | None = None
        # Who waits to be told how it ended. A lot, not an event: it knows exactly who is there,
        # and whoever is told of a GaveUp has thereby taken it over.
        self._waiters: trio.lowlevel.ParkingLot | None = None
        self._watchers: dict[Cell, None] | None = None

    @property
    def restarts(self) -> int:
        """How often it was launched again, whoever decided so and whether or not it came up."""
        return max(0, self.launches - 1)

    @property
    def is_ending(self) -> bool:
        """Whether somebody asked for its end, or it has ended."""
        return self.wanted == "stop"

    @property
    @abc.abstractmethod
    def handle(self) -> Ref | Group:
        """What the outside world knows this child as."""

    @abc.abstractmethod
    async def launch(self) -> Exit | None:
        """Begin an incarnation; None when it runs, else how it ended before it did.

        If cancelled, the start is called off, and nothing of it is left when this returns.
        """

    @abc.abstractmethod
    async def halt(self, *, grace_seconds: float = math.inf) -> None:
        """End the incarnation but not the child; answers when nothing of it runs.

        If cancelled before it begins it does nothing. Whoever cancels it later must see to it
        that the child is halted again, or stopped.
        """

    @abc.abstractmethod
    def request_stop(self, *, grace_seconds: float = math.inf) -> None:
        """Begin to end it for good, with at most this much grace. Repeating only hastens it."""

    def pardon(self) -> None:  # noqa: B027 - only a group has something to forget
        """It will be brought back, so how it fell is no longer how it ended."""

    @abc.abstractmethod
    def runs_in(self, task: trio.lowlevel.Task) -> bool:
        """Whether `task` is the one that a wait for this child's end would wait for."""

    def finish(self, exit_: Exit) -> None:
        """Settle for good how it ended; whoever waits or watches learns it now."""
        if self.reason is not None:
            return
        self.state = "stopped"
        self.wanted = "stop"
        self.reason = exit_
        if self._over is not None:
            self._over.set()
        if self._waiters is not None:
            if isinstance(exit_, GaveUp) and len(self._waiters):
                exit_.handled = True
            self._waiters.unpark_all()
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher.tell_of_end(self, Ended(self.handle, exit_))

    async def wait_over(self) -> None:
        """Answer when it has ended for good, however it did."""
        if self.reason is not None:
            await trio.lowlevel.checkpoint()
            return
        if self._over is None:
            self._over = trio.Event()
        await self._over.wait()

    async def wait_stopped(self) -> Exit:
        """Answer how it ended, or raise `GaveUp`. Cancelling the wait changes nothing."""
        if self.reason is None:
            if self._waiters is None:
                self._waiters = trio.lowlevel.ParkingLot()
            await self._waiters.park()
        elif not isinstance(self.reason, GaveUp):
            # A known GaveUp is raised without another checkpoint: whoever was woken by the same
            # crash gets here just in time to take it over before it climbs.
            await trio.lowlevel.checkpoint()
        assert self.reason is not None
        if isinstance(self.reason, GaveUp):
            self.reason.handled = True
            raise self.reason.again()
        return self.reason

    def refuse_self(self, verb: str, instead: str) -> None:
        """Raise `AskSelf` if the running task would wait for itself."""
        if self.runs_in(trio.lowlevel.current_task()):
            raise AskSelf(self.name, verb=verb, instead=instead)

    def add_watcher(self, watcher: Cell) -> None:
        if self.reason is not None:
            watcher.tell_of_end(self, Ended(self.handle, self.reason))
            return
        if self._watchers is None:
            self._watchers = {}
        self._watchers[watcher] = None

    def remove_watcher(self, watcher: Cell) -> None:
        if self._watchers is not None:
            self._watchers.pop(watcher, None)
