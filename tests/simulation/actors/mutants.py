"""Faults planted into the actor runtime, one at a time; the attacks must find each.

Rule 1: each is a small mistake that a change of the runtime could introduce.
Rule 2: `plant` changes classes of the runtime through `monkeypatch`, which undoes it.
Rule 3: a fault that patches a removed name fails loudly and must be rewritten.
"""
# ruff: noqa: ANN401 - replacements accept the arguments of the originals, some of type Any

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import pytest
import trio
from trio.lowlevel import checkpoint

import actors._restart
import actors._supervisor
from actors import Ask, Crashed, Exit, Finished, GaveUp, NameTaken, Ref, StopActor, Stopped
from actors._cell import Cell
from actors._child import Child
from actors._direct import DirectDelivery
from actors._group import Group
from actors._mailbox import EMPTY, Mailbox
from actors._message import Question, Timeouts
from actors._recovery import Recovery
from actors._supervisor import Supervisor
from tests.simulation.planted_faults import Mutant

from .attacks import (
    disturb_group,
    disturb_nested_groups,
    exhaust_nested_restarts,
    exhaust_restarts,
    fill_mailbox,
    race_starts,
    stop_concurrently,
    watch_ending_actors,
)
from .internals import group_of
from .scripted_actor import Answer

Patch = pytest.MonkeyPatch
Step: TypeAlias = Callable[[], Awaitable[None]]


# Messages -------------------------------------------------------------------------------


def patch_serve(patch: Patch, *, before_park: Step, before_receive: Step) -> None:
    """Replace the loop of an actor by one that awaits a step where it must not."""

    async def serve(self: Cell, receive: Callable[[Any], Awaitable[Any]]) -> Exit:
        try:
            while self.desired_state == "run":
                message = self.mailbox.take()
                if message is EMPTY:
                    await before_park()
                    self.mailbox.park(trio.lowlevel.current_task())
                    await trio.lowlevel.wait_task_rescheduled(self._abort_wait)
                    continue
                await before_receive()
                self.handled += 1
                if isinstance(message, Question):
                    try:
                        message.answer(await receive(message.message))
                    except BaseException as error:
                        message.fail(self.failure_of(error))
                        raise
                else:
                    await receive(message)
        except StopActor:
            return Finished()
        except Exception as error:  # noqa: BLE001 - as in the real one
            return Crashed(error)
        return Stopped()

    patch.setattr(Cell, "_serve", serve)


async def nothing() -> None:
    pass


def message_lost_on_cancel(patch: Patch) -> None:
    # The fault: neither in the mailbox nor being handled.
    patch_serve(patch, before_park=nothing, before_receive=checkpoint)


def lost_wakeup(patch: Patch) -> None:
    # The fault: a message that arrives now wakes no reader.
    patch_serve(patch, before_park=checkpoint, before_receive=nothing)


def capacity_race(patch: Patch) -> None:
    async def ask(self: Ref, message: Ask[int], *, timeout_seconds: float, urgent: bool) -> int:
        box = self._child.mailbox
        if len(box.ordinary) >= box.limit:
            raise box.refusal(message)
        await checkpoint()  # the fault: acts on a check made before an await
        if box.closed:
            raise box.refusal(message)
        question = Question(message, trio.lowlevel.current_task())
        box.ordinary.append(question)
        box.wake()
        deadline = trio.current_time() + timeout_seconds
        self._child.context.timeouts.add(question, self.name, timeout_seconds, deadline)
        answer: int = await trio.lowlevel.wait_task_rescheduled(question.abandon)
        return answer

    patch.setattr(Ref, "ask", ask)


def late_answer_to_the_wrong_ask(patch: Patch) -> None:
    real_add, real_answer = Timeouts.add, Question.answer
    askers: WeakKeyDictionary[Answer, trio.lowlevel.Task] = WeakKeyDictionary()
    latest: WeakKeyDictionary[trio.lowlevel.Task, Question] = WeakKeyDictionary()

    def add(
        self: Timeouts, question: Question, name: str, timeout_seconds: float, deadline: float
    ) -> None:
        real_add(self, question, name, timeout_seconds, deadline)
        assert question.asker is not None
        assert isinstance(question.message, Answer)
        askers[question.message] = question.asker
        latest[question.asker] = question

    def answer(self: Question, value: object) -> None:
        # The fault: the answer goes to the asking task, not to the question.
        assert isinstance(self.message, Answer)
        real_answer(latest[askers[self.message]], value)

    patch.setattr(Timeouts, "add", add)
    patch.setattr(Question, "answer", answer)


