"""The roof: opens the root of all actors, and closes it in order whatever happens inside.

Rule 1: actors run in a nursery of their own that is shielded from whoever cancels the
        program, because an orderly stop needs an order: last started, first stopped.
Rule 2: the shield ends for certain: when the program is cancelled, every actor is too, at once.
        What an actor shields itself is the actor's own affair, as in plain trio.
Rule 3: a failure that nobody handled leaves here exactly once, and bare.
"""

from __future__ import annotations

import random
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled, enable_ki_protection

from ._child import House
from ._errors import GaveUp
from ._group import Group
from ._message import Timeouts
from ._restart import Killed, RestartPolicy
from ._spec import GroupSpec, StopOrder
from ._supervisor import Supervisor


def open_actors(*, stop_order: StopOrder = "reverse") -> AbstractAsyncContextManager[Group]:
    """Open the root supervisor; leaving the block stops everything in it, last started first.

    Each actor gets its `shutdown_seconds`. If the block is cancelled, or left by Ctrl-C, they are
    cancelled at once, still one after the other (`stop_order="together"`: all at the same time).
    An actor or group that is given up, and that nobody waits for (`wait_stopped`) or watches by
    then, cancels the block, and its `GaveUp` is raised from here, once. Whatever the block itself
    raises is raised bare, unless an actor was given up too: then both, in a group.
    """
    return _Roof(GroupSpec((), stop_order=stop_order))


class _Roof(AbstractAsyncContextManager[Group]):
    """One use of `open_actors`.

    A class and not a generator, because Ctrl-C may strike between any two instructions of the main
    task. In here it has to wait for the next checkpoint, or it could strike after the actors are
    shielded and before anybody is ready to stop them, and the program would never end.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._block = trio.CancelScope()
        self._climbing = _Climbing(self._block)
        self._nursery_manager = trio.open_nursery()
        self._root: Supervisor

    @enable_ki_protection
    async def __aenter__(self) -> Group:
        nursery = await self._nursery_manager.__aenter__()
        try:
            self._root = await nursery.start(_keep_house, self._climbing, self._spec)
        except BaseException as error:
            if await self._nursery_manager.__aexit__(type(error), error, error.__traceback__):
                raise AssertionError("a nursery nobody cancelled has swallowed this") from error
            raise
        self._block.__enter__()
        return self._root.handle

    @enable_ki_protection
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failure = error
        try:
            if self._block.__exit__(kind, error, traceback):
                failure = None
        except BaseException as rest:  # noqa: BLE001 - what the scope left of a group of errors
            failure = rest
        failure = await _stop_everything(self._root, failure)
        try:
            await self._nursery_manager.__aexit__(None, None, None)
        except BaseException as worse:
            # Something that is no Exception tore the house down; the block's error is not lost.
            worse.__context__ = failure
            raise
        gave_up = self._climbing.left()
        if gave_up is not None or failure is not error:  # else python raises it again by itself
            _raise_what_is_left(failure, gave_up)


async def _stop_everything(root: Supervisor, failure: BaseException | None) -> BaseException | None:
    """Stop all actors in order, at once if that is cut short; give what the block is to raise."""
    try:
        if _is_ctrl_c(failure):  # whoever pressed it does not wait for anybody's shutdown_seconds
            root.request_stop(grace_seconds=0.0)
        else:
            root.request_stop()
        await root.wait_over()
    except BaseException as error:  # noqa: BLE001 - handed back; Ctrl-C comes here too
        if failure is None or not _is_cancellation(error):
            error.__context__ = failure
            failure = error
        root.request_stop(grace_seconds=0.0)
        with trio.CancelScope(shield=True):  # bounded: everyone was cancelled just now
            await root.wait_over()
    finally:
        # Whatever happened above, the shield ends here, or nobody could ever leave.
        root.house.nursery.cancel_scope.cancel(reason="all actors have stopped")
    return failure


class _Climbing:
    """A GaveUp on its way out of the program."""

    def __init__(self, block: trio.CancelScope) -> None:
        self._block = block
        self._all: list[GaveUp] = []
        self._cut_by: GaveUp | None = None

    @enable_ki_protection
    async def climb(self, gave_up: GaveUp) -> None:
        self._all.append(gave_up)
        # Whoever was woken by the same crash gets a turn to say that it handles the matter.
        await checkpoint()
        await checkpoint()
        if not gave_up.handled:
            self._cut_by = self._cut_by or gave_up
            self._block.cancel(reason=str(gave_up))

    def left(self) -> GaveUp | None:
        """What must be raised: what cut the block short, also if it was handled after that."""
        if self._block.cancelled_caught:
            return self._cut_by
        return next((gave_up for gave_up in self._all if not gave_up.handled), None)


@enable_ki_protection
async def _keep_house(
    climbing: _Climbing,
    spec: GroupSpec,
    task_status: trio.TaskStatus[Supervisor],
) -> None:
    # Before the shield: if the program is cancelled already, `started` below would tell nobody,
    # and behind the shield nobody could tell us.
    await checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            house = House(
                nursery=nursery,
                timeouts=Timeouts(),
                jitter=random.random,
                escalate=lambda gave_up: nursery.start_soon(climbing.climb, gave_up),
            )
            root = Supervisor(
                "actors",
                spec,
                policy=RestartPolicy("temporary"),
                supervisor=None,
                house=house,
            )
            root.state = "running"
            try:
                task_status.started(root)
                await house.timeouts.run()
            finally:
                # Reached in order, when all is stopped; or out of order, when something that
                # is no Exception tore the nursery down. Then nobody may be left waiting.
                root.finish(Killed())


def _raise_what_is_left(failure: BaseException | None, gave_up: GaveUp | None) -> None:
    if gave_up is not None:
        if failure is None or _is_cancellation(failure):
            raise gave_up
        raise BaseExceptionGroup("the block failed, and an actor was given up", [failure, gave_up])
    if failure is not None:
        raise failure


def _is_ctrl_c(error: BaseException | None) -> bool:
    """Whether a KeyboardInterrupt is on its way out, also where nurseries have grouped it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _is_cancellation(error: BaseException) -> bool:
    """Whether it is nothing but trio's own Cancelled, also where nurseries have grouped it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
