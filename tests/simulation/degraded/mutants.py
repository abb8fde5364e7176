"""Faults planted into what goes on while the store is degraded, to see that they would be found.

Rule 1: each is a mistake somebody could make while mending this, and small.
Rule 2: `plant` changes classes and tables through `monkeypatch`, which takes it back.
"""

# ruff: noqa: ANN401 - stand-ins take what the real ones take, and some of that is anything

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors import Ref
from supervisor.core import brakes
from supervisor.core.effects import Effect, StartTurn
from supervisor.core.step import Reply
from supervisor.sessions.house import house
from supervisor.sessions.shell import ahead
from supervisor.sessions.shell.actor import SessionActor
from supervisor.sessions.shell.ahead import Ahead
from supervisor.sessions.shell.log import Log
from supervisor.store.writer import Writer
from supervisor.store.writer.health import Health
from supervisor.store.writer.held import Backlog, Held
from tests.simulation.finding import Mutant

from .attacks import talk_and_brake

Patch = pytest.MonkeyPatch


def begun_early(patch: Patch) -> None:
    def adds_something(effect: Effect) -> bool:
        return brakes.adds_something(effect) and not isinstance(effect, StartTurn)  # the fault

    patch.setattr(ahead, "adds_something", adds_something)


def answered_early(patch: Patch) -> None:
    def when_written(held: Held, reply: Reply) -> Reply:
        return reply  # the fault: it is not

    patch.setattr(ahead, "_when_written", when_written)


def key_forgotten(patch: Patch) -> None:
    patch.setattr(Ahead, "answer_again", lambda self, key, fingerprint: None)
    # As when output has a number behind it: what can be taken back does no harm by this.
    patch.setattr(Held, "withdraw", lambda self: False)


def refused_and_written(patch: Patch) -> None:
    patch.setattr(Backlog, "forget_withdrawn", lambda self: bool(self.writes))  # the fault


def numbers_not_given_back(patch: Patch) -> None:
    real = Log.take_back

    def take_back(self: Log, records: Any, count: int) -> None:
        real(self, records, count)
        self.last_seq += count  # the fault: the next ones leave a gap

    patch.setattr(Log, "take_back", take_back)


def never_taken_back(patch: Patch) -> None:
    patch.setattr(ahead, "takes_back", lambda effect: False)


def published_early(patch: Patch) -> None:
    real = SessionActor._go_ahead

    def go_ahead(self: SessionActor, *args: Any, **more: Any) -> Any:
        self.log.committed(self.log.last_seq)  # the fault: it is not
        return real(self, *args, **more)

    patch.setattr(SessionActor, "_go_ahead", go_ahead)


def last_one_dropped(patch: Patch) -> None:
    real = Writer._try_again

    async def try_again(self: Writer) -> None:
        if len(self._held) > 2:
            self._held.pop()[1].settle(None)  # the fault: it is not
        await real(self)

    patch.setattr(Writer, "_try_again", try_again)


def written_out_of_order(patch: Patch) -> None:
    real = Writer._try_again

    async def try_again(self: Writer) -> None:
        self._held.reverse()  # the fault
        await real(self)

    patch.setattr(Writer, "_try_again", try_again)


def never_tried_again(patch: Patch) -> None:
    async def keep_trying(writer: Ref, health: Health) -> None:
        await trio.lowlevel.checkpoint()  # the fault: once would be something

    patch.setattr(house, "keep_trying", keep_trying)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a turn begins before it is durable",
        "nothing leaves before its commit",
        talk_and_brake,
        "never began",
        begun_early,
    ),
    Mutant(
        "a receipt before it is durable",
        "nothing leaves before its commit",
        talk_and_brake,
        "has a receipt and is not durable",
        answered_early,
    ),
    Mutant(
        "a key is forgotten while its answer is held",
        "one key, one effect",
        talk_and_brake,
        "had two effects",
        key_forgotten,
    ),
    Mutant(
        "what was refused is written all the same",
        "a refused input was never queued",
        talk_and_brake,
        "crashed with",
        refused_and_written,
    ),
    Mutant(
        "numbers of what was taken back are not given again",
        "numbers have no gap",
        talk_and_brake,
        "crashed with",
        numbers_not_given_back,
    ),
    Mutant(
        "what was taken back is done all the same",
        "a turn that is over is not begun",
        talk_and_brake,
        "Deadlock",
        never_taken_back,
    ),
    Mutant(
        "a record is published before it is durable",
        "nothing leaves before its commit",
        talk_and_brake,
        "before its commit",
        published_early,
    ),
    Mutant(
        "a held write is dropped",
        "nothing is lost",
        talk_and_brake,
        "what is shown has not happened yet",
        last_one_dropped,
    ),
    Mutant(
        "what is held is written out of order",
        "what is asked is written in the order of asking",
        talk_and_brake,
        "crashed with",
        written_out_of_order,
    ),
    Mutant(
        "nobody looks after a degraded store",
        "it recovers by itself",
        talk_and_brake,
        "Livelock",
        never_tried_again,
    ),
)