def mailbox_not_kept(patch: Patch) -> None:
    real = Cell.launch

    async def launch(self: Cell) -> Exit | None:
        self.mailbox.ordinary.clear()  # the fault: a restart empties the mailbox
        return await real(self)

    patch.setattr(Cell, "launch", launch)


def paused_actor_is_entered(patch: Patch) -> None:
    real = DirectDelivery.deliver

    def deliver(self: DirectDelivery, cell: Cell, message: object, *, urgent: bool) -> None:
        reader = cell.mailbox.reader
        real(self, cell, message, urgent=urgent)
        if cell._pause is not None:
            cell.mailbox.reader = reader  # the fault: the actor does not wait for messages

    patch.setattr(DirectDelivery, "deliver", deliver)


# Starting and stopping ------------------------------------------------------------------


def child_leaked_by_a_cancelled_start(patch: Patch) -> None:
    async def start_admitted(self: Supervisor, child: Child) -> None:
        exit_ = await child.launch()  # the fault: a cancellation leaves the child listed
        if exit_ is not None:
            self._discard_failed_start(child, exit_)
            raise exit_.error if isinstance(exit_, Crashed) else actors.ActorStopped(child.name)
        child.has_started = True

    patch.setattr(Supervisor, "start_admitted", start_admitted)


def name_race(patch: Patch) -> None:
    real = Group.start

    async def start(
        self: Group, make: Callable[[], actors.Actor], *, name: str, **options: Any
    ) -> Ref:
        if name in self:
            raise NameTaken(name, where=self.name)
        await checkpoint()
        group_of(self)._children.pop(name, None)  # the fault: overwrites a child started meanwhile
        return await real(self, make, name=name, **options)

    patch.setattr(Group, "start", start)


def back_after_a_stop(patch: Patch) -> None:
    def over_with(self: Cell, exit_: Exit) -> None:
        assert self.supervisor is not None
        if isinstance(exit_, Crashed):
            self.desired_state = "run"
            self.supervisor.child_exited(self, exit_)  # the fault: a stop is treated as a crash
        else:
            self.supervisor.child_ended_for_good(self, exit_)

    patch.setattr(Cell, "_report_ended", over_with)


def clean_up_skipped_when_killed(patch: Patch) -> None:
    real = Cell._clean_up

    async def clean_up(self: Cell, actor: actors.Actor, exit_: Exit) -> Exit:
        await trio.lowlevel.checkpoint_if_cancelled()  # the fault: a killed actor skips on_stop
        return await real(self, actor, exit_)

    patch.setattr(Cell, "_clean_up", clean_up)


def stopped_in_start_order(patch: Patch) -> None:
    patch.setattr(actors._supervisor, "reversed", iter, raising=False)


def halted_in_start_order(patch: Patch) -> None:
    patch.setattr(actors._restart, "reversed", iter, raising=False)


# Restarts -------------------------------------------------------------------------------


def double_restart(patch: Patch) -> None:
    real = Supervisor._schedule_restart

    def bring_back(self: Supervisor, child: Child, after_seconds: float) -> None:
        self._recoveries._running.clear()  # the fault: a second recovery beside the first
        real(self, child, after_seconds)

    patch.setattr(Supervisor, "_schedule_restart", bring_back)


def restart_not_called_off(patch: Patch) -> None:
    def call_off(self: Recovery) -> None:
        self._recoveries.on_ended(self)  # the fault: the recovery continues

    patch.setattr(Recovery, "cancel", call_off)


def escalates_twice(patch: Patch) -> None:
    real = Supervisor.child_exited

    def child_exited(self: Supervisor, child: Child, exit_: Exit) -> None:
        real(self, child, exit_)
        if isinstance(exit_, GaveUp) and child.reason is None:
            real(self, child, exit_)  # the fault

    patch.setattr(Supervisor, "child_exited", child_exited)


def one_restart_too_many(patch: Patch) -> None:
    real = actors._restart.decide_restart

    def judge(
        *args: Any, recent: tuple[float, ...], **options: Any
    ) -> actors._restart.RestartDecision:
        return real(*args, recent=recent[1:], **options)  # the fault: ignores the oldest restart

    patch.setattr(actors._supervisor, "decide_restart", judge)


# Watching -------------------------------------------------------------------------------


