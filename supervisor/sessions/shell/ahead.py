"""How far a session is ahead of a store that is degraded: what it does now, and what later.

Rule 1: what only brakes is done at once. What gives an agent more, and the answer to who asked for
        it, waits until it is durable; and so does everything that others may know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from actors import Later
from supervisor.core.brakes import adds_something, is_brake
from supervisor.core.effects import Effect
from supervisor.core.errors import SupervisorError
from supervisor.core.events import Event
from supervisor.core.step import Accepted, Reply, Step
from supervisor.store.writer import Held


class Ahead:
    """Made by an incarnation when the store first would not take what it decided."""

    __slots__ = ("_on_written", "_perform", "is_over", "steps")

    def __init__(
        self,
        perform: Callable[[Effect], None],
        on_written: Callable[[int, SupervisorError | None], None],
    ) -> None:
        self._perform = perform
        # Told of each step that is written: its last number, or why it never will be.
        self._on_written = on_written
        # How many steps it is ahead.
        self.steps = 0
        # Set when the incarnation has ended: then nothing that comes is for it.
        self.is_over = False

    def go(self, event: Event, step: Step, held: Held, last: int) -> Reply | Later[Reply] | None:
        """Do of a step what may be done now; gives the answer, or one that is still owed."""
        self.steps += 1
        for effect in step.effects:
            if not adds_something(effect):
                self._perform(effect)
        answer: Later[Reply] | None = None
        if isinstance(step.reply, Accepted) and not is_brake(event):
            answer = Later()
        held.then(partial(self._caught_up, step, last, answer))
        return step.reply if answer is None else answer

    def _caught_up(
        self,
        step: Step,
        last: int,
        answer: Later[Reply] | None,
        refusal: SupervisorError | None,
    ) -> None:
        """The store has written the step, or never will."""
        if self.is_over:
            return
        self.steps -= 1
        self._on_written(last, refusal)
        if refusal is not None:
            return
        for effect in step.effects:
            if adds_something(effect):
                self._perform(effect)
        if answer is not None and step.reply is not None:
            answer.answer(step.reply)
