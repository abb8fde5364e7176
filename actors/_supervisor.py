"""A supervisor: starts children in order, brings them back by its strategy, stops them in reverse.

Rule 1: it has no task of its own. Ends arrive as calls from the dying child's task; a task
        exists only while something is being brought back, collapses or stops.
Rule 2: a name is checked and reserved in one step, before the first await.
Rule 3: what to do is decided by `judge` and `reach`; this file only does it.
Rule 4: one child's end never cancels a sibling, and never reaches a nursery.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import checkpoint_if_cancelled, enable_ki_protection

from ._cell import Cell
from ._child import Child, House
from ._errors import ActorStopped, GaveUp, NameTaken
from ._recovery import Recovery
from ._restart import (
    Crashed,
    Exit,
    Finished,
    GiveUp,
    Leave,
    Restart,
    RestartKind,
    RestartPolicy,
    Stopped,
    describe,
    failure_of,
    judge,
)
from ._spec import ChildSpec, GroupSpec

if TYPE_CHECKING:
    from ._group import Group

logger = logging.getLogger("actors")


class Supervisor(Child):
    """A group as its own supervisor sees it, and as its children see theirs."""

    __slots__ = (
        "_children",
        "_collapsing",
        "_culprit",
        "_early",
        "_grace_seconds",
        "_group",
        "_leaving",
        "_recoveries",
        "spec",
    )

    def __init__(
        self,
        name: str,
        spec: GroupSpec,
        *,
        policy: RestartPolicy,
        supervisor: Supervisor | None,
        house: House,
    ) -> None:
        super().__init__(name, policy, supervisor=supervisor, house=house)
        self.spec = spec
        # Invariant: in start order. A child is here from the moment its name is reserved
        # until it is over (and after that, if it was declared in the spec).
        self._children: dict[str, Child] = {}
        # What is being brought back: by child in one_for_one, under None for the whole group.
        self._recoveries: dict[Child | None, Recovery] = {}
        # Recoveries that were called off and whose tasks are still cleaning up behind them.
        # Whoever halts or stops the children waits for these, or they would touch what is new.
        self._leaving: set[Recovery] = set()
        # Ends that came before the whole group was up; they are judged when it is.
        self._early: list[tuple[Child, Exit]] = []
        # Why this group fell, and through whom, from giving up until it is launched again.
        self._culprit: tuple[Child, GaveUp] | None = None
        # The task that halts everyone after that, and then tells whoever is above; a stop or a
        # halt from above takes over from it, and then it must not touch anyone any more.
        self._collapsing: trio.CancelScope | None = None
        self._grace_seconds = math.inf
        self._group: Group | None = None
        for child_spec in spec.children:
            child = self.make_child(child_spec)
            child.declared = child.was_up = True
            self._children[child.name] = child

    @property
    def handle(self) -> Group:
        if self._group is None:
            from ._group import Group  # noqa: PLC0415 - the two halves of one thing need each other

            self._group = Group(self)
        return self._group

    @property
    def is_root(self) -> bool:
        """The root counts restarts for each child by itself, every other group for all its own."""
        return self.supervisor is None

    @property
    def children(self) -> tuple[Child, ...]:
        return tuple(self._children.values())

    def find(self, name: str) -> Child | None:
        return self._children.get(name)

    def runs_in(self, task: trio.lowlevel.Task) -> bool:
        return any(child.runs_in(task) for child in self._children.values())

    # Starting ---------------------------------------------------------------------------

    def make_child(self, spec: ChildSpec) -> Child:
        """The child that `spec` describes, neither listed nor launched."""
        if isinstance(spec.start, GroupSpec):
            return Supervisor(
                spec.name, spec.start, policy=spec.policy, supervisor=self, house=self.house
            )
        return Cell(spec, spec.start, supervisor=self, house=self.house)

    def admit(self, child: Child) -> None:
        """Reserve the child's name, or raise `NameTaken` or `ActorStopped`."""
        if self.is_ending:
            raise ActorStopped(self.name)
        if self.state != "running":
            raise ActorStopped(self.name, problem="is not up just now", hint="try again later")
        namesake = self._children.get(child.name)
        if namesake is not None and namesake.reason is None:
            raise NameTaken(child.name, where=self.name)
        self._children.pop(child.name, None)  # a newcomer is last in order, also under an old name
        self._children[child.name] = child

    async def start_admitted(self, child: Child) -> None:
        """Launch a child for the first time, or raise why not and leave nothing behind."""
        try:
            exit_ = await child.launch()
        except BaseException:
            self._forget_unborn(child, Stopped())
            raise
        if exit_ is None:
            child.was_up = True
            return
        self._forget_unborn(child, exit_)
        if isinstance(exit_, Crashed):
            raise exit_.error
        raise ActorStopped(
            child.name,
            problem="ended, or was stopped, before it was up",
            hint="look at its on_start, and at who stops it",
        )

    def _forget_unborn(self, child: Child, exit_: Exit) -> None:
        self._forget(child)
        child.finish(exit_)

    async def launch(self) -> Exit | None:
        await checkpoint_if_cancelled()
        self.launches += 1
        self.state = "starting"
        self.wanted = "run"
        self.recent = ()
        self._early = []
        self._culprit = None
        try:
            failure = await self._launch_children()
            if failure is not None:
                await self.halt()
                return failure
        except BaseException:
            # Bounded because everyone is cancelled at once; a child that refuses even that
            # would hold up its nursery in plain trio too.
            with trio.CancelScope(shield=True):
                await self.halt(grace_seconds=0.0)
            raise
        self.state = "running"
        early, self._early = self._early, []
        for child, exit_ in early:
            if child.reason is None:
                self.child_exited(child, exit_)
        return None

    async def _launch_children(self) -> Exit | None:
        for child in self.children:
            if not child.was_up or child.is_ending:
                continue
            exit_ = await child.launch()
            if self.wanted != "run":
                return Stopped()
            if child.is_ending:
                continue  # somebody stopped it while it started
            if isinstance(exit_, Finished):
                self.child_over(child, exit_)
            elif exit_ is not None:
                return exit_
        return None

    # Ends -------------------------------------------------------------------------------

    def child_exited(self, child: Child, exit_: Exit) -> None:
        """A child ended by itself: decide, count, and see to it."""
        if child.is_ending:
            return  # a stop that is under way ends it, and a stop is never a crash
        child.state = "restarting"
        if self.is_ending:
            self.child_over(child, exit_)
        elif self.wanted == "halt":
            pass  # it is down, as it soon would have been
        elif self.state == "starting":
            self._early.append((child, exit_))
        else:
            self._see_to(child, exit_)

    def _see_to(self, child: Child, exit_: Exit) -> None:
        if self.is_root and isinstance(exit_, GaveUp):
            _log_end(child, exit_, "is over")
            self.child_over(child, exit_)  # above the root there is nobody to restart a group
            return
        policy = child.policy if self.is_root else self.spec.policy
        counter = child if self.is_root else self
        verdict = judge(
            child.policy.kind,
            exit_,
            policy=policy,
            recent=counter.recent,
            now=trio.current_time(),
            jitter=self.house.jitter(),
        )
        match verdict:
            case Leave():
                _log_end(child, exit_, "is over")
                self.child_over(child, exit_)
            case Restart(after_seconds, recent):
                _log_end(child, exit_, "will be restarted")
                counter.recent = recent
                self._bring_back(child, after_seconds)
            case GiveUp():
                _log_end(child, exit_, "is given up")
                self._give_up(child, exit_, policy)

    def child_over(self, child: Child, exit_: Exit) -> None:
        """A child has ended for good: settle it, and forget it unless it was declared."""
        self._forget(child)
        for recovery in (self._recoveries.get(child), self._recoveries.get(None)):
            if recovery is not None:
                recovery.discard(child)
        child.finish(exit_)
        if self.is_root and isinstance(exit_, GaveUp):
            self.house.escalate(exit_)

    def _forget(self, child: Child) -> None:
        if not child.declared and self._children.get(child.name) is child:
            del self._children[child.name]

    # Bringing back ----------------------------------------------------------------------

    def roster(self) -> list[tuple[str, RestartKind]]:
        """Who can be reached by a restart, in start order."""
        return [
            (child.name, child.policy.kind)
            for child in self._children.values()
            if child.was_up and child.reason is None
        ]

    def _bring_back(self, child: Child, after_seconds: float) -> None:
        child.pardon()
        key = child if self.spec.strategy == "one_for_one" else None
        recovery = self._recoveries.get(key)
        if recovery is None:
            recovery = self._recoveries[key] = Recovery(self, key)
            self.house.nursery.start_soon(recovery.run, name=f"{self.name}: restart")
        recovery.add(child, not_before=trio.current_time() + after_seconds)

    def called_off(self, recovery: Recovery) -> None:
        """A recovery was called off: another may begin, but its task still has to let go."""
        if self._recoveries.get(recovery.key) is recovery:
            del self._recoveries[recovery.key]
        if not recovery.ended.is_set():
            self._leaving.add(recovery)

    def recovered(self, recovery: Recovery) -> None:
        """The task of a recovery has ended."""
        self._leaving.discard(recovery)
        if self._recoveries.get(recovery.key) is recovery:
            del self._recoveries[recovery.key]

    def _call_off_recoveries(self) -> None:
        for recovery in tuple(self._recoveries.values()):
            recovery.call_off()

    # Giving up --------------------------------------------------------------------------

    def _give_up(self, child: Child, exit_: Exit, policy: RestartPolicy) -> None:
        if self.is_root:
            self.child_over(child, failure_of(child.name, child.name, exit_, policy))
            return
        gave_up = failure_of(self.name, child.name, exit_, policy)
        self._culprit = (child, gave_up)
        self.wanted = "halt"
        self.state = "stopping"
        self._call_off_recoveries()
        scope = self._collapsing = trio.CancelScope()
        self.house.nursery.start_soon(self._collapse, gave_up, scope, name=f"{self.name}: give up")

    @enable_ki_protection
    async def _collapse(self, gave_up: GaveUp, scope: trio.CancelScope) -> None:
        with scope:
            await self._halt_children(math.inf)
        if self._collapsing is scope:
            self._collapsing = None
            assert self.supervisor is not None
            self.supervisor.child_exited(self, gave_up)

    def _take_over(self) -> None:
        """Whatever this group was about to do by itself is called off."""
        self._call_off_recoveries()
        if self._collapsing is not None:
            self._collapsing.cancel(reason="halted or stopped from above")
            self._collapsing = None

    def pardon(self) -> None:
        self._culprit = None
        for child in self._children.values():
            child.pardon()  # those whose own fall brought this one down will be back as well

    # Halting and stopping ---------------------------------------------------------------

    async def halt(self, *, grace_seconds: float = math.inf) -> None:
        await checkpoint_if_cancelled()
        if not self.is_ending:
            self.wanted = "halt"
            self.state = "restarting"
        self._take_over()
        await self._halt_children(grace_seconds)

    async def _wait_until_alone(self) -> None:
        for recovery in tuple(self._leaving):
            await recovery.ended.wait()

    async def _halt_children(self, grace_seconds: float) -> None:
        await self._wait_until_alone()
        children = [child for child in reversed(self.children) if child.reason is None]
        if self.spec.stop_order == "together":
            async with trio.open_nursery() as nursery:
                for child in children:
                    nursery.start_soon(self.halt_child, child, grace_seconds)
        else:
            for child in children:
                await self.halt_child(child, grace_seconds)

    async def halt_child(self, child: Child, grace_seconds: float = math.inf) -> None:
        """Halt one child before a restart; a temporary one never has another incarnation."""
        await child.halt(grace_seconds=grace_seconds)
        if child.policy.kind == "temporary" and child.reason is None:
            self.child_over(child, Stopped())

    def request_stop(self, *, grace_seconds: float = math.inf) -> None:
        if self.reason is not None:
            return
        self._grace_seconds = min(self._grace_seconds, grace_seconds)
        if self.is_ending:
            self._hasten()
            return
        self.wanted = "stop"
        self.state = "stopping"
        self._take_over()
        self.house.nursery.start_soon(self._stop, name=f"{self.name}: stop")

    def _hasten(self) -> None:
        for child in self.children:
            if child.is_ending:
                child.request_stop(grace_seconds=self._grace_seconds)

    @enable_ki_protection
    async def _stop(self) -> None:
        await self._wait_until_alone()
        children = [child for child in reversed(self.children) if child.reason is None]
        if self.spec.stop_order == "together":
            for child in children:
                child.request_stop(grace_seconds=self._grace_seconds)
        for child in children:
            child.request_stop(grace_seconds=self._grace_seconds)
            await child.wait_over()
        exit_: Exit = Stopped() if self._culprit is None else self._culprit[1]
        if self.supervisor is None:
            self.finish(exit_)
        else:
            self.supervisor.child_over(self, exit_)

    def finish(self, exit_: Exit) -> None:
        """The group is over; so are its children, which no longer run."""
        if self._culprit is not None:
            child, gave_up = self._culprit
            child.finish(gave_up)
            # Who was told of the failure at the bottom has taken over all that follows from it,
            # however many groups have fallen on the way.
            if gave_up.handled and isinstance(exit_, GaveUp):
                exit_.handled = True
        for child in reversed(self.children):
            child.finish(Stopped())
        super().finish(exit_)


def _log_end(child: Child, exit_: Exit, consequence: str) -> None:
    error = exit_.error if isinstance(exit_, Crashed) else None
    level = logging.ERROR if error or isinstance(exit_, GaveUp) else logging.INFO
    logger.log(level, "%s %s and %s", child.name, describe(exit_), consequence, exc_info=error)
