"""Requests to the writer that may be repeated.

Rule 1: only requests with the same effect are repeated: a claim, a deletion, a process entry. A
        commit is not one: its outcome must be read from the store.
"""

from __future__ import annotations

import math
from typing import Final, TypeVar

from actors import Ask, Ref
from supervisor.core.errors import StoreDegraded, SupervisorError

T = TypeVar("T")

MAX_REQUESTS: Final = 5


async def ask_repeatedly(writer: Ref, request: Ask[T]) -> T:
    """Ask the writer, and ask again if it crashed, which a write of any other session may cause.

    Raise the writer's refusal, or StoreDegraded after MAX_REQUESTS crashes.
    """
    problem: Exception | None = None
    for _ in range(MAX_REQUESTS):
        try:
            return await writer.ask(request, timeout_seconds=math.inf)
        except SupervisorError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception of a store, or the writer's end
            problem = error
    raise StoreDegraded(
        f"the store did not answer: {problem}", hint="read the log, then try again"
    ) from problem
