"""How far a session is ahead of a store that is degraded: what it does now, and what later.

Rule 1: what only brakes is done at once. What gives an agent something, and the answer to who asked
        for it, waits until it is durable; and so does everything that others may know.
Rule 2: what waits and is taken back meanwhile is never done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from actors import Later
from supervisor.core.brakes import adds_something, is_brake, name_of, takes_back
from supervisor.core.effects import CancelTurn, Effect
from supervisor.core.errors import SupervisorError
from supervisor.core.events import Event
from supervisor.core.ids import TurnId
from supervisor.core.step import Accepted, Refused, Reply, Step
from supervisor.store.port import Kept
from supervisor.store.writer.held import Held

from .repeats import key_conflict


@attrs.frozen
class Doing:
    """What a session does for its steps."""

    perform: Callable[[Effect], None]
    # The turn was cancelled before its agent got it.
    end_turn: Callable[[TurnId], None]
    # A step is written: its last number, or why it never will be; and what waited for that, which
    # is to be given to `release` by the session itself: whoever writes has others to look after.
    written: Callable[[int, SupervisorError | None, Sequence[Effect]], None]


class Ahead:
    """Made by an incarnation when the store first would not take what it decided."""

    __slots__ = ("_do", "_kept", "_waiting", "is_over", "steps")

    def __init__(self, do: Doing) -> None:
        self._do = do
        # How many steps it is ahead.
        self.steps = 0
        # By name: what waits until it is durable, and was not taken back.
        self._waiting: dict[str, Effect] = {}
        # By idempotency key: answers that are not in the store yet.
        self._kept: dict[str, tuple[Kept, Reply, Held]] = {}
        # Set when the incarnation has ended: then nothing that comes is for it.
        self.is_over = False

    def go(
        self, event: Event, step: Step, held: Held, last: int, kept: Kept | None
    ) -> Reply | Later[Reply] | None:
        """Do of a step what may be done now; gives the answer, or one that is still owed."""
        self.steps += 1
        waits = [effect for effect in step.effects if adds_something(effect)]
        for effect in step.effects:
            if not adds_something(effect):
                self._do_now(effect)
        for effect in waits:
            self._waiting[name_of(effect)] = effect
        held.then(partial(self._caught_up, waits, last))
        if not isinstance(step.reply, Accepted) or is_brake(event):
            return step.reply
        if kept is not None:
            self._kept[kept.key] = (kept, step.reply, held)
            held.then(partial(self._forget_kept, kept.key))
        return _when_written(held, step.reply)

    def answer_again(self, key: str, fingerprint: str) -> Reply | Later[Reply] | None:
        """The answer to a request that was accepted and is not written yet, if it was."""
        if key not in self._kept:
            return None
        kept, reply, held = self._kept[key]
        if kept.fingerprint != fingerprint:
            return Refused(key_conflict(key))
        return _when_written(held, reply)

    def _forget_kept(self, key: str, _: SupervisorError | None) -> None:
        del self._kept[key]

    def _do_now(self, effect: Effect) -> None:
        waited = takes_back(effect) and self._waiting.pop(name_of(effect), None) is not None
        if waited and isinstance(effect, CancelTurn):
            self._do.end_turn(effect.turn)
        else:
            self._do.perform(effect)

    def _caught_up(self, waits: list[Effect], last: int, refusal: SupervisorError | None) -> None:
        """The store has written a step, or never will."""
        if self.is_over:
            return
        self.steps -= 1
        self._do.written(last, refusal, waits)

    def release(self, waits: Sequence[Effect]) -> None:
        """Do what waited, if it was not taken back."""
        for effect in waits:
            if self._waiting.get(name_of(effect)) is effect:
                del self._waiting[name_of(effect)]
                self._do.perform(effect)


def _when_written(held: Held, reply: Reply) -> Later[Reply]:
    """The answer, when it is durable; if it never is, the asker hears of the session's end."""
    later: Later[Reply] = Later()
    held.then(lambda refusal: later.answer(reply) if refusal is None else None)
    return later
