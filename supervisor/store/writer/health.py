"""How the store is: whether it can write, since when not, and why."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from supervisor.core.errors import StoreDegraded

from .held import Backlog
from .load import Load


@attrs.frozen
class StoreState:
    """The store's health as people see it.

    `waiting` writes of `waiting_bytes` are on their way to it or wait for it to be well, the first
    of them since `wait_seconds`; `at_the_door` others wait until there are fewer.
    """

    degraded: bool = False
    problem: str | None = None
    hint: str | None = None
    read_only: bool = False
    waiting: int = 0
    waiting_bytes: int = 0
    wait_seconds: float = 0.0
    at_the_door: int = 0


class Health:
    """One for each store. The writer says how it is, and everybody may ask."""

    def __init__(self) -> None:
        self._trouble: StoreDegraded | None = None
        # Set once what the last supervisor left could not be put in order: then nothing starts.
        self.is_given_up = False
        # What the store would not take, which the writer sees to.
        self.backlog = Backlog()
        # What is on its way to it.
        self.load = Load()
        # Whether somebody has a degraded store tried again.
        self.is_looked_after = False
        # Told of every change, in the same step.
        self.on_change: Callable[[StoreState], None] | None = None
        # Told of every commit: how long it took, and how many writes were in it.
        self.on_commit: Callable[[float, int], None] | None = None

    @property
    def is_degraded(self) -> bool:
        """Whether nothing can be written just now."""
        return self._trouble is not None

    @property
    def state(self) -> StoreState:
        """How it is now."""
        trouble = self._trouble
        if trouble is None:
            return StoreState()
        return StoreState(
            degraded=True,
            problem=trouble.args[0],
            hint=trouble.hint,
            read_only=self.is_given_up,
        )

    @property
    def state_with_load(self) -> StoreState:
        """The same, with how much it has to do."""
        load = self.load
        return attrs.evolve(
            self.state,
            waiting=load.writes + len(self.backlog.writes),
            waiting_bytes=load.bytes,
            wait_seconds=load.wait_seconds,
            at_the_door=load.at_the_door,
        )

    def refuse_if_degraded(self) -> None:
        """Raise `StoreDegraded` if nothing can be written just now."""
        if self._trouble is not None:
            # Another one each time: an error collects the places that it was raised at.
            raise StoreDegraded(self._trouble.args[0], hint=self._trouble.hint)

    def degrade(self, trouble: StoreDegraded) -> None:
        """Nothing can be written from now on."""
        is_news = self._trouble is None
        self._trouble = trouble
        if is_news:
            self._say_so()

    def recover(self) -> None:
        """It can be written again."""
        if self._trouble is not None and not self.is_given_up:
            self._trouble = None
            self._say_so()

    def give_up(self, trouble: StoreDegraded) -> None:
        """Nothing is ever written until the store is opened again."""
        self.is_given_up = True
        self._trouble = trouble
        self._say_so()

    def _say_so(self) -> None:
        if self.on_change is not None:
            self.on_change(self.state)
