"""All uses of private names of trio.

Rule 1: no other file here uses a name of trio that begins with an underscore.
Rule 2: every such name is listed in NAMES or SIGNATURES, and `check_trio_version` checks all of
        them before each run: a trio release that breaks the simulator is reported clearly.
Rule 3: this file reads the loop and changes it on request; it makes no decisions.

The loop (`trio._core._run.unrolled_run`) does this, tick after tick, while `runner.tasks`:

    runner.runq is empty?   ask the clock how long to sleep until the next deadline
    a task in wait_all_tasks_blocked?   sleep no longer than its cushion
    wait for I/O that long, wake the tasks concerned
    cancel what is past its deadline
    nothing happened at all?   wake the tasks in wait_all_tasks_blocked
    batch = list(runner.runq); runner.runq.clear(); run every task of the batch for one step
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import attrs
import outcome
import trio
from trio.lowlevel import Task, TrioToken

from ._errors import SimulatorBroken

# At run time these are found through `trio`, so that `check_trio_version` reports a missing one.
if TYPE_CHECKING:
    import trio._core._run
    import trio._threads
    from trio._core._run import CancelStatus

WORKS_WITH = ">=0.31,<=0.35"

NAMES = (
    "_core._run.GLOBAL_RUN_CONTEXT",
    "_core._run.CancelStatus._parent",
    "_core._run.CancelStatus._scope",
    "_core._run.Deadlines.next_deadline",
    "_core._run.Runner.deadlines",
    "_core._run.Runner.io_manager",
    "_core._run.Runner.main_task",
    "_core._run.Runner.main_task_outcome",
    "_core._run.Runner.runq",
    "_core._run.Runner.tasks",
    "_core._run.Runner.waiting_for_idle",
    "_core._run.Task._cancel_status",
    "_core._run.Task._counter",
    "_core._run.TheIOManager.get_events",
    "_core._run.TheIOManager.process_events",
    "_threads.RunSync.unprotected_fn",
    "_threads.start_thread_soon",
)

# Functions that are called or replaced here, with their expected parameters.
SIGNATURES = {
    "_core._run.Runner.task_exited": ("self", "task", "outcome"),
    "_threads._send_message_to_trio": ("trio_token", "message_to_trio"),
    "lowlevel.start_thread_soon": ("fn", "deliver", "name"),
}

Deliver = Callable[[outcome.Outcome[Any]], object]
# Replaces `start_thread_soon(fn, deliver, name)`.
StartThread = Callable[[Callable[[], Any], Deliver, str | None], None]
# Replaces `from_thread`: the function to run inside trio (None: it is an async one, which needs
# a real thread), and a callable that does what trio itself would do.
CallTrio = Callable[[Callable[[], Any] | None, Callable[[], Any]], Any]

# How often a discarded task may await in its clean-up; a loop there has no other end.
MAX_UNWINDS = 1_000


def check_trio_version() -> None:
    """Raise `SimulatorBroken`, naming the private name, if this trio is not supported."""
    for name in (*NAMES, *SIGNATURES):
        try:
            attrgetter(name)(trio)
        except AttributeError:
            raise simulator_broken(name) from None
    for name, parameters in SIGNATURES.items():
        code = attrgetter(name)(trio).__code__
        if code.co_varnames[: code.co_argcount] != parameters:
            raise simulator_broken(name)


def simulator_broken(name: str) -> SimulatorBroken:
    """Return the error that names the missing or changed name."""
    return SimulatorBroken(f"trio.{name}", trio_version=trio.__version__, works_with=WORKS_WITH)


class ReadyQueue:
    """Replacement for the loop's run queue, which releases one chosen task per tick.

    trio keeps waiting tasks in sets, so they become ready in an order that changes from process to
    process. This queue keeps them in the order in which they were spawned.
    """

    def __init__(self, choose: Callable[[ReadyQueue], Task | None]) -> None:
        self._choose = choose
        # Invariant: `ready` is sorted and has exactly the keys of `_tasks`.
        self.ready: list[int] = []
        self._tasks: dict[int, Task] = {}

    def take(self, number: int) -> Task:
        """Remove and return the ready task of that number."""
        del self.ready[bisect_left(self.ready, number)]
        return self._tasks.pop(number)

    def append(self, task: Task) -> None:
        """Add a task that can run (called by the loop)."""
        insort(self.ready, task._counter)
        self._tasks[task._counter] = task

    def __len__(self) -> int:
        return len(self.ready)

    def __iter__(self) -> Iterator[Task]:
        # The loop copies the queue once per tick, and runs the copy.
        task = self._choose(self) if self.ready else None
        return iter(() if task is None else (task,))

    def clear(self) -> None:
        """Keep the tasks that were not released (the loop calls it after copying the queue)."""


class Loop:
    """The parts of the running loop that this package reads or changes."""

    def __init__(self) -> None:
        self._runner = trio._core._run.GLOBAL_RUN_CONTEXT.runner
        self.next_deadline = self._runner.deadlines.next_deadline

    def install_scheduler(self, choose: Callable[[ReadyQueue], Task | None]) -> None:
        """Let `choose` select one task per tick, or none for this tick."""
        self._runner.runq = cast("deque[Task]", ReadyQueue(choose))

    def has_idle_waiter(self) -> bool:
        """Return True if a task is in `wait_all_tasks_blocked`."""
        return bool(self._runner.waiting_for_idle)

    def has_io_waiter(self) -> bool:
        """Return True if a task waits for the kernel, other than the one behind `run_sync_soon`."""
        counts = attrs.asdict(cast("Any", trio.lowlevel.current_statistics().io_statistics))
        waiting: list[int] = [n for name, n in counts.items() if name.startswith("tasks_waiting")]
        return sum(waiting) > 1

    def poll(self, seconds: float) -> bool:
        """Wait that long (in real time) for I/O; return True if a task can run now."""
        events = self._runner.io_manager.get_events(seconds)
        self._runner.io_manager.process_events(events)
        return len(self._runner.runq) > 0

    def tasks(self) -> list[Task]:
        """Return all tasks that have not ended, in the order they were spawned."""
        return sorted(self._runner.tasks, key=attrgetter("_counter"))

    def number(self, task: Task) -> int:
        """Return 1 for trio's root task, 2 for main, and so on in the order of spawning."""
        root = trio.lowlevel.current_root_task()
        return 1 if root is None else task._counter - root._counter + 1

    def cancel_main(self) -> None:
        """Cancel the main task and everything inside it."""
        main = self._runner.main_task
        if main is not None and main.parent_nursery is not None:
            main.parent_nursery.cancel_scope.cancel(reason="the simulated run cannot go on")

    def lift_shields(self) -> None:
        """Let a cancellation reach tasks that wait behind a shield."""
        for task in self.tasks():
            status: CancelStatus | None = task._cancel_status
            while status is not None:
                status._scope.shield = False
                status = status._parent

    def abandon(self) -> None:
        """Discard every remaining task, the youngest first; the loop then ends by itself."""
        context = trio._core._run.GLOBAL_RUN_CONTEXT
        while self._runner.tasks:  # clean-up may start more tasks
            for task in reversed(self.tasks()):
                context.task = task
                _unwind(task)
                # A task that ended without leaving its nurseries is an error for trio, and no
                # task is left to receive it.
                with suppress(BaseException):
                    self._runner.task_exited(task, outcome.Value(None))
                self._runner.tasks.discard(task)
                del context.task
        self._runner.runq = deque()

    def end_with(self, error: BaseException) -> None:
        """Make `trio.run` raise `error`."""
        self._runner.main_task_outcome = outcome.Error(error)


