"""One call of a hook: in its own task, with a deadline.

Rule 1: the caller waits until the hook's deadline at most, and returns at once if cancelled. The
        task of the call is then cancelled, and listed as a zombie until it has ended.
Rule 2: an exception of a callback fails only that call.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import Final

import trio
from trio.lowlevel import enable_ki_protection

from supervisor.core.ids import TurnId
from supervisor.core.text import describe_error
from supervisor.drivers.runtime import DriverRuntime

from .hook import Hook, HookEvent, HookFailed

# A hook may do things that call further hooks; at this depth the call is refused.
MAX_NESTING: Final = 4
# A hook with this number of zombie calls is not called again until one of them has ended.
MAX_ZOMBIES: Final = 10

_CLOSED: Final = "the supervisor is closed"


class HookLevel:
    """A running hook and the hooks that led to its call.

    `path` has the names of these hooks, the outermost first and the running one last. A task
    started by a hook inherits the level and may outlive the hook, as a session does; then the next
    outer level counts.
    """

    __slots__ = ("is_over", "outer", "path")

    def __init__(self, path: tuple[str, ...], outer: HookLevel | None) -> None:
        self.path = path
        self.outer = outer
        self.is_over = False


# The hook in which the current code runs; None outside of hooks.
LEVEL: Final[ContextVar[HookLevel | None]] = ContextVar("LEVEL", default=None)


def _current_level() -> HookLevel | None:
    level = LEVEL.get()
    while level is not None and level.is_over:
        level = level.outer
    return level


def hook_path() -> tuple[str, ...]:
    """Return the names of the running hooks that led to this code, the outermost first."""
    level = _current_level()
    return () if level is None else level.path


class HookRun:
    """One call of a claimed hook."""

    __slots__ = (
        "_answer",
        "_ended",
        "_event",
        "_failure",
        "_hook",
        "_is_abandoned",
        "_level",
        "_number",
        "_runtime",
        "_scope",
        "_zombie",
    )

    def __init__(
        self, hook: Hook, event: HookEvent, runtime: DriverRuntime, *, above: tuple[str, ...]
    ) -> None:
        self._hook = hook
        self._event = event
        self._runtime = runtime
        self._level = HookLevel((*above, hook.name), _current_level())
        self._scope: trio.CancelScope | None = None
        # The number of this call among the calls of the hook; None until the callback is called.
        self._number: int | None = None
        self._is_abandoned = False
        # The id in the zombie list while the call is listed there.
        self._zombie: TurnId | None = None
        self._answer: object = None
        self._failure: BaseException | None = None
        self._ended = trio.Event()

    async def answer(self) -> object:
        """Call the hook and return its answer.

        Raise HookFailed if the callback raises or is too late. On cancellation or at the deadline
        the call is abandoned and its task cancelled.
        """
        hook = self._hook
        obstacle = self._obstacle()
        if obstacle is not None:
            hook.release()
            raise HookFailed(obstacle)
        self._runtime.start_soon(self._run, name=f"hook {hook.name}")
        try:
            with trio.move_on_after(hook.deadline_seconds):
                await self._ended.wait()
        finally:
            if not self._ended.is_set():
                self._abandon()
        if self._is_abandoned:
            raise HookFailed(f"no answer within {hook.deadline_seconds:g} s")
        if self._number is None:
            raise HookFailed(_CLOSED)
        if self._failure is not None:
            raise HookFailed(
                f"raised {describe_error(self._failure)}",
                kind=f"raised {type(self._failure).__name__}",
            )
        return self._answer

    def _obstacle(self) -> str | None:
        if self._runtime.is_closed:
            return _CLOSED
        if self._hook.zombies >= MAX_ZOMBIES:
            return f"{self._hook.zombies} earlier calls have not ended"
        return None

    def _abandon(self) -> None:
        """Cancel a call whose caller has stopped waiting, and list its task as a zombie."""
        self._is_abandoned = True
        if self._number is None:
            self._hook.release()
            return
        assert self._scope is not None
        self._scope.cancel(reason="the caller no longer waits for the hook")
        self._hook.zombies += 1
        self._zombie = TurnId(f"hook_{self._hook.number}_{self._number}")
        owner = f"hook {self._hook.name} of {self._hook.point}"
        self._runtime.add_zombie(self._zombie, owner)

    # Ctrl-C is for the main task of the program, so it is not raised here.
    @enable_ki_protection
    async def _run(self) -> None:
        try:
            # The callback has its own task and nursery: a callback that leaves a nursery open
            # breaks its task, and trio raises that in the surrounding nursery, so only in `cell`.
            async with trio.open_nursery() as cell:
                self._scope = cell.cancel_scope
                cell.start_soon(self._call, name=self._hook.name)
        except BaseException as error:  # noqa: BLE001 - also Cancelled, when the runtime closes
            self._failure = self._failure if self._failure is not None else error
        finally:
            self._level.is_over = True
            self._ended.set()
            if self._zombie is not None:
                self._hook.zombies -= 1
                self._runtime.remove_zombie(self._zombie)

    @enable_ki_protection
    async def _call(self) -> None:
        if self._is_abandoned or self._runtime.is_closed:
            return
        self._number = self._hook.begin()
        LEVEL.set(self._level)
        try:
            answer: object = self._hook.callback(self._event)
            if inspect.isawaitable(answer):
                answer = await answer
            self._answer = answer
        except BaseException as error:  # noqa: BLE001 - any failure is contained in this call
            # Also Cancelled, because this task does nothing after it. If it reached the nursery, a
            # group of groups could be nested deeper than trio can handle.
            self._failure = error
