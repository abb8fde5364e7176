"""A request whose caller also waits for the result of its input, and is woken once for both."""

from __future__ import annotations

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from actors import OpenAsk, Ref
from supervisor.core.receipts import Receipt
from supervisor.core.step import Accepted, Reply
from supervisor.store.pending import WriteThrottle

from .idempotency import SessionRequest
from .subscribers import PendingResult


class PromptAsk(OpenAsk):
    """A request with the pending result of its input.

    `ticket` is its place at the throttle, which the reply releases; after an error the sender does.
    """

    __slots__ = ("_answered", "_error", "_pending", "_reply", "_throttle", "_ticket", "is_accepted")

    def __init__(
        self,
        request: SessionRequest,
        pending: PendingResult,
        throttle: WriteThrottle,
        ticket: int | None,
    ) -> None:
        super().__init__(request)
        self._pending = pending
        self._throttle = throttle
        self._ticket = ticket
        # Invariant: at most one of the two is set, when the request is answered.
        self._reply: Reply | None = None
        self._error: BaseException | None = None
        # True if the reply accepts the input itself, and not an earlier one with the same key.
        self.is_accepted = False
        # Exists while the caller waits only for the reply.
        self._answered: trio.Event | None = None

    async def send(self, ref: Ref) -> Reply:
        """Send the request; return the reply once the result is known too, or there will be none.

        Raise as `Ref.ask` does. If cancelled after it was sent, the request may be carried out.
        """
        await checkpoint_if_cancelled()
        ref.deliver(self)
        if self._is_answered and not self.is_accepted:
            await checkpoint()  # refused at once
        else:
            await self._pending.settled.wait()
        if not self._is_answered:
            # The result came first: the supervisor closes, or the store is degraded.
            self._answered = trio.Event()
            await self._answered.wait()
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return self._reply

    def answer(self, value: Reply) -> None:
        """Receive the reply; wake the caller unless it waits for the result now."""
        self._reply = value
        if self._ticket is not None:
            self._throttle.release(self._ticket)
        receipt = value.value if isinstance(value, Accepted) else None
        if isinstance(receipt, Receipt) and receipt.input_id == self._pending.input_id:
            self.is_accepted = True
        else:
            self._pending.wake()
        if self._answered is not None:
            self._answered.set()

    def fail(self, error: BaseException) -> None:
        """Receive the error of an actor that exited, and wake the caller."""
        self._error = error
        self._pending.wake()
        if self._answered is not None:
            self._answered.set()

    @property
    def _is_answered(self) -> bool:
        return self._reply is not None or self._error is not None
