"""Faults planted into the real runtime, one at a time, to see that the attacks would find them.

Rule 1: each is a mistake somebody could make while mending the runtime, and small.
Rule 2: `plant` changes classes of the runtime through `monkeypatch`, which takes it back.
Rule 3: a fault that touches what no longer exists fails loudly; it is then written anew.
"""

# ruff: noqa: ANN401 - stand-ins take what the real ones take, and some of that is anything

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import trio
from trio.lowlevel import checkpoint

import actors._restart
import actors._supervisor
from actors import Ask, Crashed, Exit, Finished, GaveUp, NameTaken, Ref, StopActor, Stopped
from actors._cell import Cell
from actors._child import Child
from actors._group import Group
from actors._mailbox import NOTHING, Mailbox
from actors._message import Question, Timeouts
from actors._recovery import Recovery
from actors._supervisor import Supervisor
from tests.simulation.finding import Mutant

from .attacks import (
    crowd_a_mailbox,
    shake_a_group,
    shake_a_tree,
    spend_the_budget,
    spend_the_budget_of_a_tree,
    start_in_a_hurry,
    stop_everything,
    watch_each_other,
)
from .player import Answer

Patch = pytest.MonkeyPatch


# Messages -------------------------------------------------------------------------------


def message_lost_on_cancel(patch: Patch) -> None:
    async def serve(self: Cell, receive: Callable[[Any], Awaitable[Any]]) -> Exit:
        try:
            while self.wanted == "run":
                message = self.mailbox.take()
                if message is NOTHING:
                    await self.mailbox.wait()
                    continue
                await checkpoint()  # the fault: neither in the mailbox nor in hand
                self.handled += 1
                if isinstance(message, Question):
                    try:
                        message.answer(await receive(message.message))
                    except BaseException as error:
                        message.fail(self._failure(error))
                        raise
                else:
                    await receive(message)
        except StopActor:
            return Finished()
        except Exception as error:  # noqa: BLE001 - as in the real one
            return Crashed(error)
        return Stopped()

    patch.setattr(Cell, "_serve", serve)


def lost_wakeup(patch: Patch) -> None:
    real = Mailbox.wait

    async def wait(self: Mailbox) -> None:
        await checkpoint()  # the fault: what arrives now wakes nobody
        await real(self)

    patch.setattr(Mailbox, "wait", wait)


def capacity_race(patch: Patch) -> None:
    async def ask(self: Ref, message: Ask[int], *, timeout_seconds: float, urgent: bool) -> int:
        box = self._child.mailbox
        if len(box.ordinary) >= box.limit:
            raise box.refusal(message)
        await checkpoint()  # the fault: looked, awaited, and acts on what it saw before
        if box.closed:
            raise box.refusal(message)
        question = Question(message, trio.lowlevel.current_task())
        box.ordinary.append(question)
        box.wake()
        deadline = trio.current_time() + timeout_seconds
        self._child.house.timeouts.add(question, self.name, timeout_seconds, deadline)
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
        # The fault: an answer belongs to whoever asked, not to what was asked.
        assert isinstance(self.message, Answer)
        real_answer(latest[askers[self.message]], value)

    patch.setattr(Timeouts, "add", add)
    patch.setattr(Question, "answer", answer)


def mailbox_not_kept(patch: Patch) -> None:
    real = Cell.launch

    async def launch(self: Cell) -> Exit | None:
        self.mailbox.ordinary.clear()  # the fault: a restart begins with an empty mailbox
        return await real(self)

    patch.setattr(Cell, "launch", launch)


# Starting and stopping ------------------------------------------------------------------


def child_leaked_by_a_cancelled_start(patch: Patch) -> None:
    async def start_admitted(self: Supervisor, child: Child) -> None:
        exit_ = await child.launch()  # the fault: a cancellation leaves the child listed
        if exit_ is not None:
            self._forget_unborn(child, exit_)
            raise exit_.error if isinstance(exit_, Crashed) else actors.ActorStopped(child.name)
        child.was_up = True

    patch.setattr(Supervisor, "start_admitted", start_admitted)


def name_race(patch: Patch) -> None:
    real = Group.start

    async def start(
        self: Group, make: Callable[[], actors.Actor], *, name: str, **options: Any
    ) -> Ref:
        if name in self:
            raise NameTaken(name, where=self.name)
        await checkpoint()
        self._child._children.pop(name, None)  # the fault: whoever came meanwhile is overwritten
        return await real(self, make, name=name, **options)

    patch.setattr(Group, "start", start)


def back_after_a_stop(patch: Patch) -> None:
    def over_with(self: Cell, exit_: Exit) -> None:
        assert self.supervisor is not None
        if isinstance(exit_, Crashed):
            self.wanted = "run"
            self.supervisor.child_exited(self, exit_)  # the fault: a stop taken for a crash
        else:
            self.supervisor.child_over(self, exit_)

    patch.setattr(Cell, "_over_with", over_with)


def clean_up_skipped_when_killed(patch: Patch) -> None:
    real = Cell._clean_up

    async def clean_up(self: Cell, actor: actors.Actor, exit_: Exit) -> Exit:
        await trio.lowlevel.checkpoint_if_cancelled()  # the fault: the killed skip on_stop
        return await real(self, actor, exit_)

    patch.setattr(Cell, "_clean_up", clean_up)


def stopped_in_start_order(patch: Patch) -> None:
    patch.setattr(actors._supervisor, "reversed", iter, raising=False)


def halted_in_start_order(patch: Patch) -> None:
    patch.setattr(actors._restart, "reversed", iter, raising=False)


