"""Faults planted into sessions, one at a time; the attacks must find each.

Rule 1: each is a small mistake that a change of this layer could introduce.
Rule 2: `plant` changes classes and tables through `monkeypatch`, which undoes it.
Rule 3: a fault that patches a removed name fails loudly and must be rewritten.
"""
# ruff: noqa: ANN401 - replacements accept the arguments of the originals, some of type Any

from __future__ import annotations

import math
from typing import Any

import pytest

from supervisor.core import agent_events, table
from supervisor.core import events as ev
from supervisor.core.effects import StartTurn
from supervisor.core.errors import SupervisorError
from supervisor.core.facts import Fact, NumberedFact
from supervisor.core.records import Item
from supervisor.core.rules import (
    agents,
    input_queue,
    inputs,
    interrupts,
    ladder,
    stopping,
    turn_flow,
)
from supervisor.core.state import PendingInput, Phase, SessionState
from supervisor.core.step import Draft
from supervisor.drivers.python import PythonDriver
from supervisor.sessions.actor import SessionActor
from supervisor.sessions.driver_context import DriverReport
from supervisor.sessions.feed import Watcher
from supervisor.sessions.idempotency import SessionRequest
from supervisor.sessions.log import Log
from supervisor.sessions.open_step import OpenStep
from supervisor.sessions.session_steps import StepReply
from supervisor.sessions.slot import SessionSlot
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Write
from supervisor.store.writer_messages import Commit
from tests.simulation.planted_faults import Mutant

from .attacks import (
    answer_permissions,
    crash_agents,
    fail_store_writes,
    interrupt_scopes,
    send_concurrently,
    stop_and_resume,
    watch_records,
)

Patch = pytest.MonkeyPatch


# The store ------------------------------------------------------------------------------


def no_fence(patch: Patch) -> None:
    real = MemoryStore._refusal

    def refusal(self: MemoryStore, write: Write) -> SupervisorError | None:
        shelf = self._sessions.get(write.session_id)
        epoch = shelf.epoch if shelf is not None else 0
        return real(self, write.changed(epoch=epoch))  # the fault: every epoch is accepted

    patch.setattr(MemoryStore, "_refusal", refusal)


def a_number_twice(patch: Patch) -> None:
    real = Log.add_facts

    def add_facts(self: Log, facts: tuple[Fact, ...]) -> tuple[NumberedFact, ...]:
        if any(fact.kind == "turn_ended" for fact in facts):
            self.last_seq -= 1  # the fault: the number of the record before is used again
        return real(self, facts)

    patch.setattr(Log, "add_facts", add_facts)
    patch.setattr(MemoryStore, "_refusal", lambda self, write: None)


# Decide, commit, adopt, perform -----------------------------------------------------------


def published_early(patch: Patch) -> None:
    real = SessionActor._commit

    def commit(
        self: SessionActor, decided: Any, report: DriverReport | None = None
    ) -> OpenStep | StepReply:
        if isinstance(decided, OpenStep):
            self.slot.subscribers.publish(decided.write.records)  # the fault: before it is durable
        return real(self, decided, report)

    patch.setattr(SessionActor, "_commit", commit)


def answered_early(patch: Patch) -> None:
    def commit(
        self: SessionActor, decided: Any, report: DriverReport | None = None
    ) -> OpenStep | StepReply:
        if isinstance(decided, OpenStep):
            decided.report = report
            write = decided.write.changed(stored_reply=None)

            async def schedule_flush() -> None:
                await self._services.writer.ask(Commit(write), timeout_seconds=math.inf)

            self._services.tasks.start_soon(schedule_flush)
            self._on_written(decided, None)  # the fault: the commit is not awaited
        step: OpenStep | StepReply = decided
        return step

    patch.setattr(SessionActor, "_commit", commit)


def key_not_looked_up(patch: Patch) -> None:
    async def answer(self: SessionActor, request: SessionRequest) -> OpenStep | StepReply:
        return self._commit(self._decide(request.event, request))

    patch.setattr(SessionActor, "_handle_repeated_request", answer)


