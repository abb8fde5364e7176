"""Faults planted into real sessions, one at a time, to see that the attacks would find them.

Rule 1: each is a mistake somebody could make while mending this layer, and small.
Rule 2: `plant` changes classes and tables through `monkeypatch`, which takes it back.
Rule 3: a fault that touches what no longer exists fails loudly; it is then written anew.
"""

# ruff: noqa: ANN401 - stand-ins take what the real ones take, and some of that is anything

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from actors import Later
from supervisor.core import events as ev
from supervisor.core import table
from supervisor.core.effects import StartTurn
from supervisor.core.errors import SupervisorError
from supervisor.core.facts import Fact
from supervisor.core.rules import agents, flow, inputs, interrupts
from supervisor.core.session import Phase, Session, Waiting
from supervisor.core.step import Draft, Reply
from supervisor.drivers.python import PythonDriver
from supervisor.sessions.shell.actor import SessionActor
from supervisor.sessions.shell.feed import Item, Watcher
from supervisor.sessions.shell.log import Log
from supervisor.sessions.shell.repeats import Request
from supervisor.sessions.shell.seat import Seat
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Write
from supervisor.store.writer import Commit
from supervisor.store.writer.held import Held
from tests.simulation.finding import Mutant

from .attacks import (
    ask_people,
    kill_agents,
    point_at_turns,
    stop_and_go,
    talk_over_each_other,
    trouble_the_store,
    watch_closely,
)

Patch = pytest.MonkeyPatch


# The store ------------------------------------------------------------------------------


def no_fence(patch: Patch) -> None:
    real = MemoryStore._refusal

    def refusal(self: MemoryStore, write: Write) -> SupervisorError | None:
        shelf = self._shelves.get(write.session_id)
        epoch = shelf.epoch if shelf is not None else 0
        return real(self, attrs.evolve(write, epoch=epoch))  # the fault: any epoch will do

    patch.setattr(MemoryStore, "_refusal", refusal)


def a_number_twice(patch: Patch) -> None:
    def add_facts(self: Log, facts: Iterable[Fact]) -> tuple[Any, ...]:
        self.close_part()
        for fact in facts:
            self._number(fact.turn, fact.kind, fact.at, fact.body)
        return tuple(self._unsent)  # the fault: they are still there for who writes output

    patch.setattr(Log, "add_facts", add_facts)
    patch.setattr(MemoryStore, "_refusal", lambda self, write: None)


# Decide, commit, adopt, perform -----------------------------------------------------------


def published_early(patch: Patch) -> None:
    real = SessionActor._commit

    async def commit(self: SessionActor, write: Write) -> Held | None:
        self.log.committed(self.log.last_seq)  # the fault: before it is durable
        return await real(self, write)

    patch.setattr(SessionActor, "_commit", commit)


def answered_early(patch: Patch) -> None:
    async def commit(self: SessionActor, write: Write) -> Held | None:
        write = attrs.evolve(write, kept=None)

        async def write_later() -> None:
            await self._house.writer.ask(Commit(write), timeout_seconds=math.inf)

        self._house.workshop.start_soon(write_later)  # the fault: nobody waits for it
        return None

    patch.setattr(SessionActor, "_commit", commit)


def key_not_looked_up(patch: Patch) -> None:
    async def answer(self: SessionActor, request: Request) -> Reply | Later[Reply] | None:
        return await self._take(request.event, idempotency=request.idempotency, also=request.also)

    patch.setattr(SessionActor, "_answer", answer)


def old_agent_lives_on(patch: Patch) -> None:
    patch.setattr(PythonDriver, "drop", lambda self: None)


def waiter_not_woken(patch: Patch) -> None:
    real = Seat.adopt

    def adopt(self: Seat, session: Session) -> None:
        if session.phase is Phase.STOPPED:
            self.session = session  # the fault: whoever waits for the end is not told
        else:
            real(self, session)

    patch.setattr(Seat, "adopt", adopt)


# Inputs -----------------------------------------------------------------------------------


def newest_first(patch: Patch) -> None:
    def order(self: Waiting) -> tuple[bool, int]:
        return (not self.replacement, -self.number)

    patch.setattr(Waiting, "order", property(order))


def fenced_input_waits(patch: Patch) -> None:
    def cancel_queue(draft: Draft) -> None:
        draft.note("generation_raised", generation=draft.session.generation + 1)

    patch.setattr(interrupts, "cancel_queue", cancel_queue)


def input_not_settled(patch: Patch) -> None:
    real = flow.settle

    def settle(draft: Draft, waiting: Waiting, outcome: Any, detail: str | None = None) -> None:
        if outcome != "cancelled":
            real(draft, waiting, outcome, detail)

    patch.setattr(flow, "settle", settle)


def queue_without_end(patch: Patch) -> None:
    patch.setattr(inputs, "queue_problem", lambda _: None)


def wrong_turn_steered(patch: Patch) -> None:
    real = PythonDriver.start_turn

    def start_turn(self: PythonDriver, order: StartTurn) -> None:
        before = self._run
        real(self, order)
        if before is not None and self._run is not None:
            self._run.course.offered = before.course.offered  # the fault: that was for the other

    def take_steering(draft: Draft, event: ev.SteeringTaken) -> None:
        for input_id in event.inputs:
            waiting = draft.session.find_input(input_id)
            if waiting is not None:
                flow.settle(draft, waiting, "steered")

    patch.setattr(PythonDriver, "start_turn", start_turn)
    for phase in table.OPEN:
        rule(patch, phase, ev.SteeringTaken, take_steering)


# Turns and what is in them ----------------------------------------------------------------