class _Abandoned(BaseException):
    """Raised in a discarded task; no `except` clause of the program names it."""


def _unwind(task: Task) -> None:
    """Run the task's clean-up code, without waiting at its awaits."""
    # Not `close()`: that abandons the inner coroutine at the first await in a `finally`.
    for _ in range(MAX_UNWINDS):
        try:
            task.coro.throw(_Abandoned())
        except BaseException:  # noqa: BLE001 - the task has ended; its error has no receiver
            return


def swap_run_context(context: dict[str, object]) -> dict[str, object]:
    """Replace the loop that this thread sees (`{}`: none); return the previous context."""
    visible = trio._core._run.GLOBAL_RUN_CONTEXT.__dict__
    before = dict(visible)
    visible.clear()
    visible.update(context)
    return before


def threads_are_replaced() -> bool:
    """Return True if a simulation is already running in this process."""
    started_with = attrgetter("_threads.start_thread_soon")(trio)
    return started_with is not trio.lowlevel.start_thread_soon


@contextmanager
def threads_replaced(start: StartThread, call_trio: CallTrio) -> Iterator[None]:
    """Let `trio.to_thread` start its work with `start` instead of a thread.

    All else (limiter, context, effect of a cancellation) stays trio's own. Calls of the work
    through `trio.from_thread` go to `call_trio`, which may pass them on.
    """
    threads = cast("Any", trio._threads)
    real_start, real_call = threads.start_thread_soon, threads._send_message_to_trio

    def send_message_to_trio(trio_token: TrioToken | None, message_to_trio: Any) -> Any:
        is_sync = isinstance(message_to_trio, threads.RunSync)
        return call_trio(
            message_to_trio.unprotected_fn if is_sync else None,
            lambda: real_call(trio_token, message_to_trio),
        )

    threads.start_thread_soon = start
    threads._send_message_to_trio = send_message_to_trio
    try:
        yield
    finally:
        threads.start_thread_soon = real_start
        threads._send_message_to_trio = real_call
