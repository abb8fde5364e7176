"""What you write: an actor, which handles one message at a time."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from trio.lowlevel import disable_ki_protection

if TYPE_CHECKING:
    from ._ref import Ref
    from ._restart import Exit


class Actor:
    """Derive from it and write `receive`; the other two are there when you need them.

    An instance is one incarnation: after a crash the supervisor makes a new one by calling
    what was given to `start` again, so state that must survive belongs somewhere else. The
    mailbox and the `Ref` do survive.

    The three methods run in one task of the actor's own, one after the other, never two at
    once. While one of them awaits, messages wait too.
    """

    def __init_subclass__(cls) -> None:
        # The runtime around these is protected from Ctrl-C, which would leave it half done; what
        # you write is not, so that a loop which never ends can be interrupted.
        for name in ("on_start", "receive", "on_stop"):
            method = vars(cls).get(name)
            if inspect.isfunction(method):
                disable_ki_protection(method)

    ref: Ref
    """The actor's own reference, there from `on_start` on: give it to whoever should write."""

    async def on_start(self) -> None:
        """Get ready. Whoever starts the actor waits for this, and gets what it raises.

        Cancelled if the starter is cancelled. If it does not succeed, `on_stop` is not called.
        """

    async def receive(self, message: Any) -> Any:
        """Handle one message; for an `Ask`, what you return is the answer (or a `Later` one).

        Raising `StopActor` ends the actor normally. Raising any other `Exception` is a crash:
        the message in hand fails with it, the rest of the mailbox waits for the next
        incarnation. What is no `Exception` (`SystemExit`, `KeyboardInterrupt`) is meant for
        the whole program, and ends it.
        When the actor's time to stop is over this is cancelled, and the message in hand
        fails with `ActorStopped`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no receive()")

    async def on_stop(self, reason: Exit) -> None:
        """Clean up; called exactly once for every `on_start` that succeeded.

        `reason` is how this incarnation ended: `Stopped` also when only a restart of its
        group asked it to. It shares `shutdown_seconds` with the message in hand; after an end
        of the actor's own it has them to itself (five, where they are 0). When that time is
        over it runs, or goes on, in a cancelled scope: what is synchronous still gets done,
        the first checkpoint raises `trio.Cancelled`.
        """