def old_agent_runs_on(patch: Patch) -> None:
    patch.setattr(PythonDriver, "discard", lambda self: None)


def waiter_not_woken(patch: Patch) -> None:
    real = SessionSlot.adopt

    def adopt(self: SessionSlot, session: SessionState) -> None:
        if session.phase is Phase.STOPPED:
            self.session = session  # the fault: waiters for the end are not woken
        else:
            real(self, session)

    patch.setattr(SessionSlot, "adopt", adopt)


# Inputs -----------------------------------------------------------------------------------


def newest_first(patch: Patch) -> None:
    def order(self: PendingInput) -> tuple[bool, int]:
        return (not self.replacement, -self.number)

    patch.setattr(PendingInput, "order", property(order))


def fenced_input_waits(patch: Patch) -> None:
    def cancel_queue(draft: Draft) -> None:
        draft.note("generation_raised", generation=draft.state.generation + 1)

    patch.setattr(interrupts, "cancel_queue", cancel_queue)


def input_not_settled(patch: Patch) -> None:
    real = input_queue.settle_input

    def settle(
        draft: Draft, waiting: PendingInput, outcome: Any, detail: str | None = None
    ) -> None:
        if outcome != "cancelled":
            real(draft, waiting, outcome, detail)

    patch.setattr(stopping, "settle_input", settle)


def queue_without_end(patch: Patch) -> None:
    patch.setattr(inputs, "queue_problem", lambda _: None)


def wrong_turn_steered(patch: Patch) -> None:
    real = PythonDriver.start_turn

    def start_turn(self: PythonDriver, order: StartTurn) -> None:
        before = self._run
        real(self, order)
        if before is not None and self._run is not None:
            self._run.turn_control.offered_steering = (
                before.turn_control.offered_steering
            )  # the fault: steering of the previous turn

    def take_steering(draft: Draft, event: agent_events.SteeringTaken) -> None:
        for input_id in event.inputs:
            waiting = draft.state.find_input(input_id)
            if waiting is not None:
                input_queue.settle_input(draft, waiting, "steered")

    patch.setattr(PythonDriver, "start_turn", start_turn)
    for phase in table.TURN_OPEN:
        rule(patch, phase, agent_events.SteeringTaken, take_steering)


# Turns and what is in them ----------------------------------------------------------------


def next_turn_hit(patch: Patch) -> None:
    def interrupt(draft: Draft, event: ev.InterruptRequested) -> None:
        interrupts.interrupt(draft, event.changed(turn=None))  # the fault: hits the turn that runs

    for phase in (Phase.RUNNING, Phase.INTERRUPTING):
        rule(patch, phase, ev.InterruptRequested, interrupt)


def whole_turn_hit(patch: Patch) -> None:
    def cancel_call(self: PythonDriver, turn: Any, call: Any) -> None:
        run = self._running(turn)
        if run is not None:
            run.cancel("whole turn")  # the fault: more than the target

    patch.setattr(PythonDriver, "cancel_call", cancel_call)


def zombie_forgotten(patch: Patch) -> None:
    real = turn_flow.end_turn

    def end_turn(draft: Draft, outcome: Any, **how: Any) -> None:
        real(draft, outcome, **{**how, "zombie": False})

    patch.setattr(interrupts, "end_turn", end_turn)


def request_left_open(patch: Patch) -> None:
    patch.setattr(turn_flow, "cancel_requests", lambda _: None)
    patch.setattr(ladder, "cancel_requests", lambda _: None)


def turn_left_open(patch: Patch) -> None:
    def claim(draft: Draft, event: agent_events.Claimed) -> None:
        draft.note("session_changed", epoch=event.epoch)
        if draft.state.turn is not None:
            draft.note("session_started")  # the fault: idle, with the lost turn still open
            turn_flow.start_next_turn(draft)
        else:
            agents.claim(draft, event)

    for phase in (Phase.RUNNING, Phase.INTERRUPTING):
        rule(patch, phase, agent_events.Claimed, claim)


