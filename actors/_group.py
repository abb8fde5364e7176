"""The public handle on a group of actors, including the root group."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import attrs
from trio.lowlevel import checkpoint, checkpoint_if_cancelled, enable_ki_protection

from ._actor import Actor
from ._errors import BadSpec, UnknownActor
from ._handle import Handle, State, Watched
from ._ref import Ref
from ._restart import Exit, RestartKind, RestartPolicy, Strategy
from ._spec import (
    DEFAULT_CAPACITY,
    DEFAULT_SHUTDOWN_SECONDS,
    ChildSpec,
    GroupSpec,
    StopOrder,
    refuse_private_intensity,
    refuse_unless_name,
)


@attrs.frozen
class GroupStatistics:
    """Numbers of a group's children by state, and of their restarts.

    `children` is always the sum of the five states. `stopped` children are in the group's spec
    and have ended. `restarts` is the sum over all listed children.
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


class ListedChild(Protocol):
    """The part of a child that its group's handle uses."""

    name: str
    state: State

    @property
    def handle(self) -> Ref | Group: ...
    @property
    def restarts(self) -> int: ...


class GroupControl(Watched, Protocol):
    """The part of a group's supervisor that its `Group` handle uses."""

    name: str
    state: State

    @property
    def is_root(self) -> bool: ...
    @property
    def children(self) -> Sequence[ListedChild]: ...
    def find(self, name: str) -> ListedChild | None: ...
    async def start_child(self, spec: ChildSpec) -> Ref | Group: ...
    def refuse_own_task(self, verb: str, instead: str) -> None: ...
    def request_stop(self) -> None: ...
    async def wait_ended(self) -> None: ...
    async def wait_stopped(self) -> Exit: ...


class Group(Handle):
    """Handle on a group: start children, find them, stop them all.

    `open_actors` returns the root, where each child counts its own restarts; `start_group`
    returns a group, where restarts are counted together.
    """

    __slots__ = ("_numbers",)

    _child: GroupControl

    def __init__(self, supervisor: GroupControl) -> None:
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
        """Start an actor and return its `Ref` when `on_start` has succeeded.

        `start` is an `Actor` class or any callable that returns an actor; it is called again for
        every restart. Raise the exception of `on_start`, `NameTaken` if a live child has the name,
        `BadSpec` for an invalid argument, or `ActorStopped` if this group is stopping or the actor
        stopped before it was up. If the start fails or is cancelled, no task is left behind.
        """
        if isinstance(start, GroupSpec):
            raise BadSpec("start", "a GroupSpec is not an actor", hint="use start_group()")
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
        ref = await self._child.start_child(spec)
        assert isinstance(ref, Ref)
        return ref

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
        """Start children in order, each when the previous one is up, as one group.

        Above `max_restarts` in `within_seconds` the whole group stops and the failure escalates:
        the group it was started in restarts it as one child and counts that; at the root,
        `open_actors` raises it. If a child fails to start, the children before it are stopped in
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
        await checkpoint()  # an empty group would pass no checkpoint otherwise
        group = await self._child.start_child(ChildSpec(self._name_for(Group, name), spec))
        assert isinstance(group, Group)
        return group

    def __getitem__(self, name: str) -> Ref:
        """Return the actor with that name; raise `UnknownActor` if there is none."""
        handle = self._find(name)
        if not isinstance(handle, Ref):
            raise UnknownActor(name, where=self.name, hint="that is a group: use group(name)")
        return handle

    def group(self, name: str) -> Group:
        """Return the group with that name inside this group.

        Raise `UnknownActor` if there is none.
        """
        handle = self._find(name)
        if not isinstance(handle, Group):
            raise UnknownActor(name, where=self.name, hint="that is an actor: use [name]")
        return handle

    def __contains__(self, name: object) -> bool:
        """Return True if a child with that name is listed; a declared child stays listed."""
        return isinstance(name, str) and self._child.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the children, in start order."""
        return iter([child.name for child in self._child.children])

    @enable_ki_protection
    def stop_nowait(self) -> None:
        """Request the stop of all children, the last started first, and return at once."""
        self._child.request_stop()

    @enable_ki_protection
    async def stop(self) -> None:
        """Stop all children and wait until they have ended. Cancelling the wait keeps the stop."""
        self._child.refuse_own_task("stop its group", "use stop_nowait()")
        await checkpoint_if_cancelled()
        self._child.request_stop()
        await self._child.wait_ended()

    @enable_ki_protection
    async def wait_stopped(self) -> Exit:
        """Wait until the group has ended for good.

        Return its exit, or raise `GaveUp` if it was given up.
        """
        self._child.refuse_own_task("wait for its group", "watch() it, or wait somewhere else")
        return await self._child.wait_stopped()

    def statistics(self) -> GroupStatistics:
        """Return a frozen record of the current numbers."""
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

    def _find(self, name: str) -> Ref | Group:
        child = self._child.find(name) if isinstance(name, str) else None
        if child is None:
            raise UnknownActor(
                name, where=self.name, hint="it was never started here, or it has ended"
            )
        return child.handle

    def _name_for(self, start: Callable[[], Actor] | type[Group], name: str | None) -> str:
        if name is not None:
            refuse_unless_name("name", name)
            return name
        kind = start.__name__.lower() if isinstance(start, type) else "actor"
        while self._child.find(made := f"{kind}-{next(self._numbers)}") is not None:
            pass  # a caller chose that name; a later number is free
        return made