def end_notice_overtakes_messages(patch: Patch) -> None:
    def put_reserved(self: Mailbox, message: object) -> None:
        if not self.closed:
            self.ordinary.appendleft(message)  # the fault: overtakes earlier messages
            self.wake()

    patch.setattr(Mailbox, "put_reserved", put_reserved)


def late_watcher_gets_no_notice(patch: Patch) -> None:
    real = Child.add_watcher

    def add_watcher(self: Child, watcher: Cell) -> None:
        if self.reason is None:  # the fault: a watcher added after the end gets no notice
            real(self, watcher)

    patch.setattr(Child, "add_watcher", add_watcher)


def watcher_notified_of_restarts(patch: Patch) -> None:
    real = Recovery.add

    def add(self: Recovery, child: Child, *, not_before: float) -> None:
        for watcher in child._watchers or ():
            assert isinstance(watcher, Cell)
            watcher.mailbox.put_reserved(actors.Ended(child.handle, Stopped()))  # the fault
        real(self, child, not_before=not_before)

    patch.setattr(Recovery, "add", add)


MUTANTS = (
    Mutant(
        "message lost on cancel",
        "a message is taken, then awaited upon, then handled",
        stop_concurrently,
        "lost messages",
        message_lost_on_cancel,
    ),
    Mutant(
        "lost wakeup",
        "the reader does not wake for a message",
        fill_mailbox,
        "waits although it has messages",
        lost_wakeup,
    ),
    Mutant(
        "capacity race",
        "a mailbox exceeds its bound",
        fill_mailbox,
        "holds more than its capacity",
        capacity_race,
    ),
    Mutant(
        "late answer to the wrong ask",
        "an answer after time-out or cancellation reaches the asker's next wait",
        fill_mailbox,
        "got the answer",
        late_answer_to_the_wrong_ask,
    ),
    Mutant(
        "mailbox not kept",
        "a restart drops messages",
        fill_mailbox,
        "lost messages",
        mailbox_not_kept,
    ),
    Mutant(
        "paused actor is entered",
        "a sender has a message handled while the actor pauses for another one",
        fill_mailbox,
        "handles two messages at once",
        paused_actor_is_entered,
    ),
    Mutant(
        "child leaked by a cancelled start",
        "a name stays taken without an actor",
        race_starts,
        "failed to start and is listed",
        child_leaked_by_a_cancelled_start,
    ),
    Mutant(
        "name race",
        "two live children of one name",
        race_starts,
        "its supervisor does not list it",
        name_race,
    ),
    Mutant(
        "back after a stop",
        "a user's stop is never a crash",
        stop_concurrently,
        "came back after a stop",
        back_after_a_stop,
    ),
    Mutant(
        "clean-up skipped when killed",
        "on_stop is not called once for each start",
        stop_concurrently,
        "alive without a task",
        clean_up_skipped_when_killed,
    ),
    Mutant(
        "stopped in start order",
        "children stop before the siblings that depend on them",
        disturb_group,
        "is stopped before",
        stopped_in_start_order,
    ),
    Mutant(
        "halted in start order",
        "a group restart halts in the wrong order",
        disturb_group,
        "is stopped before",
        halted_in_start_order,
    ),
    Mutant(
        "double restart",
        "two incarnations at once",
        disturb_group,
        "two incarnations at once",
        double_restart,
    ),
    Mutant(
        "restart not called off",
        "a stopped group brings its children back",
        disturb_nested_groups,
        "two incarnations at once",
        restart_not_called_off,
    ),
    Mutant(
        "escalates twice",
        "one end of an inner group costs the outer group two restarts",
        exhaust_nested_restarts,
        "given up after",
        escalates_twice,
    ),
    Mutant(
        "one restart too many",
        "the restart limit is exceeded",
        exhaust_restarts,
        " times within ",
        one_restart_too_many,
    ),
    Mutant(
        "end notice overtakes messages",
        "the end notice comes after the last messages",
        watch_ending_actors,
        "received a notice of an end before messages",
        end_notice_overtakes_messages,
    ),
    Mutant(
        "late watcher gets no notice",
        "watching an ended actor sends a notice at once",
        watch_ending_actors,
        "received no notice that",
        late_watcher_gets_no_notice,
    ),
    Mutant(
        "watcher gets a notice of every restart",
        "a restart is not an end",
        watch_ending_actors,
        "received a notice with a wrong reason",
        watcher_notified_of_restarts,
    ),
)