# Watchers ---------------------------------------------------------------------------------


def seen_twice(patch: Patch) -> None:
    def take(self: Watcher) -> Item | None:
        self._gap = None
        return (
            self._pushed.popleft() if self._pushed else None
        )  # the fault: ignores what was read before

    patch.setattr(Watcher, "_pop", take)


def gap_not_reported(patch: Patch) -> None:
    patch.setattr(Watcher, "_extend_gap", lambda self, item: None)


def rule(patch: Patch, phase: Phase, told: type[ev.Event], new: table.Rule) -> None:
    """Replace a rule of the table."""
    patch.setitem(table._RULES, (phase, told), new)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "no fence",
        "6: an old incarnation never writes",
        fail_store_writes,
        "was accepted at epoch",
        no_fence,
    ),
    Mutant(
        "a number is used twice",
        "21: record numbers are contiguous",
        watch_records,
        "came after record",
        a_number_twice,
    ),
    Mutant(
        "published before the commit",
        "40: a record is seen after its commit",
        watch_records,
        "was seen before its commit",
        published_early,
    ),
    Mutant(
        "answered before the commit",
        "22: acknowledged means present",
        send_concurrently,
        "has a receipt and is not durable",
        answered_early,
    ),
    Mutant(
        "no lookup of idempotency keys",
        "33: a repeated request has one effect",
        send_concurrently,
        "had two effects",
        key_not_looked_up,
    ),
    Mutant(
        "the agent of an ended incarnation runs on",
        "1: one turn at a time, the lost one included",
        fail_store_writes,
        "runs while",
        old_agent_runs_on,
    ),
    Mutant(
        "a waiter for the end is not woken",
        "35: no deadlock",
        stop_and_resume,
        "in wait_until",
        waiter_not_woken,
    ),
    Mutant(
        "a fresh input overtakes the queue",
        "4: inputs run in the order of their numbers",
        send_concurrently,
        "overtook the queue",
        newest_first,
    ),
    Mutant(
        "a cancelled queue remains",
        "5: nothing of a fenced generation runs",
        interrupt_scopes,
        "an input of a fenced generation is still queued",
        fenced_input_waits,
    ),
    Mutant(
        "an input is not settled at the end",
        "2: every accepted input ends in one outcome",
        stop_and_resume,
        "left inputs queued",
        input_not_settled,
    ),
    Mutant(
        "the queue has no cap",
        "28: queues never exceed their bounds",
        send_concurrently,
        "inputs are queued, the cap is",
        queue_without_end,
    ),
    Mutant(
        "the wrong turn is steered",
        "4: steering reaches the turn it was for",
        send_concurrently,
        "was steered and never offered",
        wrong_turn_steered,
    ),
    Mutant(
        "an interrupt hits the next turn",
        "16, 17: an interrupt hits its target or nothing",
        interrupt_scopes,
        "was hit by an interrupt of",
        next_turn_hit,
    ),
    Mutant(
        "an interrupt of a call ends its turn",
        "16: nothing outside the scope is signalled",
        interrupt_scopes,
        "was interrupted without a request",
        whole_turn_hit,
    ),
    Mutant(
        "a turn begins beside a zombie",
        "1: one turn at a time, the abandoned one included",
        crash_agents,
        "runs while",
        zombie_forgotten,
    ),
    Mutant(
        "a request outlives its turn",
        "34: the list equals the records",
        answer_permissions,
        "left requests open",
        request_left_open,
    ),
    Mutant(
        "a lost turn stays open",
        "1: at most one turn is open",
        fail_store_writes,
        "was open",
        turn_left_open,
    ),
    Mutant(
        "a record is seen twice",
        "26: once, and in order",
        watch_records,
        "was seen after",
        seen_twice,
    ),
    Mutant(
        "a gap is not reported",
        "26: a gap only with a marker",
        watch_records,
        "was seen after",
        gap_not_reported,
    ),
)
