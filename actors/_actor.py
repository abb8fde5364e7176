"""The base class of actors."""

from __future__ import annotations

import inspect
from typing import Any

from trio.lowlevel import disable_ki_protection

from ._message import NOT_NOW
from ._ref import Ref
from ._restart import Exit


class Actor:
    """Base class of all actors: override `receive`, and `on_start` and `on_stop` if needed.

    An instance is one incarnation. After a crash the supervisor makes a new one by calling the
    `start` callable again, so state that must survive a crash belongs elsewhere. The mailbox
    and the `Ref` survive.

    The three methods run in one task that belongs to the actor, one after the other. While one
    of them awaits, messages wait too. An actor may also have a `receive_now`.
    """

    __slots__ = ("ref",)  # so that a subclass with slots has no dict

    def __init_subclass__(cls) -> None:
        # Ctrl-C is deferred inside the runtime, where it would leave half-done work. It is not
        # deferred in user code, so that an endless loop there can be interrupted.
        for name in ("on_start", "receive", "receive_now", "on_stop"):
            method = vars(cls).get(name)
            if inspect.isfunction(method):
                disable_ki_protection(method)

    ref: Ref
    """The actor's own reference, set before `on_start`."""

    async def on_start(self) -> None:
        """Prepare the incarnation; the starter waits for it and gets an exception that it raises.

        It is cancelled if the starter is cancelled. If it does not succeed, `on_stop` is not
        called.
        """

    async def receive(self, message: Any) -> Any:
        """Handle one message; for an `Ask`, return the answer, a `Later` or a `Pause`.

        Raise `StopActor` to end the actor normally. Any other `Exception` is a crash: the
        message in hand fails with it, and the rest of the mailbox waits for the next
        incarnation. A `BaseException` that is not an `Exception` (`SystemExit`,
        `KeyboardInterrupt`) ends the whole program. When the time to stop is over, this call is
        cancelled and the message in hand fails with `ActorStopped`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no receive()")

    def receive_now(self, message: Any) -> Any:  # noqa: ARG002 - for subclasses
        """Handle a message of `Ref.deliver` in the task of its sender; answer as `receive` does.

        It is called only while the actor waits for messages, and in the context of the actor's
        task. An exception ends the actor as in `receive` and does not reach the sender. Return
        `NOT_NOW`, having changed nothing, for a message that `receive` has to handle.
        """
        return NOT_NOW

    async def on_stop(self, reason: Exit) -> None:
        """Clean up; called exactly once for every `on_start` that succeeded.

        `reason` says how this incarnation ended; it is `Stopped` also if a restart of the group
        ended it. `on_stop` shares `shutdown_seconds` with the message in hand. If the actor ended
        by itself, `on_stop` has all of `shutdown_seconds` (five seconds if that is 0). After that
        time it runs in a cancelled scope: synchronous code still runs, the first checkpoint raises
        `trio.Cancelled`.
        """
