"""One call of a hook: by a task of its own, for so long and no longer.

Rule 1: whoever waits for a hook waits until its deadline at most, and leaves at once if cancelled.
        The task is then asked to end; if it will not, it is listed as a zombie until it does.
Rule 2: whatever a callback raises is its own failure, and nobody else's.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import Final

import trio
from trio.lowlevel import enable_ki_protection

from supervisor.core.ids import TurnId
from supervisor.drivers.port import Workshop
from supervisor.drivers.python import shown_error

from .hook import Hook, HookEvent, HookFailed

# A hook may do what leads to hooks, and those may too. That ends here.
MAX_NESTING: Final = 4
# A hook that has so many runs which will not end is not called again before one of them does.
MAX_ZOMBIES: Final = 10

_LEFT: Final = "the supervisor has left"


class Level:
    """A hook that is being run, and by the doing of which others.

    `path` has their names, the outermost first and its own last. Whoever is started by a hook has
    its level, and may outlive it by far (a session does): then the next one around it counts.
    """

    __slots__ = ("is_over", "outer", "path")

    def __init__(self, path: tuple[str, ...], outer: Level | None) -> None:
        self.path = path
        self.outer = outer
        self.is_over = False


# In which hook the code that runs now is; None outside of hooks.
LEVEL: Final[ContextVar[Level | None]] = ContextVar("LEVEL", default=None)


def _level() -> Level | None:
    level = LEVEL.get()
    while level is not None and level.is_over:
        level = level.outer
    return level


def path_of_hooks() -> tuple[str, ...]:
    """The names of the hooks by whose doing this happens, the outermost first."""
    level = _level()
    return () if level is None else level.path


class Run:
    """One call, for a hook that was claimed."""

    __slots__ = (
        "_answer",
        "_ended",
        "_event",
        "_failure",
        "_hook",
        "_is_abandoned",
        "_level",
        "_number",
        "_scope",
        "_workshop",
        "_zombie",
    )

    def __init__(
        self, hook: Hook, event: HookEvent, workshop: Workshop, *, above: tuple[str, ...]
    ) -> None:
        self._hook = hook
        self._event = event
        self._workshop = workshop
        self._level = Level((*above, hook.name), _level())
        self._scope: trio.CancelScope | None = None
        # Of all calls of the hook; None until it is called.
        self._number: int | None = None
        self._is_abandoned = False
        # Under which name it is listed, if it is.
        self._zombie: TurnId | None = None
        self._answer: object = None
        self._failure: BaseException | None = None
        self._ended = trio.Event()

    async def answer(self) -> object:
        """What the callback answers, or `HookFailed`."""
        hook = self._hook
        obstacle = self._obstacle()
        if obstacle is not None:
            hook.release()
            raise HookFailed(obstacle)
        self._workshop.start_soon(self._run, name=f"hook {hook.name}")
        try:
            with trio.move_on_after(hook.deadline_seconds):
                await self._ended.wait()
        finally:
            if not self._ended.is_set():
                self._abandon()
        if self._is_abandoned:
            raise HookFailed(f"it did not answer within {hook.deadline_seconds:g} s")
        if self._number is None:
            raise HookFailed(_LEFT)
        if self._failure is not None:
            raise HookFailed(f"it raised {shown_error(self._failure)}")
        return self._answer

    def _obstacle(self) -> str | None:
        if self._workshop.is_closed:
            return _LEFT
        if self._hook.zombies >= MAX_ZOMBIES:
            return f"{self._hook.zombies} of its runs will not end"
        return None

    def _abandon(self) -> None:
        """Nobody waits for it any more."""
        self._is_abandoned = True
        if self._number is None:
            self._hook.release()
            return
        assert self._scope is not None
        self._scope.cancel(reason="nobody waits for the hook any more")
        self._hook.zombies += 1
        self._zombie = TurnId(f"hook_{self._hook.number}_{self._number}")
        self._workshop.zombies[self._zombie] = f"hook {self._hook.name} of {self._hook.point}"

    # Ctrl-C is meant for the program, and waits for its main task.
    @enable_ki_protection
    async def _run(self) -> None:
        try:
            # In a task of its own: a callback that leaves a nursery open ruins the task it runs
            # in, and trio tells the nursery around that. Only this one.
            async with trio.open_nursery() as cell:
                self._scope = cell.cancel_scope
                cell.start_soon(self._call, name=self._hook.name)
        except BaseException as error:  # noqa: BLE001 - also a Cancelled, when the workshop closes
            self._failure = self._failure if self._failure is not None else error
        finally:
            self._level.is_over = True
            self._ended.set()
            if self._zombie is not None:
                self._hook.zombies -= 1
                self._workshop.zombies.pop(self._zombie, None)

    @enable_ki_protection
    async def _call(self) -> None:
        if self._is_abandoned or self._workshop.is_closed:
            return
        self._number = self._hook.begin()
        LEVEL.set(self._level)
        try:
            answer: object = self._hook.callback(self._event)
            if inspect.isawaitable(answer):
                answer = await answer
            self._answer = answer
        except BaseException as error:  # noqa: BLE001 - whatever it is, it goes no further
            # Also a Cancelled: nothing comes after it in this task. Left to the nursery, a group
            # of groups might be deeper than trio can look into.
            self._failure = error