def next_turn_hit(patch: Patch) -> None:
    def interrupt(draft: Draft, event: ev.InterruptRequested) -> None:
        interrupts.interrupt(draft, attrs.evolve(event, turn=None))  # the fault: whatever runs

    for phase in (Phase.RUNNING, Phase.INTERRUPTING):
        rule(patch, phase, ev.InterruptRequested, interrupt)


def whole_turn_hit(patch: Patch) -> None:
    def cancel_call(self: PythonDriver, turn: Any, call: Any) -> None:
        run = self._running(turn)
        if run is not None:
            run.cancel("all of it")  # the fault: more than was named

    patch.setattr(PythonDriver, "cancel_call", cancel_call)


def zombie_forgotten(patch: Patch) -> None:
    real = flow.end_turn

    def end_turn(draft: Draft, outcome: Any, **how: Any) -> None:
        real(draft, outcome, **{**how, "zombie": False})

    patch.setattr(interrupts, "end_turn", end_turn)


def request_left_open(patch: Patch) -> None:
    patch.setattr(flow, "cancel_requests", lambda _: None)
    patch.setattr(interrupts, "cancel_requests", lambda _: None)


def turn_left_open(patch: Patch) -> None:
    def claim(draft: Draft, event: ev.Claimed) -> None:
        draft.note("session_changed", epoch=event.epoch)
        if draft.session.turn is not None:
            draft.note("session_started")  # the fault: idle, with the lost turn still open
            flow.start_next(draft)
        else:
            agents.claim(draft, event)

    for phase in (Phase.RUNNING, Phase.INTERRUPTING):
        rule(patch, phase, ev.Claimed, claim)


# Watchers ---------------------------------------------------------------------------------


def seen_twice(patch: Patch) -> None:
    def take(self: Watcher) -> Item | None:
        self._missed = None
        return self._new.popleft() if self._new else None  # the fault: whatever was read before

    patch.setattr(Watcher, "_take", take)


def gap_not_said(patch: Patch) -> None:
    patch.setattr(Watcher, "_forget", lambda self, item: None)


def rule(patch: Patch, phase: Phase, told: type[ev.Event], new: table.Rule) -> None:
    """Put another rule into the table."""
    row = table._TABLE[phase, told]
    patch.setitem(table._TABLE, (phase, told), attrs.evolve(row, rule=new))


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the fence is down",
        "6: an old incarnation writes on",
        trouble_the_store,
        "was taken at epoch",
        no_fence,
    ),
    Mutant(
        "a number is given twice",
        "21: record numbers are contiguous",
        watch_closely,
        "came after record",
        a_number_twice,
    ),
    Mutant(
        "published before the commit",
        "40: a record is seen after its commit",
        watch_closely,
        "was seen before its commit",
        published_early,
    ),
    Mutant(
        "answered before the commit",
        "22: acknowledged means present",
        talk_over_each_other,
        "has a receipt and is not durable",
        answered_early,
    ),
    Mutant(
        "no lookup of idempotency keys",
        "33: a repeated request has one effect",
        talk_over_each_other,
        "had two effects",
        key_not_looked_up,
    ),
    Mutant(
        "the agent of a dead incarnation lives on",
        "1: one turn at a time, the lost one included",
        trouble_the_store,
        "is at work while",
        old_agent_lives_on,
    ),
    Mutant(
        "who waits for the end is not woken",
        "35: no deadlock",
        stop_and_go,
        "in wait_until",
        waiter_not_woken,
    ),
    Mutant(
        "a fresh input overtakes the queue",
        "4: inputs run in the order of their numbers",
        talk_over_each_other,
        "overtook the queue",
        newest_first,
    ),
    Mutant(
        "a cancelled queue stays",
        "5: nothing of a fenced generation runs",
        point_at_turns,
        "an input of a fenced generation still waits",
        fenced_input_waits,
    ),
    Mutant(
        "an input is not settled at the end",
        "2: every accepted input ends in one outcome",
        stop_and_go,
        "left inputs waiting",
        input_not_settled,
    ),
    Mutant(
        "the queue has no cap",
        "28: queues never exceed their bounds",
        talk_over_each_other,
        "inputs wait,",
        queue_without_end,
    ),
    Mutant(
        "the wrong turn is steered",
        "4: steering reaches the turn it was for",
        talk_over_each_other,
        "was steered and never offered",
        wrong_turn_steered,
    ),
    Mutant(
        "an interrupt hits the next turn",
        "16, 17: an interrupt hits what it names, or nothing",
        point_at_turns,
        "was hit by an interrupt of",
        next_turn_hit,
    ),
    Mutant(
        "an interrupt of a call ends its turn",
        "16: nothing outside the scope is signalled",
        point_at_turns,
        "was interrupted and nobody asked for that",
        whole_turn_hit,
    ),
    Mutant(
        "a turn begins beside a zombie",
        "1: one turn at a time, the abandoned one included",
        kill_agents,
        "is at work while",
        zombie_forgotten,
    ),
    Mutant(
        "a request outlives its turn",
        "34: what is listed is what is recorded",
        ask_people,
        "left requests open",
        request_left_open,
    ),
    Mutant(
        "a lost turn stays open",
        "1: at most one turn is open",
        trouble_the_store,
        "was open",
        turn_left_open,
    ),
    Mutant(
        "a record is seen twice",
        "26: once, and in order",
        watch_closely,
        "was seen after",
        seen_twice,
    ),
    Mutant(
        "a gap is not said",
        "26: a gap only with a marker",
        watch_closely,
        "was seen after",
        gap_not_said,
    ),
)
