"""The root of all actors: `open_actors` opens it, and always stops it in order.

Rule 1: actors run in their own nursery, which is shielded from a cancellation of the program,
        because an orderly stop needs an order: last started, first stopped.
Rule 2: the shield always ends: when the program is cancelled, every actor is too, at once.
        A shield inside an actor is the actor's own responsibility, as in plain trio.
Rule 3: an unhandled failure is raised exactly once, and not in an exception group.
"""

from __future__ import annotations

import random
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled, enable_ki_protection

from ._context import SystemContext
from ._direct import DirectDelivery
from ._errors import GaveUp
from ._group import Group
from ._message import Timeouts
from ._restart import Killed, RestartPolicy
from ._spec import GroupSpec, StopOrder
from ._supervisor import Supervisor


def open_actors(*, stop_order: StopOrder = "reverse") -> AbstractAsyncContextManager[Group]:
    """Open the root supervisor; leaving the block stops everything in it, last started first.

    Each actor gets its `shutdown_seconds`. If the block is cancelled, or left by Ctrl-C, they are
    cancelled at once, still one after the other (`stop_order="together"`: all at the same time). If
    an actor or group is given up, and no task waits for it (`wait_stopped`) and no actor watches
    it, the block is cancelled and `open_actors` raises the `GaveUp`, once. An exception of the
    block is raised unchanged, unless an actor was given up too: then both are raised in a group.
    """
    return _ActorSystem(GroupSpec((), stop_order=stop_order))


class _ActorSystem(AbstractAsyncContextManager[Group]):
    """One use of `open_actors`.

    It is a class and not a generator, because Ctrl-C may arrive between any two instructions of the
    main task. In these methods Ctrl-C is deferred to the next checkpoint. Otherwise it could arrive
    after the actors are shielded and before the code that stops them is reached, and the program
    would never end.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._block = trio.CancelScope()
        self._escalation = _Escalation(self._block)
        self._nursery_manager = trio.open_nursery()
        self._root: Supervisor

    @enable_ki_protection
    async def __aenter__(self) -> Group:
        nursery = await self._nursery_manager.__aenter__()
        try:
            self._root = await nursery.start(_run_system, self._escalation, self._spec)
        except BaseException as error:
            if await self._nursery_manager.__aexit__(type(error), error, error.__traceback__):
                raise AssertionError("an uncancelled nursery swallowed an error") from error
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
        except BaseException as rest:  # noqa: BLE001 - the rest of a group of errors
            failure = rest
        failure = await _stop_everything(self._root, failure)
        try:
            await self._nursery_manager.__aexit__(None, None, None)
        except BaseException as worse:
            # An error that is not an Exception tore the context down; keep the block's error.
            worse.__context__ = failure
            raise
        gave_up = self._escalation.unhandled()
        if gave_up is not None or failure is not error:  # else Python raises it again by itself
            _raise_unhandled(failure, gave_up)


async def _stop_everything(root: Supervisor, failure: BaseException | None) -> BaseException | None:
    """Stop all actors in order, at once if interrupted; return the exception for the block."""
    try:
        if _is_ctrl_c(failure):  # Ctrl-C does not wait for any shutdown_seconds
            root.request_stop(grace_seconds=0.0)
        else:
            root.request_stop()
        await root.wait_ended()
    except BaseException as error:  # noqa: BLE001 - returned to the caller; Ctrl-C too
        if failure is None or not _is_cancellation(error):
            error.__context__ = failure
            failure = error
        root.request_stop(grace_seconds=0.0)
        with trio.CancelScope(shield=True):  # bounded: all actors are cancelled now
            await root.wait_ended()
    finally:
        # Whatever happened above, the shield ends here, or the block could never be left.
        root.context.nursery.cancel_scope.cancel(reason="all actors have stopped")
    return failure


class _Escalation:
    """The unhandled GaveUp failures of one actor system."""

    def __init__(self, block: trio.CancelScope) -> None:
        self._block = block
        self._failures: list[GaveUp] = []
        self._cancelled_by: GaveUp | None = None

    @enable_ki_protection
    async def escalate(self, gave_up: GaveUp) -> None:
        self._failures.append(gave_up)
        # A task woken by the same crash gets a turn to handle the failure first.
        await checkpoint()
        await checkpoint()
        if not gave_up.handled:
            self._cancelled_by = self._cancelled_by or gave_up
            self._block.cancel(reason=str(gave_up))

    def unhandled(self) -> GaveUp | None:
        """Return the failure to raise.

        A failure that cancelled the block counts even if handled.
        """
        if self._block.cancelled_caught:
            return self._cancelled_by
        return next((gave_up for gave_up in self._failures if not gave_up.handled), None)


@enable_ki_protection
async def _run_system(
    escalation: _Escalation,
    spec: GroupSpec,
    task_status: trio.TaskStatus[Supervisor],
) -> None:
    # Before the shield: if the program is cancelled already, `started` below would raise, and
    # behind the shield this task would never notice the cancellation.
    await checkpoint_if_cancelled()
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            context = SystemContext(
                nursery=nursery,
                timeouts=Timeouts(),
                direct=DirectDelivery(is_enabled=_allows_direct_delivery()),
                jitter=random.random,
                escalate=lambda gave_up: nursery.start_soon(escalation.escalate, gave_up),
            )
            root = Supervisor(
                "actors",
                spec,
                policy=RestartPolicy("temporary"),
                supervisor=None,
                context=context,
            )
            root.state = "running"
            try:
                task_status.started(root)
                await context.timeouts.run()
            finally:
                # Reached in order, when all actors have stopped; or out of order, when an error
                # that is not an Exception tore the nursery down. Then no task may be left
                # waiting.
                root.finish(Killed())


def _allows_direct_delivery() -> bool:
    """Return False in a simulation whose seed lets every message pass through a mailbox."""
    clock = trio.lowlevel.current_clock()
    return getattr(clock, "allows_direct_delivery", True)


def _raise_unhandled(failure: BaseException | None, gave_up: GaveUp | None) -> None:
    if gave_up is not None:
        if failure is None or _is_cancellation(failure):
            raise gave_up
        raise BaseExceptionGroup("the block failed, and an actor was given up", [failure, gave_up])
    if failure is not None:
        raise failure


def _is_ctrl_c(error: BaseException | None) -> bool:
    """Return True for a KeyboardInterrupt, also inside an exception group."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _is_cancellation(error: BaseException) -> bool:
    """Return True for trio's Cancelled, and for an exception group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
