"""A step between its decision and the answer to its commit."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeAlias

from actors import Pause
from supervisor.core.events import Event
from supervisor.core.step import Step
from supervisor.store.port import Write
from supervisor.store.writer_messages import QueuedWrite, WriteResult

from .driver_context import DriverReport

# The result of the write, or the error if the writer has ended and the outcome is unknown.
OnWritten: TypeAlias = Callable[["OpenStep", WriteResult | Exception], None]


class OpenStep(Pause[Any], QueuedWrite):
    """A decided step with its write; the pause of the actor for its commit."""

    __slots__ = (
        "_context",
        "_on_written",
        "event",
        "has_caller",
        "last_seq",
        "report",
        "step",
        "write",
    )

    def __init__(
        self,
        event: Event,
        step: Step,
        write: Write,
        last_seq: int,
        *,
        on_written: OnWritten,
        context: Context,
        has_caller: bool,
    ) -> None:
        super().__init__()
        self.event = event
        self.step = step
        self.write = write
        self.last_seq = last_seq  # of the step's records
        # With a caller that waits for the reply, the request can be refused while the store is
        # degraded.
        self.has_caller = has_caller
        # The driver's report that led to the step; its output is released after the commit.
        self.report: DriverReport | None = None
        self._on_written = on_written
        # Of the actor's task: tasks that the effects start inherit it, and with it how deep hooks
        # are nested.
        self._context = context

    def written(self, result: WriteResult) -> None:
        """Finish the step, unless the incarnation that decided it has ended."""
        self._context.run(self._on_written, self, result)

    def lost(self, error: Exception) -> None:
        """End the incarnation, because the outcome of the commit is unknown."""
        self._context.run(self._on_written, self, error)
