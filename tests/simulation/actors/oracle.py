"""Oracle of the actor runtime: records what actors saw and compares the runtime with it.

Rule 1: the oracle never asks the runtime what happened. Actors and senders report what they saw;
        the runtime's own counters are only compared with that.
Rule 2: a violation is recorded, not raised: raised inside an actor it would be one more crash.
        The first one is raised when the program has ended.
Rule 3: everything that can be checked at every step is checked at every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import count

import attrs
import trio

from actors import Ended, Exit, Finished, Group, Ref, RestartPolicy, Stopped
from actors._cell import Cell
from actors._child import Child
from actors._supervisor import Supervisor
from tests.simulation.violations import PropertyViolated

from .internals import (
    cell_of,
    child_of,
    is_over,
    is_recovering,
    ordinary_messages,
    supervisor_of,
    urgent_messages,
    waits_for_message,
)


@attrs.define(eq=False)
class ActorHistory:
    """One actor over all its incarnations: its own reports and the messages sent to it."""

    name: str
    policy: RestartPolicy
    cell: Cell | None = None
    # Incarnations made, incarnations whose on_start succeeded, calls of on_stop.
    made: int = 0
    started: int = 0
    cleaned_up: int = 0
    # Invariant: 1 from on_start until on_stop (or a failed on_start) is left, else 0.
    alive: int = 0
    up: bool = False
    current: int | None = None
    # Ends that it caused (crash, StopActor, failed on_start), and when incarnations ended.
    own_ends: int = 0
    ended_at: list[float] = attrs.Factory(list)
    # True if its latest end was a StopActor without interference.
    finished: bool = False
    # Numbers of messages: owed (accepted and not yet received), received, and cut short
    # (handling ended without an error of its own).
    owed: set[int] = attrs.Factory(set)
    received: set[int] = attrs.Factory(set)
    cut_short: set[int] = attrs.Factory(set)
    by_sender: dict[str, set[int]] = attrs.Factory(dict)
    news: int = 0
    last_number: dict[bool, int] = attrs.Factory(lambda: {True: -1, False: -1})
    watches: list[Ref | Group] = attrs.Factory(list)
    # Number of the next starts that fail.
    failures_left: int = 0
    # Set by a user's stop: the upper bound of incarnations from then on.
    made_at_most: int | None = None

    def check_step(self, oracle: Oracle) -> None:
        """Compare with the state of the runtime after a step."""
        cell = self.cell
        if cell is None:
            return
        self._check_messages(cell, oracle)
        runs = cell.task is not None
        oracle.check(self.alive <= runs, f"{self.name} is alive without a task")
        if self.alive:
            supervisor = supervisor_of(cell)
            assert supervisor is not None
            listed = supervisor.find(cell.name) is cell
            oracle.check(listed, f"{self.name} is alive and its supervisor does not list it")
        oracle.check(
            self.up or cell.state != "running",
            f"{self.name} has not started and is shown as running",
        )
        if cell.reason is not None:
            oracle.check(not runs, f"{self.name} has ended and its task runs")
            oracle.check(cell.mailbox.closed, f"{self.name} has ended and accepts messages")

    def _check_messages(self, cell: Cell, oracle: Oracle) -> None:
        box = cell.mailbox
        ordinary, urgent = ordinary_messages(cell), urgent_messages(cell)
        oracle.check(len(ordinary) <= box.capacity, f"{self.name} holds more than its capacity")
        oracle.check(
            len(urgent) <= box.capacity, f"{self.name} holds more urgent messages than its capacity"
        )
        inside = {m.number for m in (*ordinary, *urgent)}
        if box.closed:
            oracle.check(not inside, f"{self.name} has a closed mailbox that is not empty")
            gone = len(self.owed - self.received)
            oracle.check(cell.lost >= gone, f"{self.name} lost {gone} and counted {cell.lost}")
        else:
            missing = self.owed - self.received - inside
            oracle.check(not missing, f"{self.name} lost messages {missing}")
            oracle.check(cell.lost == 0, f"{self.name} counts losses before its end")
            self.owed = inside
        handled = len(self.received) + self.news
        oracle.check(cell.handled == handled, f"{self.name} handled {handled}, not {cell.handled}")

    def check_at_end(self, oracle: Oracle) -> None:
        """Compare once more when the program has ended."""
        if self.cell is not None:
            oracle.check(self.cell.reason is not None, f"{self.name} never ended")
        oracle.check(not self.alive and self.current is None, f"{self.name} was left alive")
        oracle.check(
            self.started == self.cleaned_up,
            f"{self.name} started {self.started} times, cleaned up {self.cleaned_up} times",
        )


@attrs.define(eq=False)
class Oracle:
    """The histories of all actors of one program."""

    histories: list[ActorHistory] = attrs.Factory(list)
    by_cell: dict[Cell, ActorHistory] = attrs.Factory(dict)
    root: Supervisor | None = None
    # Children that a user stopped by name: no stop order applies to them.
    stopped: set[Child] = attrs.Factory(set)
    violation: PropertyViolated | None = None
    steps: int = 0
    _numbers: Iterator[int] = attrs.Factory(count)
    # The latest steps, printed with a violation.
    trace: deque[str] = attrs.Factory(lambda: deque(maxlen=60))

    def check(self, holds: object, message: str) -> None:
        """Record a violation; keep only the first one."""
        if not holds and self.violation is None:
            told = "\n".join(self.trace)
            self.violation = PropertyViolated(f"{message}, at step {self.steps}\n{told}")

    def next_number(self) -> int:
        """Return a new message number."""
        return next(self._numbers)

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"  {self.steps:>5} at {trio.current_time():<6g} {what}")

    def history(self, name: str, policy: RestartPolicy) -> ActorHistory:
        """Add and return an empty history."""
        history = ActorHistory(name, policy)
        self.histories.append(history)
        return history

    # Reports of an incarnation ---------------------------------------------------------

    def check_made(self, history: ActorHistory) -> None:
        history.made += 1
        self.note(f"{history.name} is made, incarnation {history.made}")
        if history.policy.kind == "temporary":
            self.check(history.made == 1, f"{history.name} is temporary and came back")
        if history.made_at_most is not None:
            self.check(
                history.made <= history.made_at_most, f"{history.name} came back after a stop"
            )
        if history.policy.kind == "transient":
            self.check(not history.finished, f"{history.name} had finished and came back")

    def check_launch(self, history: ActorHistory, ref: Ref) -> None:
        if history.cell is None:
            history.cell = cell_of(ref)
            self.by_cell[cell_of(ref)] = history
            self._check_start_order(history, cell_of(ref))
        self.check(history.alive == 0, f"{history.name} has two incarnations at once")
        history.alive += 1

    def record_started(self, history: ActorHistory) -> None:
        history.started += 1
        history.up = True
        self.note(f"{history.name} has started")

    def failed_to_start(self, history: ActorHistory, why: BaseException) -> None:
        history.alive -= 1
        history.own_ends += isinstance(why, Exception)
        history.ended_at.append(trio.current_time())
        self.note(f"{history.name} fails to start with {type(why).__name__}")

    def check_receive(self, history: ActorHistory, number: int | None, *, urgent: bool) -> None:
        self.check(history.current is None, f"{history.name} handles two messages at once")
        self.check(history.up, f"{history.name} handles a message before it has started")
        if number is None:
            history.news += 1
            return
        self.check(
            number not in history.received, f"{history.name} received message {number} twice"
        )
        self.check(
            number > history.last_number[urgent], f"{history.name} received {number} out of order"
        )
        history.last_number[urgent] = number
        history.received.add(number)
        history.current = number

    def check_end_notice(self, history: ActorHistory, news: Ended) -> None:
        self.note(f"{history.name} receives the notice that {news.ref.name} ended")
        self.check(
            news.ref in history.watches,
            f"{history.name} received a notice of {news.ref.name} without a watch",
        )
        if news.ref in history.watches:
            history.watches.remove(news.ref)
        late = history.by_sender.get(news.ref.name, set()) - history.received
        self.check(not late, f"{history.name} received a notice of an end before messages {late}")
        self.check(
            child_of(news.ref).reason is news.reason,
            f"{history.name} received a notice with a wrong reason",
        )

    def record_own_end(self, history: ActorHistory, why: Exception) -> None:
        history.own_ends += 1
        self.note(f"{history.name} ends itself with {type(why).__name__}")

    def check_interrupt(self, history: ActorHistory) -> None:
        assert history.cell is not None
        self.check(
            history.cell.desired_state != "run",
            f"{history.name} was cancelled without a stop request",
        )
        self.note(f"{history.name} is interrupted")

    def check_clean_up(self, history: ActorHistory, reason: Exit) -> None:
        history.cleaned_up += 1
        self.note(f"{history.name} cleans up after {type(reason).__name__}")
        self.check(history.up, f"{history.name} cleans up without a start")
        self.check(history.current is None, f"{history.name} cleans up while it handles a message")
        if isinstance(reason, Stopped):
            self._check_stop_order(history)

    def record_down(
        self, history: ActorHistory, reason: Exit, failure: BaseException | None
    ) -> None:
        assert history.cell is not None
        history.alive -= 1
        history.up = False
        history.ended_at.append(trio.current_time())
        undisturbed = failure is None and history.cell.desired_state == "run"
        history.finished = isinstance(reason, Finished) and undisturbed
        self.note(f"{history.name} is down")

    # Order ------------------------------------------------------------------------------

    def _check_start_order(self, history: ActorHistory, cell: Cell) -> None:
        supervisor = supervisor_of(cell)
        assert supervisor is not None
        if supervisor.state != "starting" or not cell.declared:
            return
        for child in supervisor.children:
            if child is cell:
                return
            self.check(
                child.state != "starting", f"{history.name} starts before {child.name} has started"
            )

    def _check_stop_order(self, history: ActorHistory) -> None:
        """Check that every sibling started later is already down when a group stops."""
        assert history.cell is not None
        if history.made_at_most is not None or history.cell in self.stopped:
            return
        child: Child | None = history.cell
        while child is not None and (group := supervisor_of(child)) is not None:
            for later in _started_after(child, group):
                # A child that joined during a restart of the group is not part of that restart.
                if later.declared or history.cell.desired_state == "stop":
                    self.check(
                        not self.anything_alive_under(later),
                        f"{history.name} is stopped before {later.name}",
                    )
            # The group may stop alone; an order exists above it only if its parents stop too.
            above = supervisor_of(group)
            stopped_from_above = (
                above is not None and above.desired_state == history.cell.desired_state == "stop"
            )
            child = group if stopped_from_above and group not in self.stopped else None

    def anything_alive_under(self, child: Child) -> bool:
        if isinstance(child, Supervisor):
            return any(self.anything_alive_under(one) for one in child.children)
        assert isinstance(child, Cell)
        history = self.by_cell.get(child)
        return history is not None and history.alive > 0

    # Checking ----------------------------------------------------------------------------

    def check_step(self) -> None:
        """Check all actors and groups after a step."""
        self.steps += 1
        for history in self.histories:
            history.check_step(self)
        if self.root is not None:
            self._check_group(self.root)
            ends = sum(history.own_ends for history in self.histories)
            self.check(
                _decisions(self.root) <= ends, "a restart was decided although no actor ended"
            )

    def _check_group(self, group: Supervisor) -> None:
        for child in group.children:
            if isinstance(child, Supervisor):
                self._check_group(child)
            if group.reason is not None:
                self.check(child.reason is not None, f"{child.name} outlives {group.name}")
        if group.reason is not None:
            self.check(not is_recovering(group), f"{group.name} has ended and is still recovering")
            self.check(
                not self.anything_alive_under(group), f"something in {group.name} is still alive"
            )

    def check_when_quiet(self) -> None:
        """Check, when every task is blocked, that no actor has pending work."""
        assert self.root is not None
        for history in self.histories:
            cell = history.cell
            if cell is None or cell.reason is not None:
                continue
            idle = cell.state == "running" and history.up and waits_for_message(cell)
            if idle:
                self.check(
                    cell.mailbox.waiting == 0, f"{history.name} waits although it has messages"
                )
                over = [one.name for one in history.watches if is_over(one)]
                self.check(not over, f"{history.name} received no notice that {over} ended")
        self._check_no_forgotten(self.root)

    def _check_no_forgotten(self, group: Supervisor) -> None:
        for child in group.children:
            if isinstance(child, Supervisor):
                self._check_no_forgotten(child)
            if (
                child.state == "restarting"
                and group.state == "running"
                and group.desired_state == "run"
            ):
                self.check(is_recovering(group), f"{child.name} is down and no recovery runs")

    def close(self) -> None:
        """Check the ends of all actors; raise the first violation."""
        for history in self.histories:
            history.check_at_end(self)
        if self.violation is not None:
            raise self.violation


def _decisions(group: Supervisor) -> int:
    """Return the number of restarts decided in a group since its last launch."""
    return len(group.recent_restarts) + sum(
        _decisions(child) if isinstance(child, Supervisor) else len(child.recent_restarts)
        for child in group.children
    )


def _started_after(child: Child, group: Supervisor) -> tuple[Child, ...]:
    siblings = group.children
    if child not in siblings or group.spec.stop_order == "together":
        return ()
    return siblings[siblings.index(child) + 1 :]


class StepObserver(trio.abc.Instrument):
    """Instrument that runs the checks after every step of every task."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        try:
            self._oracle.check_step()
        except Exception as error:  # noqa: BLE001 - trio would drop an instrument that raises
            self._oracle.check(holds=False, message=f"the oracle failed: {error!r}")
