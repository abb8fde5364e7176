"""Requests to a session: their size at the throttle, and incarnations that exit meanwhile."""

from __future__ import annotations

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core import events as ev
from supervisor.core.degraded import reduces_activity
from supervisor.core.errors import QueueFull


def throttled_size(event: ev.Event) -> int | None:
    """Return about how many bytes the event adds to the store; None if it is not throttled."""
    if type(event) is ev.InputSubmitted:
        return event.attachment_bytes + len(event.text)
    if reduces_activity(event):
        return None
    return len(getattr(event, "text", None) or "")


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
