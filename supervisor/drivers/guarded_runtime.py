"""The shared runtime as one driver sees it: a failed task is a failure of that driver only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVarTuple

import trio

from .runtime import DriverRuntime

Args = TypeVarTuple("Args")

# Not failures of a driver: the end of the supervisor, and Ctrl-C.
PASSED_ON: Final = (trio.Cancelled, KeyboardInterrupt)


class GuardedRuntime(DriverRuntime):
    """View of the shared runtime for one driver, which may be of another author.

    `on_failure` is called with the exception of a task that the driver has started. Everything else
    is that of the shared runtime.
    """

    def __init__(self, shared: DriverRuntime, on_failure: Callable[[BaseException], None]) -> None:
        # Not super().__init__: the attributes are those of the shared runtime.
        self._shared = shared
        self._on_failure = on_failure

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(self._shared, name)

    def start_soon(
        self, work: Callable[[*Args], Awaitable[object]], *args: *Args, name: str | None = None
    ) -> None:
        """Run a function in a task of its own; do nothing if the runtime is closed."""

        async def run() -> None:
            try:
                await work(*args)
            except BaseException as error:  # noqa: BLE001 - a driver may raise anything
                passed_on, failure = split_failure(error)
                if failure is not None:
                    self._on_failure(failure)
                if passed_on is not None:
                    raise passed_on from None

        self._shared.start_soon(run, name=name or getattr(work, "__qualname__", None))


def split_failure(
    error: BaseException,
) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of an exception that is passed on, and the part that is a failure."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(PASSED_ON)
    return (error, None) if isinstance(error, PASSED_ON) else (None, error)


def refuse_awaitable(result: object) -> None:
    """Raise TypeError if a method of a driver returned an awaitable, which nothing would await."""
    if result is None or not isinstance(result, Awaitable):
        return
    if isinstance(result, Coroutine):
        result.close()  # otherwise Python warns that it was never awaited
    kind = type(result).__name__
    raise TypeError(f"a method returned a {kind}; the methods of a driver are not async")
