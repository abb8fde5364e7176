"""Harness for attacks on the actor runtime: calls that check every result."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import outcome
import trio

import actors
from actors import ChildSpec, GaveUp, Group, GroupSpec, OpenAsk, Ref, RestartPolicy
from actors._restart import RestartKind
from actors.testing import settle

from .internals import cell_of, group_of, has_incarnation, is_over, news_inside, unwrap
from .oracle import ActorHistory, Oracle, StepObserver
from .scripted_actor import GENTLE, Action, Answer, Behaviour, PlannedCrash, ScriptedActor, write

STEADY = RestartPolicy("permanent", max_restarts=1_000)


class NotedAsk(OpenAsk):
    """An ask that notes its answer and wakes the task that waits for it."""

    def __init__(self, message: Answer) -> None:
        super().__init__(message)
        self.answered = trio.Event()
        self.result: outcome.Outcome[int]

    def answer(self, value: int) -> None:
        self._note(outcome.Value(value))

    def fail(self, error: BaseException) -> None:
        self._note(outcome.Error(error))

    def _note(self, result: outcome.Outcome[int]) -> None:
        assert not self.answered.is_set(), "an open ask was answered twice"
        self.result = result
        self.answered.set()


async def ask_openly(ref: Ref, message: Answer, *, timeout_seconds: float, urgent: bool) -> int:
    """Ask by a direct delivery, and wait for the answer outside of the runtime."""
    ask = NotedAsk(message)
    ref.deliver(ask, urgent=urgent)
    with trio.move_on_after(timeout_seconds):
        await ask.answered.wait()
    if not ask.answered.is_set():
        raise actors.AskTimeout(ref.name, timeout_seconds=timeout_seconds)
    return ask.result.unwrap()


@attrs.define(eq=False)
class Harness:
    """The actor system of one run, its oracle, and checked calls to both."""

    system: Group
    oracle: Oracle
    escalated: GaveUp | None = None

    # Starting ---------------------------------------------------------------------------

    def make(
        self, name: str, *, behaviour: Behaviour = GENTLE, policy: RestartPolicy = STEADY
    ) -> tuple[ActorHistory, Callable[[], ScriptedActor]]:
        """Return an empty history and the factory of its incarnations."""
        history = self.oracle.history(name, policy)
        return history, lambda: ScriptedActor(self.oracle, history, behaviour)

    def spec(
        self,
        name: str,
        *,
        behaviour: Behaviour = GENTLE,
        kind: RestartKind = "permanent",
        capacity: int = 3,
        shutdown_seconds: float = 3.0,
    ) -> ChildSpec:
        """Return the spec of one group member."""
        _, make = self.make(name, behaviour=behaviour, policy=RestartPolicy(kind))
        return ChildSpec(
            name, make, restart=kind, capacity=capacity, shutdown_seconds=shutdown_seconds
        )

    def member(self, name: str, spec: GroupSpec) -> ChildSpec:
        """Return the spec of a group that is a member of another group."""
        return ChildSpec(name, spec, restart="permanent")

    async def start(
        self,
        name: str,
        *,
        group: Group | None = None,
        behaviour: Behaviour = GENTLE,
        policy: RestartPolicy = STEADY,
        capacity: int = 3,
        shutdown_seconds: float = 3.0,
    ) -> Ref | None:
        """Start an actor; return None when the start fails and check that nothing is left."""
        group = group or self.system
        history, make = self.make(name, behaviour=behaviour, policy=policy)
        try:
            ref = await group.start(
                make,
                name=name,
                restart=policy,
                capacity=capacity,
                shutdown_seconds=shutdown_seconds,
            )
        except (PlannedCrash, actors.ActorStopped):
            self._check_nothing_left(group, history)
            return None
        except actors.NameTaken:
            self.oracle.check(history.made == 0, f"{name} was made although its name was refused")
            raise
        except trio.Cancelled:
            self._check_nothing_left(group, history)
            raise
        self.oracle.check(
            history.started > 0, f"{name} was reported as started before on_start ended"
        )
        return ref

    def _check_nothing_left(self, group: Group, history: ActorHistory) -> None:
        cell = history.cell
        self.oracle.check(history.alive == 0, f"{history.name} failed to start and is still alive")
        if cell is not None:
            self.oracle.check(
                cell.reason is not None, f"{history.name} failed to start and has no exit"
            )
            listed = group_of(group).find(history.name) is cell
            self.oracle.check(not listed, f"{history.name} failed to start and is listed")
        history.made_at_most = history.made

    async def start_group(self, name: str, spec: GroupSpec, *, within: Group) -> Group | None:
        """Start a group; return None when it fails and check that no member is left."""
        try:
            return await within.start_group(
                spec.children,
                name=name,
                strategy=spec.strategy,
                max_restarts=spec.max_restarts,
                within_seconds=spec.within_seconds,
                backoff_seconds=spec.backoff_seconds,
                stop_order=spec.stop_order,
            )
        except (PlannedCrash, actors.ActorStopped):
            self._check_no_member_left(name, spec, within)
            return None
        except trio.Cancelled:
            self._check_no_member_left(name, spec, within)
            raise

    def _check_no_member_left(self, name: str, spec: GroupSpec, within: Group) -> None:
        members = {child.name for child in spec.children}
        alive = [
            history.name
            for history in self.oracle.histories
            if history.name in members and history.alive
        ]
        self.oracle.check(not alive, f"{name} failed to start and {alive} are alive")
        self.oracle.check(name not in within, f"{name} failed to start and is listed")

    # Writing ----------------------------------------------------------------------------

    def tell(
        self,
        ref: Ref,
        action: Action,
        *,
        urgent: bool = False,
        to: Ref | None = None,
        may_be_direct: bool = True,
    ) -> bool:
        """Send a message; return True if the mailbox accepted it."""
        return write(self.oracle, ref, action, urgent=urgent, to=to, may_be_direct=may_be_direct)

    async def ask(self, ref: Ref, action: Action, *, timeout_seconds: float = 3.0) -> None:
        """Ask, and check that the ask ends in one of its five allowed ways."""
        history = self.oracle.by_cell[cell_of(ref)]
        question = Answer(self.oracle.next_number(), action, urgent=random.random() < 0.2)
        number, asked_at = question.number, trio.current_time()
        ask = random.choice((ref.ask, partial(ask_openly, ref)))
        try:
            answer = await ask(question, timeout_seconds=timeout_seconds, urgent=question.urgent)
        except PlannedCrash as crash:
            self.oracle.check(crash.number == number, f"ask {number} got {crash.number}'s error")
        except actors.ActorStopped:
            closed = cell_of(ref).mailbox.closed
            self.oracle.check(
                closed or number in history.cut_short,
                f"ask {number} reported an end that did not happen",
            )
        except actors.AskTimeout:
            waited = trio.current_time() - asked_at
            # Rounding: adding and subtracting an instant changes the float.
            early = waited < timeout_seconds - 1e-6
            self.oracle.check(not early, f"ask {number} timed out too early")
        except actors.MailboxFull as full:
            self.oracle.check(
                unwrap(full.message) is question, f"ask {number} was not returned with the error"
            )
        else:
            self.oracle.check(answer == number, f"ask {number} got the answer {answer}")
            self.oracle.check(number in history.received, f"ask {number} was never received")

    # Stopping ---------------------------------------------------------------------------

    def stop_nowait(self, ref: Ref) -> None:
        """Stop on behalf of a user: no restart follows, and a back-off ends at once."""
        cell = cell_of(ref)
        history = self.oracle.by_cell[cell]
        self.oracle.note(f"{history.name} receives a stop request")
        unmade = has_incarnation(cell) and not history.alive
        if history.made_at_most is None:
            history.made_at_most = history.made + unmade
        ref.stop_nowait()
        self.oracle.check(cell.mailbox.closed, f"{history.name} is stopped and accepts messages")
        if not has_incarnation(cell):
            self.oracle.check(
                cell.reason is not None, f"{history.name} was down when stopped and has no exit"
            )

    async def stop(self, ref: Ref) -> None:
        """Stop, wait, and check that nothing is left."""
        self.stop_nowait(ref)
        await ref.stop()
        history = self.oracle.by_cell[cell_of(ref)]
        self.oracle.check(not history.alive, f"{history.name} was stopped and is still alive")
        self.oracle.check(
            cell_of(ref).reason is not None, f"{history.name} was stopped and has no exit"
        )

    async def stop_group(self, group: Group) -> None:
        """Stop a group and check that no member is left."""
        self.oracle.note(f"{group.name} receives a stop request")
        self.oracle.stopped.add(group_of(group))
        await group.stop()
        self.oracle.check(
            not self.oracle.anything_alive_under(group_of(group)),
            f"{group.name} left a member alive",
        )

    def watch(self, watcher: Ref, other: Ref | Group) -> None:
        """Watch; the oracle then expects exactly one notice.

        Watching an ended actor sends the notice at once, each time, and ends that watch.
        """
        history = self.oracle.by_cell[cell_of(watcher)]
        try:
            watcher.watch(other)
        except actors.ActorStopped:
            return
        if is_over(other) or other not in history.watches:
            history.watches.append(other)

    def unwatch(self, watcher: Ref, other: Ref | Group) -> None:
        """Cancel a watch; a notice already queued still arrives."""
        history = self.oracle.by_cell[cell_of(watcher)]
        watcher.unwatch(other)
        underway = any(news.ref is other for news in news_inside(cell_of(watcher)))
        if other in history.watches and not underway:
            history.watches.remove(other)

    async def quiet(self) -> None:
        """Wait until every task is blocked, then check that none should run."""
        await settle()
        self.oracle.check_when_quiet()


@asynccontextmanager
async def open_harness() -> AsyncIterator[Harness]:
    """Open an observed actor system; check on exit that everything ended and is accounted for.

    A `GaveUp` that escalates is caught and stored in `escalated` for the attack to check.
    """
    oracle = Oracle()
    harness: Harness | None = None
    observer = StepObserver(oracle)
    trio.lowlevel.add_instrument(observer)
    try:
        async with actors.open_actors() as system:
            oracle.root = group_of(system)
            harness = Harness(system, oracle)
            yield harness
    except GaveUp as gave_up:
        assert harness is not None
        harness.escalated = gave_up
    trio.lowlevel.remove_instrument(observer)
    oracle.close()
