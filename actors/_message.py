"""Questions, deferred answers, pauses, and the time-outs of asks.

Any object can be told to an actor. Only an `Ask` can be asked.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

import outcome
import trio
from trio.lowlevel import Abort, enable_ki_protection, reschedule

from ._errors import AskTimeout

Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")


class NotNow:
    """The type of `NOT_NOW`: the message needs `receive` (None is a valid answer)."""


NOT_NOW: Final = NotNow()


class Ask(Generic[Answer]):
    """A message that expects one answer of a declared type.

    For a frozen class derived from `Ask[int]`, `await ref.ask(...)` returns an `int`: the value
    that `receive` returns for the message.
    """

    __slots__ = ()


class Tracked:
    """A message to be told whose sender must know if it is never handled.

    `lost` is called when the actor's mailbox closes with the message inside. An actor that has
    taken the message is responsible for it.
    """

    __slots__ = ()

    def lost(self, error: Exception) -> None:
        """Learn that the message was not handled and never will be; must not raise."""
        raise NotImplementedError(f"{type(self).__name__} has no lost()")


class Question:
    """An `Ask` in transit, with the task that waits for the answer.

    Invariant: `asker` is the waiting task from the moment the question is put into a mailbox until
    the first of answer, failure, time-out or the asker's own cancellation; None afterwards, so that
    a later answer is dropped. It is always None in an `OpenAsk`.
    """

    __slots__ = ("asker", "message")

    def __init__(self, message: Ask[Any], asker: trio.lowlevel.Task | None) -> None:
        self.message = message
        self.asker = asker

    def answer(self, value: Any) -> None:
        asker = self.asker
        if asker is not None:
            self.asker = None
            reschedule(asker, outcome.Value(value))

    def fail(self, error: BaseException) -> None:
        self.settle(outcome.Error(error))

    def settle(self, result: outcome.Outcome[Any]) -> None:
        asker = self.asker
        if asker is not None:
            self.asker = None
            reschedule(asker, result)

    def abandon(self, _: object) -> Abort:
        """Drop the answer, because the asker was cancelled while it waited (called by trio)."""
        self.asker = None
        return Abort.SUCCEEDED


class OpenAsk(Question):
    """An `Ask` for `Ref.tell` or `Ref.deliver`: its answer is a call, and no task waits for it.

    Derive from it, and define `answer` and `fail`. One of them is called, once, in whatever task
    answers; neither may raise. Nothing is called if the message was refused.
    """

    __slots__ = ()

    def __init__(self, message: Ask[Any]) -> None:
        super().__init__(message, None)

    def answer(self, value: Any) -> None:
        """Receive the answer."""
        raise NotImplementedError(f"{type(self).__name__} has no answer()")

    def fail(self, error: BaseException) -> None:
        """Receive the error that `Ref.ask` would raise."""
        raise NotImplementedError(f"{type(self).__name__} has no fail()")

    def settle(self, result: outcome.Outcome[Any]) -> None:
        if isinstance(result, outcome.Error):
            self.fail(result.error)
        else:
            self.answer(result.unwrap())


class Later(Generic[Value]):
    """An answer that follows after `receive` has returned.

    Create one, keep it, and return it from `receive` instead of the answer; call `answer` or `fail`
    later, from anywhere in the same loop. The first of the two counts. If the incarnation that
    created it ends first, the asker gets `ActorStopped`.
    """

    __slots__ = ("_owed", "_question", "_result")

    def __init__(self) -> None:
        # Invariant: at most one of the two is set, and neither once the asker has its answer.
        self._question: Question | None = None
        self._result: outcome.Outcome[Value] | None = None
        self._owed: dict[Later[Any], None] | None = None

    def answer(self, value: Value) -> None:
        """Send the answer to the asker."""
        self._settle(outcome.Value(value))

    def fail(self, error: BaseException) -> None:
        """Raise the error in the asker."""
        self._settle(outcome.Error(error))

    def owe(self, question: Question, owed: dict[Later[Any], None]) -> None:
        """Bind this answer to its question; `owed` lists all answers still missing."""
        if self._result is not None:
            question.settle(self._result)
            self._result = None
            return
        self._question = question
        self._owed = owed
        owed[self] = None

    def _settle(self, result: outcome.Outcome[Value]) -> None:
        question = self._question
        if question is None:
            if self._owed is None and self._result is None:
                self._result = result  # settled before `receive` has returned it
            return
        self._question = None
        assert self._owed is not None
        self._owed.pop(self, None)
        question.settle(result)


class Pausable(Protocol):
    """The part of an actor's runtime that a `Pause` uses."""

    def resume(self, error: BaseException | None) -> None: ...
    def reply(self, question: Question, answer: object) -> None: ...
    def failure_of(self, error: BaseException) -> BaseException: ...


