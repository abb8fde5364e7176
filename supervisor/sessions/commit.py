"""Commit of a write from outside a session actor."""

from __future__ import annotations

import math

from supervisor.store.chunks import needs_chunks
from supervisor.store.pending import PendingWrite
from supervisor.store.port import Write
from supervisor.store.writer import Commit, InsertChunked

from .refusals import no_reply, store_degraded
from .services import Services


async def commit_write(services: Services, write: Write) -> None:
    """Make the write durable; raise the refusal, or an error if the outcome is unknown."""
    try:
        message = InsertChunked(write) if needs_chunks(write) else Commit(write)
        refusal = await services.writer.ask(message, timeout_seconds=math.inf)
    except Exception as error:
        # The outcome is unknown: the write may be durable although the writer failed.
        stored = await services.store.read(write.session_id)
        if stored is None:
            raise no_reply(write.session_id, error) from error
        return
    if isinstance(refusal, PendingWrite):
        refusal = store_degraded(services.health) if refusal.withdraw() else await refusal.wait()
    if refusal is not None:
        raise refusal
