"""What travels: questions that are owed an answer, the waiting for it, and news of an end.

Any object can be told to an actor. Only an `Ask` can be asked.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
import outcome
import trio
from trio.lowlevel import Abort, enable_ki_protection, reschedule

from ._errors import AskTimeout

if TYPE_CHECKING:
    from ._group import Group
    from ._ref import Ref
    from ._restart import Exit

Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")


class Ask(Generic[Answer]):
    """A message that is owed one answer, and knows its type.

    Derive a frozen class from `Ask[int]`, and `await ref.ask(...)` of it is an `int`: what
    `receive` returns for it.
    """

    __slots__ = ()


@attrs.frozen(eq=False)
class Ended:
    """Told to everyone who watches `ref` (or a group) when it has ended for good, and why."""

    ref: Ref | Group
    reason: Exit


class Question:
    """An `Ask` on its way, with the task that waits for the answer.

    Invariant: `asker` is the waiting task from the moment the question is put into a mailbox
    until the first of answer, failure, time-out or the asker's own cancellation; None ever
    after, so that whatever comes later is dropped.
    """

    __slots__ = ("asker", "message")

    def __init__(self, message: Ask[Any], asker: trio.lowlevel.Task) -> None:
        self.message = message
        self.asker: trio.lowlevel.Task | None = asker

    def answer(self, value: object) -> None:
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
        """The asker was cancelled while it waited (trio calls this)."""
        self.asker = None
        return Abort.SUCCEEDED


class Later(Generic[Value]):
    """An answer that `receive` still owes when it returns.

    Make one, keep it, and return it from `receive` instead of the answer; `answer` or `fail` it
    whenever you can, from anywhere in the same loop. The first of the two counts. If the
    incarnation that made it ends before, the asker gets `ActorStopped`.
    """

    __slots__ = ("_owed", "_question", "_result")

    def __init__(self) -> None:
        # Invariant: at most one of the two is set, and neither once the asker has been told.
        self._question: Question | None = None
        self._result: outcome.Outcome[Value] | None = None
        self._owed: dict[Later[Any], None] | None = None

    def answer(self, value: Value) -> None:
        """Give the answer."""
        self._settle(outcome.Value(value))

    def fail(self, error: BaseException) -> None:
        """Raise the error in whoever asked."""
        self._settle(outcome.Error(error))

    def owe(self, question: Question, owed: dict[Later[Any], None]) -> None:
        """Be the answer to this question; `owed` is where all that are still owed are listed."""
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


class Timeouts:
    """The deadlines of all questions of one system, kept by one task.

    A cancel scope around every ask would do the same and cost more than the rest of the
    ask together; this is a heap, pushed to by the asker and looked at by one sleeping task.
    """

    def __init__(self) -> None:
        # Invariant: every question that still waits is in the heap. Answered ones go when they
        # come to the top, or with the next pruning.
        self._heap: list[tuple[float, int, float, str, Question]] = []
        self._numbers = count()  # so that equal deadlines never compare questions
        self._prune_above = 1024
        self._nap = trio.CancelScope()

    def add(self, question: Question, name: str, timeout_seconds: float, deadline: float) -> None:
        """Fail the question at `deadline` unless it is answered before."""
        heap = self._heap
        while heap and heap[0][4].asker is None:
            heapq.heappop(heap)  # keeping answered ones costs more than looking: they feed the gc
        heapq.heappush(heap, (deadline, next(self._numbers), timeout_seconds, name, question))
        if deadline < self._nap.deadline:  # noqa: PLR1730 - setting it costs more than an ask may
            self._nap.deadline = deadline
        if len(heap) > self._prune_above:
            self._prune()

    @enable_ki_protection
    async def run(self) -> None:
        """Fail what is overdue, for ever; runs until cancelled."""
        while True:
            next_deadline = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=next_deadline) as self._nap:
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
