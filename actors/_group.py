"""The handle on a group of actors, and on the root of them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import attrs
from trio.lowlevel import checkpoint, checkpoint_if_cancelled, enable_ki_protection

from ._actor import Actor
from ._cell import Cell
from ._child import Child, State
from ._errors import BadSpec, UnknownActor
from ._ref import Ref
from ._restart import Exit, RestartKind, RestartPolicy, Strategy
from ._spec import (
    DEFAULT_CAPACITY,
    DEFAULT_SHUTDOWN_SECONDS,
    ChildSpec,
    GroupSpec,
    StopOrder,
    as_policy,
    refuse_private_intensity,
    refuse_unless_name,
)
from ._supervisor import Supervisor


@attrs.frozen
class GroupStatistics:
    """How many children a group lists, how many of them are in each state, and its restarts.

    `children` is always the sum of the five states. `stopped` ones are children that the
    group was described with and that have ended. `restarts` counts those of all children listed.
    """

    name: str
    state: State
    children: int
    starting: int
    running: int
    restarting: int
    stopping: int
    stopped: int
    restarts: int


class Group:
    """Start children, find them, stop them all.

    `open_actors` gives you the root, where every child counts its own restarts; `start_group`
    gives you a group, where they are counted together.
    """

    __slots__ = ("__weakref__", "_child", "_numbers", "name")

    def __init__(self, supervisor: Supervisor) -> None:
        self.name = supervisor.name
        self._child = supervisor
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        return (
            f"<Group {self.name!r} {self._child.state} with {len(self._child.children)} children>"
        )

    @enable_ki_protection
    async def start(
        self,
        start: Callable[[], Actor],
        *,
        name: str | None = None,
        restart: RestartKind | RestartPolicy = "transient",
        capacity: int = DEFAULT_CAPACITY,
        shutdown_seconds: float = DEFAULT_SHUTDOWN_SECONDS,
    ) -> Ref:
        """Start an actor, and answer when its `on_start` is done.

        `start` is an `Actor` class or any callable that makes an actor; it is called again
        for every restart. Raises what `on_start` raised, `NameTaken`, `BadSpec`, or
        `ActorStopped` if this group is stopping or the actor stopped before it was up. If
        it fails or is cancelled, nothing is left behind.
        """
        if isinstance(start, GroupSpec):
            raise BadSpec("start", "a GroupSpec makes no actor", hint="use start_group()")
        spec = ChildSpec(
            self._name_for(start, name),
            start,
            restart=restart,
            capacity=capacity,
            shutdown_seconds=shutdown_seconds,
        )
        if not self._child.is_root:
            refuse_private_intensity(spec)
        await checkpoint_if_cancelled()
        cell = self._child.make_child(spec)
        assert isinstance(cell, Cell)
        self._child.admit(cell)
        await self._child.start_admitted(cell)
        return cell.ref

    @enable_ki_protection
    async def start_group(
        self,
        children: Iterable[ChildSpec],
        *,
        name: str | None = None,
        strategy: Strategy = "one_for_one",
        max_restarts: int = 3,
        within_seconds: float = 5.0,
        backoff_seconds: float = 0.0,
        max_backoff_seconds: float = 60.0,
        stop_order: StopOrder = "reverse",
    ) -> Group:
        """Start children in order, each when the one before is up, as one group.

        Above `max_restarts` in `within_seconds` the whole group stops and the failure climbs:
        to the group it was started in, which restarts it as one and counts that, or, from the
        root, out of `open_actors`. If a child fails to start, those before it are stopped in
        reverse order and its reason is raised.
        """
        spec = GroupSpec(
            children,
            strategy=strategy,
            max_restarts=max_restarts,
            within_seconds=within_seconds,
            backoff_seconds=backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            stop_order=stop_order,
        )
        await checkpoint()  # an empty group would pass none otherwise
        group = Supervisor(
            self._name_for(Group, name),
            spec,
            policy=as_policy("transient"),
            supervisor=self._child,
            house=self._child.house,
        )
        self._child.admit(group)
        await self._child.start_admitted(group)
        return group.handle

    def __getitem__(self, name: str) -> Ref:
        """The actor of that name; raises `UnknownActor`."""
        child = self._find(name)
        if not isinstance(child, Cell):
            raise UnknownActor(name, where=self.name, hint="that is a group: use group(name)")
        return child.ref

    def group(self, name: str) -> Group:
        """The group of that name inside this one; raises `UnknownActor`."""
        child = self._find(name)
        if not isinstance(child, Supervisor):
            raise UnknownActor(name, where=self.name, hint="that is an actor: use [name]")
        return child.handle

    def __contains__(self, name: object) -> bool:
        """Whether a child of that name is listed here, an ended one that was declared included."""
        return isinstance(name, str) and self._child.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names of the children, in start order."""
        return iter([child.name for child in self._child.children])

    @enable_ki_protection
    def stop_nowait(self) -> None:
        """Begin to stop all children, the last started first, and return at once."""
        self._child.request_stop()

    @enable_ki_protection
    async def stop(self) -> None:
        """`stop_nowait`, and wait until all is over. Giving up the wait does not undo the stop."""
        self._child.refuse_self("stop its group", "use stop_nowait()")
        await checkpoint_if_cancelled()
        self._child.request_stop()
        await self._child.wait_over()

    @enable_ki_protection
    async def wait_stopped(self) -> Exit:
        """Wait until the group has ended for good, and say how; raises `GaveUp` if it gave up."""
        self._child.refuse_self("wait for its group", "watch() it, or wait somewhere else")
        return await self._child.wait_stopped()

    def statistics(self) -> GroupStatistics:
        """A frozen picture of this instant."""
        children = self._child.children
        states = [child.state for child in children]
        return GroupStatistics(
            name=self.name,
            state=self._child.state,
            children=len(children),
            starting=states.count("starting"),
            running=states.count("running"),
            restarting=states.count("restarting"),
            stopping=states.count("stopping"),
            stopped=states.count("stopped"),
            restarts=sum(child.restarts for child in children),
        )

    def _find(self, name: str) -> Child:
        child = self._child.find(name) if isinstance(name, str) else None
        if child is None:
            raise UnknownActor(
                name, where=self.name, hint="it was never started here, or it has ended"
            )
        return child

    def _name_for(self, start: Callable[[], Actor] | type[Group], name: str | None) -> str:
        if name is not None:
            refuse_unless_name("name", name)
            return name
        kind = start.__name__.lower() if isinstance(start, type) else "actor"
        while self._child.find(made := f"{kind}-{next(self._numbers)}") is not None:
            pass  # someone chose just that name; the next number is free, or the one after
        return made
