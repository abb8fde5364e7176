"""The supervisor of a group: starts, restarts and stops its children.

Rule 1: it has no task of its own. Ends arrive as calls from the task of the child that ended; a
        task exists only while a restart, an escalation or a stop is in progress.
Rule 2: a name is checked and reserved in one step, before the first await.
Rule 3: `decide_restart` and `restart_scope` decide; this file only performs the decision.
Rule 4: one child's end never cancels a sibling, and never reaches a nursery.
"""

from __future__ import annotations

import logging
import math

import trio
from trio.lowlevel import checkpoint_if_cancelled, enable_ki_protection

from ._cell import Cell
from ._child import Child, ExitHandler
from ._context import SystemContext
from ._errors import ActorStopped, GaveUp, NameTaken
from ._group import Group
from ._recovery import Recoveries
from ._ref import Ref
from ._restart import (
    Crashed,
    Exit,
    Finished,
    GiveUp,
    NoRestart,
    Restart,
    RestartKind,
    RestartPolicy,
    Stopped,
    decide_restart,
    describe,
    make_gave_up,
)
from ._spec import ChildSpec, GroupSpec

logger = logging.getLogger("actors")


class Supervisor(Child):
    """A group as its own supervisor: the parent of its children, and a child of its parent."""

    __slots__ = (
        "_children",
        "_culprit",
        "_early_exits",
        "_give_up_scope",
        "_grace_seconds",
        "_group",
        "_recoveries",
        "spec",
    )

    def __init__(
        self,
        name: str,
        spec: GroupSpec,
        *,
        policy: RestartPolicy,
        supervisor: ExitHandler | None,
        context: SystemContext,
    ) -> None:
        super().__init__(name, policy, supervisor=supervisor, context=context)
        self.spec = spec
        # Invariant: in start order. A child is here from the moment its name is reserved
        # until it has ended (and after that, if it was declared in the spec).
        self._children: dict[str, Child] = {}
        self._recoveries = Recoveries(self)
        # Ends that came before the whole group was up; they are handled when it is.
        self._early_exits: list[tuple[Child, Exit]] = []
        # The child that made this group give up, and the error, until it is launched again.
        self._culprit: tuple[Child, GaveUp] | None = None
        # The scope of the task that halts all children after that, and then reports to the
        # supervisor above; a stop or halt from above replaces it, and then it must not touch
        # any child.
        self._give_up_scope: trio.CancelScope | None = None
        self._grace_seconds = math.inf
        self._group: Group | None = None
        for child_spec in spec.children:
            child = self.make_child(child_spec)
            child.declared = child.has_started = True
            self._children[child.name] = child

    @property
    def handle(self) -> Group:
        if self._group is None:
            self._group = Group(self)
        return self._group

    @property
    def is_root(self) -> bool:
        """True for the root, which counts restarts per child; other groups count them together."""
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
        """Return the child that `spec` describes, neither listed nor launched."""
        if isinstance(spec.start, GroupSpec):
            return Supervisor(
                spec.name, spec.start, policy=spec.policy, supervisor=self, context=self.context
            )
        return Cell(spec, spec.start, supervisor=self, context=self.context)

    async def start_child(self, spec: ChildSpec) -> Ref | Group:
        """Create, list and start a child; raise if that fails, and leave no task behind."""
        child = self.make_child(spec)
        self.admit(child)
        await self.start_admitted(child)
        return child.handle

    def admit(self, child: Child) -> None:
        """Reserve the child's name.

        Raise `NameTaken` if a live child has it, or `ActorStopped` if the group is stopping.
        """
        if self.is_ending:
            raise ActorStopped(self.name)
        if self.state != "running":
            raise ActorStopped(self.name, problem="is not running", hint="try again later")
        namesake = self._children.get(child.name)
        if namesake is not None and namesake.reason is None:
            raise NameTaken(child.name, where=self.name)
        self._children.pop(
            child.name, None
        )  # a new child is last in order, also under a known name
        self._children[child.name] = child

    async def start_admitted(self, child: Child) -> None:
        """Launch a child for the first time; raise if that fails, and leave no task behind."""
        try:
            exit_ = await child.launch()
        except BaseException:
            self._discard_failed_start(child, Stopped())
            raise
        if exit_ is None:
            child.has_started = True
            return
        self._discard_failed_start(child, exit_)
        if isinstance(exit_, Crashed):
            raise exit_.error
        raise ActorStopped(
            child.name,
            problem="ended, or was stopped, before it was up",
            hint="check its on_start, and the code that stops it",
        )

    def _discard_failed_start(self, child: Child, exit_: Exit) -> None:
        self._forget(child)
        child.finish(exit_)

    async def launch(self) -> Exit | None:
        await checkpoint_if_cancelled()
        self.launches += 1
        self.state = "starting"
        self.desired_state = "run"
        self.recent_restarts = ()
        self._early_exits = []
        self._culprit = None
        try:
            failure = await self._launch_children()
            if failure is not None:
                await self.halt()
                return failure
        except BaseException:
            # Bounded because all children are cancelled at once; a child that resists that
            # would hold up its nursery in plain trio too.
            with trio.CancelScope(shield=True):
                await self.halt(grace_seconds=0.0)
            raise
        self.state = "running"
        early, self._early_exits = self._early_exits, []
        for child, exit_ in early:
            if child.reason is None:
                self.child_exited(child, exit_)
        return None

    async def _launch_children(self) -> Exit | None:
        for child in self.children:
            if not child.has_started or child.is_ending:
                continue
            exit_ = await child.launch()
            if self.desired_state != "run":
                return Stopped()
            if child.is_ending:
                continue  # it was stopped while it started
            if isinstance(exit_, Finished):
                self.child_ended_for_good(child, exit_)
            elif exit_ is not None:
                return exit_
        return None

    # Ends -------------------------------------------------------------------------------

    def child_exited(self, child: Child, exit_: Exit) -> None:
        """Handle a child that ended by itself: decide, count and perform a restart."""
        if child.is_ending:
            return  # the stop in progress ends it, and a stop is never a crash
        child.state = "restarting"
        if self.is_ending:
            self.child_ended_for_good(child, exit_)
        elif self.desired_state == "halt":
            pass  # it would have been halted anyway
        elif self.state == "starting":
            self._early_exits.append((child, exit_))
        else:
            self._handle_exit(child, exit_)

    def _handle_exit(self, child: Child, exit_: Exit) -> None:
        if self.is_root and isinstance(exit_, GaveUp):
            _log_end(child, exit_, "has ended")
            self.child_ended_for_good(child, exit_)  # the root does not restart groups
            return
        policy = child.policy if self.is_root else self.spec.policy
        counter = child if self.is_root else self
        decision = decide_restart(
            child.policy.kind,
            exit_,
            policy=policy,
            recent=counter.recent_restarts,
            now=trio.current_time(),
            jitter=self.context.jitter(),
        )
        match decision:
            case NoRestart():
                _log_end(child, exit_, "has ended")
                self.child_ended_for_good(child, exit_)
            case Restart(after_seconds, recent):
                _log_end(child, exit_, "will be restarted")
                counter.recent_restarts = recent
                self._schedule_restart(child, after_seconds)
            case GiveUp():
                _log_end(child, exit_, "is given up")
                self._give_up(child, exit_, policy)

    def child_ended_for_good(self, child: Child, exit_: Exit) -> None:
        """Finish a child that has ended for good.

        Remove it from the list unless it was declared.
        """
        self._forget(child)
        self._recoveries.discard(child)
        child.finish(exit_)
        if self.is_root and isinstance(exit_, GaveUp):
            self.context.escalate(exit_)

    def _forget(self, child: Child) -> None:
        if not child.declared and self._children.get(child.name) is child:
            del self._children[child.name]

    # Restarting -------------------------------------------------------------------------

    def restartable(self) -> list[tuple[str, RestartKind]]:
        """Return name and kind of the children that a restart can affect, in start order."""
        return [
            (child.name, child.policy.kind)
            for child in self._children.values()
            if child.has_started and child.reason is None
        ]

    def _schedule_restart(self, child: Child, after_seconds: float) -> None:
        child.clear_failure()
        self._recoveries.schedule(child, after_seconds)

    # Giving up --------------------------------------------------------------------------

    def _give_up(self, child: Child, exit_: Exit, policy: RestartPolicy) -> None:
        if self.is_root:
            self.child_ended_for_good(child, make_gave_up(child.name, child.name, exit_, policy))
            return
        gave_up = make_gave_up(self.name, child.name, exit_, policy)
        self._culprit = (child, gave_up)
        self.desired_state = "halt"
        self.state = "stopping"
        self._recoveries.cancel()
        scope = self._give_up_scope = trio.CancelScope()
        self.context.nursery.start_soon(
            self._halt_and_escalate, gave_up, scope, name=f"{self.name}: give up"
        )

    @enable_ki_protection
    async def _halt_and_escalate(self, gave_up: GaveUp, scope: trio.CancelScope) -> None:
        with scope:
            await self._halt_children(math.inf)
        if self._give_up_scope is scope:
            self._give_up_scope = None
            assert self.supervisor is not None
            self.supervisor.child_exited(self, gave_up)

    def _cancel_own_work(self) -> None:
        """Cancel restarts and an escalation of this group."""
        self._recoveries.cancel()
        if self._give_up_scope is not None:
            self._give_up_scope.cancel(reason="halted or stopped from above")
            self._give_up_scope = None

    def clear_failure(self) -> None:
        self._culprit = None
        for child in self._children.values():
            child.clear_failure()  # the children that made this group give up restart too

    # Halting and stopping ---------------------------------------------------------------

    async def halt(self, *, grace_seconds: float = math.inf) -> None:
        await checkpoint_if_cancelled()
        if not self.is_ending:
            self.desired_state = "halt"
            self.state = "restarting"
        self._cancel_own_work()
        await self._halt_children(grace_seconds)

    async def _halt_children(self, grace_seconds: float) -> None:
        await self._recoveries.wait_cancelled_ended()
        children = [child for child in reversed(self.children) if child.reason is None]
        if self.spec.stop_order == "together":
            async with trio.open_nursery() as nursery:
                for child in children:
                    nursery.start_soon(self.halt_child, child, grace_seconds)
        else:
            for child in children:
                await self.halt_child(child, grace_seconds)

    async def halt_child(self, child: Child, grace_seconds: float = math.inf) -> None:
        """Halt one child before a restart; a temporary child ends for good."""
        await child.halt(grace_seconds=grace_seconds)
        if child.policy.kind == "temporary" and child.reason is None:
            self.child_ended_for_good(child, Stopped())

    def request_stop(self, *, grace_seconds: float = math.inf) -> None:
        if self.reason is not None:
            return
        self._grace_seconds = min(self._grace_seconds, grace_seconds)
        if self.is_ending:
            self._shorten_grace()
            return
        self.desired_state = "stop"
        self.state = "stopping"
        self._cancel_own_work()
        self.context.nursery.start_soon(self._stop, name=f"{self.name}: stop")

    def _shorten_grace(self) -> None:
        for child in self.children:
            if child.is_ending:
                child.request_stop(grace_seconds=self._grace_seconds)

    @enable_ki_protection
    async def _stop(self) -> None:
        await self._recoveries.wait_cancelled_ended()
        children = [child for child in reversed(self.children) if child.reason is None]
        if self.spec.stop_order == "together":
            for child in children:
                child.request_stop(grace_seconds=self._grace_seconds)
        for child in children:
            child.request_stop(grace_seconds=self._grace_seconds)
            await child.wait_ended()
        exit_: Exit = Stopped() if self._culprit is None else self._culprit[1]
        if self.supervisor is None:
            self.finish(exit_)
        else:
            self.supervisor.child_ended_for_good(self, exit_)

    def finish(self, exit_: Exit) -> None:
        """Finish the group and its children, which no longer run."""
        if self._culprit is not None:
            child, gave_up = self._culprit
            child.finish(gave_up)
            # A waiter or watcher of the child that failed first has handled all that follows
            # from it, however many groups gave up in between.
            if gave_up.handled and isinstance(exit_, GaveUp):
                exit_.handled = True
        for child in reversed(self.children):
            child.finish(Stopped())
        super().finish(exit_)


def _log_end(child: Child, exit_: Exit, consequence: str) -> None:
    error = exit_.error if isinstance(exit_, Crashed) else None
    level = logging.ERROR if error or isinstance(exit_, GaveUp) else logging.INFO
    logger.log(level, "%s %s and %s", child.name, describe(exit_), consequence, exc_info=error)
