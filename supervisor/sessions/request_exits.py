"""Incarnations of a session that exit while a request waits for their reply."""

from __future__ import annotations

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core.errors import QueueFull


class RequestExits:
    """Incarnations of a session that exited during one request, before they replied."""

    def __init__(self) -> None:
        self.count = 0
        # Whether one of them may have carried the request out.
        self.may_be_done = False
        # The last ref, if it takes no more messages.
        self.stopped: Ref | None = None
        self.problem: Exception | None = None

    def add(self, ref: Ref, problem: Exception) -> None:
        """Count an exit; raise QueueFull if the request was only refused."""
        if isinstance(problem, MailboxFull):
            raise QueueFull(
                f"the mailbox of session {ref.name} is full ({problem.capacity} messages)",
                hint="try again in a moment",
            ) from None
        self.problem = problem
        if not isinstance(problem, ActorStopped) or problem.was_in_hand:
            self.may_be_done = True
            self.count += 1
        # After a crash the same ref is restarted; after an exit, another actor is started.
        is_stopped = ref.statistics().state in ("stopping", "stopped")
        self.stopped = ref if is_stopped else None