# Restarts -------------------------------------------------------------------------------


def double_restart(patch: Patch) -> None:
    real = Supervisor._bring_back

    def bring_back(self: Supervisor, child: Child, after_seconds: float) -> None:
        self._recoveries.clear()  # the fault: a second recovery beside the first
        real(self, child, after_seconds)

    patch.setattr(Supervisor, "_bring_back", bring_back)


def restart_not_called_off(patch: Patch) -> None:
    def call_off(self: Recovery) -> None:
        self._supervisor.recovered(self)  # the fault: it goes on by itself

    patch.setattr(Recovery, "call_off", call_off)


def escalates_twice(patch: Patch) -> None:
    real = Supervisor.child_exited

    def child_exited(self: Supervisor, child: Child, exit_: Exit) -> None:
        real(self, child, exit_)
        if isinstance(exit_, GaveUp) and child.reason is None:
            real(self, child, exit_)  # the fault

    patch.setattr(Supervisor, "child_exited", child_exited)


def one_restart_too_many(patch: Patch) -> None:
    real = actors._restart.judge

    def judge(*args: Any, recent: tuple[float, ...], **options: Any) -> actors._restart.Verdict:
        return real(*args, recent=recent[1:], **options)  # the fault: forgets the oldest

    patch.setattr(actors._supervisor, "judge", judge)


# Watching -------------------------------------------------------------------------------


def watcher_told_too_early(patch: Patch) -> None:
    def put_reserved(self: Mailbox, message: object) -> None:
        if not self.closed:
            self.ordinary.appendleft(message)  # the fault: overtakes what was sent before
            self.wake()

    patch.setattr(Mailbox, "put_reserved", put_reserved)


def late_watcher_never_told(patch: Patch) -> None:
    real = Child.add_watcher

    def add_watcher(self: Child, watcher: Cell) -> None:
        if self.reason is None:  # the fault: who comes after the end hears nothing
            real(self, watcher)

    patch.setattr(Child, "add_watcher", add_watcher)


def watcher_told_of_every_restart(patch: Patch) -> None:
    real = Recovery.add

    def add(self: Recovery, child: Child, *, not_before: float) -> None:
        for watcher in child._watchers or ():
            watcher.mailbox.put_reserved(actors.Ended(child.handle, Stopped()))  # the fault
        real(self, child, not_before=not_before)

    patch.setattr(Recovery, "add", add)


MUTANTS = (
    Mutant(
        "message lost on cancel",
        "a message is taken, then awaited upon, then handled",
        stop_everything,
        "lost messages",
        message_lost_on_cancel,
    ),
    Mutant(
        "lost wakeup",
        "the reader sleeps on a message",
        crowd_a_mailbox,
        "sleeps on its messages",
        lost_wakeup,
    ),
    Mutant(
        "capacity race",
        "a mailbox exceeds its bound",
        crowd_a_mailbox,
        "holds more than its capacity",
        capacity_race,
    ),
    Mutant(
        "late answer to the wrong ask",
        "an answer after time-out or cancellation reaches the asker's next wait",
        crowd_a_mailbox,
        "got the answer",
        late_answer_to_the_wrong_ask,
    ),
    Mutant(
        "mailbox not kept",
        "a restart drops messages",
        crowd_a_mailbox,
        "lost messages",
        mailbox_not_kept,
    ),
    Mutant(
        "child leaked by a cancelled start",
        "a name stays taken by nobody",
        start_in_a_hurry,
        "failed to start and is listed",
        child_leaked_by_a_cancelled_start,
    ),
    Mutant(
        "name race",
        "two live children of one name",
        start_in_a_hurry,
        "its supervisor does not know it",
        name_race,
    ),
    Mutant(
        "back after a stop",
        "a user's stop is a crash",
        stop_everything,
        "came back after a stop",
        back_after_a_stop,
    ),
    Mutant(
        "clean-up skipped when killed",
        "on_stop is not called once for each start",
        stop_everything,
        "alive without a task",
        clean_up_skipped_when_killed,
    ),
    Mutant(
        "stopped in start order",
        "children stop before those that lean on them",
        shake_a_group,
        "is stopped before",
        stopped_in_start_order,
    ),
    Mutant(
        "halted in start order",
        "a group restart halts in the wrong order",
        shake_a_group,
        "is stopped before",
        halted_in_start_order,
    ),
    Mutant(
        "double restart",
        "two incarnations at once",
        shake_a_group,
        "two incarnations at once",
        double_restart,
    ),
    Mutant(
        "restart not called off",
        "a stopped group brings its children back",
        shake_a_tree,
        "two incarnations at once",
        restart_not_called_off,
    ),
    Mutant(
        "escalates twice",
        "one fall of an inner group costs the outer one two restarts",
        spend_the_budget_of_a_tree,
        "given up after",
        escalates_twice,
    ),
    Mutant(
        "one restart too many",
        "the budget is exceeded",
        spend_the_budget,
        "came back",
        one_restart_too_many,
    ),
    Mutant(
        "watcher told too early",
        "news of an end overtakes the last messages",
        watch_each_other,
        "heard of an end before messages",
        watcher_told_too_early,
    ),
    Mutant(
        "late watcher never told",
        "watching what is over waits for ever",
        watch_each_other,
        "was never told",
        late_watcher_never_told,
    ),
    Mutant(
        "watcher told of every restart",
        "a restart is taken for an end",
        watch_each_other,
        "told a wrong reason",
        watcher_told_of_every_restart,
    ),
)