class Pause(Generic[Value]):
    """An answer that follows later, and until then the actor takes no other message.

    Return one from `receive` instead of the answer if the rest of the work is done by a function
    that is called when something else is done. That function ends the pause with `end(answer)`
    (None for a message without an answer), or with `crash(error)`, which raises the error in the
    actor as if `receive` had raised it. The actor's task is woken only if another message waits;
    that halves the task switches of an actor that waits for another one in each message. If the
    incarnation ends first, the pause is over, and both do nothing: check `is_over` before work that
    only the running incarnation may do.
    """

    __slots__ = ("_cell", "_early", "_question", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        # Invariant: set since `receive` has returned the pause, unless it was over before. The
        # question is set with it, and is None for a message without an answer.
        self._cell: Pausable | None = None
        self._question: Question | None
        # The answer, or the error of a crash; set if the pause was over before `receive` returned.
        self._early: outcome.Outcome[Value | Later[Value]]

    def end(self, answer: Value | Later[Value]) -> None:
        """End the pause, and send the answer to the asker, if there is one."""
        if self.is_over:
            return
        self.is_over = True
        cell = self._cell
        if cell is None:
            self._early = outcome.Value(answer)
            return
        if self._question is not None:
            cell.reply(self._question, answer)
        cell.resume(None)

    def crash(self, error: BaseException) -> None:
        """End the pause, and raise the error in the actor."""
        if self.is_over:
            return
        self.is_over = True
        cell = self._cell
        if cell is None:
            self._early = outcome.Error(error)
            return
        if self._question is not None:
            self._question.fail(cell.failure_of(error))
        cell.resume(error)

    def begin(self, cell: Pausable, question: Question | None) -> bool:
        """Begin the pause, after `receive` has returned it; return False if it is over already.

        Raise the error of a crash before the begin; the caller fails the question with it.
        """
        if not self.is_over:
            self._cell, self._question = cell, question
            return True
        answer = self._early.unwrap()
        if question is not None:
            cell.reply(question, answer)
        return False

    def drop(self, error: BaseException) -> None:
        """End the pause, because the incarnation ends; the asker gets the error."""
        self.is_over = True
        if self._question is not None:
            self._question.fail(error)


class Timeouts:
    """The deadlines of all questions of one system, watched by one task.

    A cancel scope around every ask would do the same, but would cost more than the rest of the ask.
    The deadlines are in a heap: askers add to it, one sleeping task reads it.
    """

    def __init__(self) -> None:
        # Invariant: every question that still waits is in the heap. Answered ones are removed
        # when they come to the top, or with the next pruning.
        self._heap: list[tuple[float, int, float, str, Question]] = []
        self._numbers = count()  # so that equal deadlines never compare questions
        self._prune_above = 1024
        self._sleep_scope = trio.CancelScope()

    def add(self, question: Question, name: str, timeout_seconds: float, deadline: float) -> None:
        """Fail the question at `deadline` unless it is answered before."""
        heap = self._heap
        while heap and heap[0][4].asker is None:
            heapq.heappop(heap)  # cheaper than keeping them for the collector
        heapq.heappush(heap, (deadline, next(self._numbers), timeout_seconds, name, question))
        if deadline < self._sleep_scope.deadline:  # noqa: PLR1730 - setting it costs too much
            self._sleep_scope.deadline = deadline
        if len(heap) > self._prune_above:
            self._prune()

    @enable_ki_protection
    async def run(self) -> None:
        """Fail overdue questions until cancelled."""
        while True:
            next_deadline = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=next_deadline) as self._sleep_scope:
                await trio.sleep_forever()
            self._fail_overdue(trio.current_time())

    def _fail_overdue(self, now: float) -> None:
        while self._heap:
            deadline, _, timeout_seconds, name, question = self._heap[0]
            waits = question.asker is not None
            if waits and deadline > now:
                return
            heapq.heappop(self._heap)
            if waits:
                question.fail(AskTimeout(name, timeout_seconds=timeout_seconds))

    def _prune(self) -> None:
        self._heap = [entry for entry in self._heap if entry[4].asker is not None]
        heapq.heapify(self._heap)
        self._prune_above = 2 * len(self._heap) + 1024
