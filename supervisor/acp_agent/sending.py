"""Sending an input so that it is accepted once, whatever happens to the daemon meanwhile."""

from __future__ import annotations

import uuid
from typing import Final

import trio

from supervisor.client import AnswerLost, DaemonBusy, NoDaemon, RemoteSession
from supervisor.core.receipts import Receipt
from supervisor.core.session_values import WhenBusy

from .prompt_input import PromptInput

# A daemon that restarts is back in a few seconds.
RETRY_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.2


async def send_surely(
    session: RemoteSession, content: PromptInput, *, when_busy: WhenBusy
) -> Receipt:
    """Send an input and return its receipt; repeat the request while no daemon answers.

    The key makes a repeated request the same one. Raise the errors of `RemoteSession.send`.
    """
    key = uuid.uuid4().hex
    deadline = trio.current_time() + RETRY_SECONDS
    while True:
        try:
            return await session.send(
                content.text,
                attachments=content.attachments,
                when_busy=when_busy,
                idempotency_key=key,
                trace=content.trace or None,
            )
        except (AnswerLost, DaemonBusy, NoDaemon):
            if trio.current_time() > deadline:
                raise
            await trio.sleep(_PAUSE_SECONDS)
