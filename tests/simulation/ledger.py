"""What truly happened, written down by those it happened to, and held against the runtime.

Rule 1: nothing here asks the runtime what happened. Players and writers say what they saw; the
        runtime's own counters are only compared with that.
Rule 2: a broken promise is written down, not raised: raised inside an actor it would be one more
        crash. The first one is raised when the program is over.
Rule 3: what can be checked at every step is checked at every step.
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

from .inside import cell_of, child_of, is_over, is_recovering, letters, sleeps, urgent_letters


class PromiseBroken(AssertionError):
    """The runtime did what it said it would not do."""


@attrs.define(eq=False)
class Life:
    """One actor over all its incarnations, as it saw itself and as others wrote to it."""

    name: str
    policy: RestartPolicy
    cell: Cell | None = None
    # Incarnations made, those whose on_start succeeded, calls of on_stop.
    made: int = 0
    started: int = 0
    cleaned_up: int = 0
    # Invariant: 1 from on_start until on_stop (or a failed on_start) is left, else 0.
    alive: int = 0
    up: bool = False
    in_hand: int | None = None
    # Ends of its own doing (crash, StopActor, failed on_start), and when incarnations ended.
    own_ends: int = 0
    ended_at: list[float] = attrs.Factory(list)
    # Whether its latest end was a plain StopActor that nobody and nothing interfered with.
    finished: bool = False
    # Numbers of messages: owed (accepted and not yet received), received, and those whose
    # handling was cut short without an error of its own.
    owed: set[int] = attrs.Factory(set)
    received: set[int] = attrs.Factory(set)
    cut_short: set[int] = attrs.Factory(set)
    from_whom: dict[str, set[int]] = attrs.Factory(dict)
    news: int = 0
    last_number: dict[bool, int] = attrs.Factory(lambda: {True: -1, False: -1})
    watches: list[Ref | Group] = attrs.Factory(list)
    # How many of the next starts shall fail.
    failures_ahead: int = 0
    # Set by a user's stop: how many incarnations there may be at most from then on.
    made_at_most: int | None = None

    def look(self, ledger: Ledger) -> None:
        """Compare with what the runtime says, after a step."""
        cell = self.cell
        if cell is None:
            return
        self._look_at_messages(cell, ledger)
        runs = cell.task is not None
        ledger.check(self.alive <= runs, f"{self.name} is alive without a task")
        if self.alive:
            assert cell.supervisor is not None
            listed = cell.supervisor.find(cell.name) is cell
            ledger.check(listed, f"{self.name} is alive and its supervisor does not know it")
        ledger.check(self.up or cell.state != "running", f"{self.name} is not up, but running")
        if cell.reason is not None:
            ledger.check(not runs, f"{self.name} is over and runs")
            ledger.check(cell.mailbox.closed, f"{self.name} is over and takes messages")

    def _look_at_messages(self, cell: Cell, ledger: Ledger) -> None:
        box = cell.mailbox
        ordinary, urgent = letters(cell), urgent_letters(cell)
        ledger.check(len(ordinary) <= box.capacity, f"{self.name} holds more than its capacity")
        ledger.check(len(urgent) <= box.capacity, f"{self.name} holds too many urgent ones")
        inside = {m.number for m in (*ordinary, *urgent)}
        if box.closed:
            ledger.check(not inside, f"{self.name} is closed and not empty")
            gone = len(self.owed - self.received)
            ledger.check(cell.lost >= gone, f"{self.name} lost {gone} and counted {cell.lost}")
        else:
            missing = self.owed - self.received - inside
            ledger.check(not missing, f"{self.name} lost messages {missing}")
            ledger.check(cell.lost == 0, f"{self.name} counts losses before its end")
            self.owed = inside
        handled = len(self.received) + self.news
        ledger.check(cell.handled == handled, f"{self.name} handled {handled}, not {cell.handled}")

    def look_at_its_end(self, ledger: Ledger) -> None:
        """Compare once more, when the whole program is over."""
        if self.cell is not None:
            ledger.check(self.cell.reason is not None, f"{self.name} never ended")
        ledger.check(not self.alive and self.in_hand is None, f"{self.name} was left alive")
        ledger.check(
            self.started == self.cleaned_up,
            f"{self.name} started {self.started} times, cleaned up {self.cleaned_up} times",
        )


@attrs.define(eq=False)
class Ledger:
    """All lives of one program."""

    lives: list[Life] = attrs.Factory(list)
    by_cell: dict[Cell, Life] = attrs.Factory(dict)
    root: Supervisor | None = None
    # Those whom a user stopped by name: they go when told, whatever the order around them.
    stopped: set[Child] = attrs.Factory(set)
    broken: PromiseBroken | None = None
    steps: int = 0
    _numbers: Iterator[int] = attrs.Factory(count)
    # The latest that happened, for whoever reads about a broken promise.
    story: deque[str] = attrs.Factory(lambda: deque(maxlen=60))

    def check(self, holds: object, otherwise: str) -> None:
        """Write down a broken promise, the first one only."""
        if not holds and self.broken is None:
            told = "\n".join(self.story)
            self.broken = PromiseBroken(f"{otherwise}, at step {self.steps}\n{told}")

    def next_number(self) -> int:
        """A number that no message had before."""
        return next(self._numbers)

    def note(self, what: str) -> None:
        """Remember for the story."""
        self.story.append(f"  {self.steps:>5} at {trio.current_time():<6g} {what}")

    def life(self, name: str, policy: RestartPolicy) -> Life:
        """A new life, of which nothing is known yet."""
        life = Life(name, policy)
        self.lives.append(life)
        return life

    # An incarnation's own words ---------------------------------------------------------

    def was_made(self, life: Life) -> None:
        life.made += 1
        self.note(f"{life.name} is made, the {life.made}. time")
        if life.policy.kind == "temporary":
            self.check(life.made == 1, f"{life.name} is temporary and came back")
        if life.made_at_most is not None:
            self.check(life.made <= life.made_at_most, f"{life.name} came back after a stop")
        if life.policy.kind == "transient":
            self.check(not life.finished, f"{life.name} had finished and came back")

    def begins(self, life: Life, ref: Ref) -> None:
        if life.cell is None:
            life.cell = cell_of(ref)
            self.by_cell[cell_of(ref)] = life
            self._check_start_order(life, cell_of(ref))
        self.check(life.alive == 0, f"{life.name} has two incarnations at once")
        life.alive += 1

    def is_up(self, life: Life) -> None:
        life.started += 1
        life.up = True
        self.note(f"{life.name} is up")

    def failed_to_start(self, life: Life, why: BaseException) -> None:
        life.alive -= 1
        life.own_ends += isinstance(why, Exception)
        life.ended_at.append(trio.current_time())
        self.note(f"{life.name} fails to start, {type(why).__name__}")

    def receives(self, life: Life, number: int | None, *, urgent: bool) -> None:
        self.check(life.in_hand is None, f"{life.name} handles two messages at once")
        self.check(life.up, f"{life.name} handles a message before it is up")
        if number is None:
            life.news += 1
            return
        self.check(number not in life.received, f"{life.name} got message {number} twice")
        self.check(number > life.last_number[urgent], f"{life.name} got {number} out of order")
        life.last_number[urgent] = number
        life.received.add(number)
        life.in_hand = number

    def hears_of_end(self, life: Life, news: Ended) -> None:
        self.note(f"{life.name} hears that {news.ref.name} ended")
        self.check(news.ref in life.watches, f"{life.name} was told of {news.ref.name} unasked")
        if news.ref in life.watches:
            life.watches.remove(news.ref)
        late = life.from_whom.get(news.ref.name, set()) - life.received
        self.check(not late, f"{life.name} heard of an end before messages {late}")
        self.check(child_of(news.ref).reason is news.reason, f"{life.name} was told a wrong reason")

    def ends_itself(self, life: Life, why: Exception) -> None:
        life.own_ends += 1
        self.note(f"{life.name} ends itself, {type(why).__name__}")

    def is_interrupted(self, life: Life) -> None:
        assert life.cell is not None
        self.check(life.cell.wanted != "run", f"{life.name} was cancelled by nobody's wish")
        self.note(f"{life.name} is interrupted")

    def cleans_up(self, life: Life, reason: Exit) -> None:
        life.cleaned_up += 1
        self.note(f"{life.name} cleans up, {type(reason).__name__}")
        self.check(life.up, f"{life.name} cleans up what never started")
        self.check(life.in_hand is None, f"{life.name} cleans up with a message in hand")
        if isinstance(reason, Stopped):
            self._check_stop_order(life)

    def is_down(self, life: Life, reason: Exit, failure: BaseException | None) -> None:
        assert life.cell is not None
        life.alive -= 1
        life.up = False
        life.ended_at.append(trio.current_time())
        undisturbed = failure is None and life.cell.wanted == "run"
        life.finished = isinstance(reason, Finished) and undisturbed
        self.note(f"{life.name} is down")

    # Order ------------------------------------------------------------------------------

    def _check_start_order(self, life: Life, cell: Cell) -> None:
        supervisor = cell.supervisor
        assert supervisor is not None
        if supervisor.state != "starting" or not cell.declared:
            return
        for child in supervisor.children:
            if child is cell:
                return
            self.check(child.state != "starting", f"{life.name} starts before {child.name} is up")

    def _check_stop_order(self, life: Life) -> None:
        """Stopped as one of many: everyone who was started later is down already."""
        assert life.cell is not None
        if life.made_at_most is not None or life.cell in self.stopped:
            return
        child: Child | None = life.cell
        while child is not None and child.supervisor is not None:
            group = child.supervisor
            for later in _started_after(child, group):
                # Who joined in the middle of a group's restart is not part of that restart.
                if later.declared or life.cell.wanted == "stop":
                    self.check(
                        not self.anything_alive_under(later),
                        f"{life.name} is stopped before {later.name}",
                    )
            # The group may go down alone; only if all above it stops too is there an order there.
            above = group.supervisor
            stopped_from_above = above is not None and above.wanted == life.cell.wanted == "stop"
            child = group if stopped_from_above and group not in self.stopped else None

    def anything_alive_under(self, child: Child) -> bool:
        if isinstance(child, Supervisor):
            return any(self.anything_alive_under(one) for one in child.children)
        assert isinstance(child, Cell)
        life = self.by_cell.get(child)
        return life is not None and life.alive > 0

    # Looking ----------------------------------------------------------------------------

    def look(self) -> None:
        """After every step."""
        self.steps += 1
        for life in self.lives:
            life.look(self)
        if self.root is not None:
            self._look_at_group(self.root)
            ends = sum(life.own_ends for life in self.lives)
            self.check(_decisions(self.root) <= ends, "a restart was decided without an end")

    def _look_at_group(self, group: Supervisor) -> None:
        for child in group.children:
            if isinstance(child, Supervisor):
                self._look_at_group(child)
            if group.reason is not None:
                self.check(child.reason is not None, f"{child.name} outlives {group.name}")
        if group.reason is not None:
            self.check(not is_recovering(group), f"{group.name} is over and still recovering")
            self.check(
                not self.anything_alive_under(group), f"something in {group.name} is still alive"
            )

    def look_when_quiet(self) -> None:
        """When every task is blocked: nobody sleeps who has something to do."""
        assert self.root is not None
        for life in self.lives:
            cell = life.cell
            if cell is None or cell.reason is not None:
                continue
            idle = cell.state == "running" and life.up and sleeps(cell)
            if idle:
                self.check(cell.mailbox.waiting == 0, f"{life.name} sleeps on its messages")
                over = [one.name for one in life.watches if is_over(one)]
                self.check(not over, f"{life.name} was never told that {over} ended")
        self._look_for_forgotten(self.root)

    def _look_for_forgotten(self, group: Supervisor) -> None:
        for child in group.children:
            if isinstance(child, Supervisor):
                self._look_for_forgotten(child)
            if child.state == "restarting" and group.state == "running" and group.wanted == "run":
                self.check(is_recovering(group), f"{child.name} is down and nobody brings it back")

    def close(self) -> None:
        """The program is over: raise the first promise that was broken."""
        for life in self.lives:
            life.look_at_its_end(self)
        if self.broken is not None:
            raise self.broken


def _decisions(group: Supervisor) -> int:
    """The restarts that were decided in a group since it was last launched."""
    return len(group.recent) + sum(
        _decisions(child) if isinstance(child, Supervisor) else len(child.recent)
        for child in group.children
    )


def _started_after(child: Child, group: Supervisor) -> tuple[Child, ...]:
    siblings = group.children
    if child not in siblings or group.spec.stop_order == "together":
        return ()
    return siblings[siblings.index(child) + 1 :]


class Watchman(trio.abc.Instrument):
    """Looks at the ledger after every step of every task."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        try:
            self._ledger.look()
        except Exception as error:  # noqa: BLE001 - trio would drop an instrument that raises
            self._ledger.check(holds=False, otherwise=f"the ledger cannot be read: {error!r}")
