"""What we send to the client: updates, and questions that it answers.

Rule 1: updates are queued in order, and so is the answer to a request that is returned after them.
Rule 2: a sender waits while the client does not read, so nothing is kept for it without bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from supervisor.json_rpc.rpc_connection import RpcConnection
from supervisor.json_rpc.rpc_messages import Unsendable

from .client_offers import ClientOffers
from .tool_cards import Update


class ClientLink:
    """The client of one connection; `offers` is what it has said in `initialize`."""

    def __init__(self, connection: RpcConnection) -> None:
        self._connection = connection
        self.offers = ClientOffers()

    async def update(
        self, session_id: str, update: Update, trace: Mapping[str, str] | None = None
    ) -> None:
        """Send one update of a session; raise `ConnectionLost` if the client has gone."""
        params: dict[str, Any] = {"sessionId": session_id, "update": update}
        if trace:
            params["_meta"] = dict(trace)
        try:
            await self._connection.queue_notification("session/update", params)
        except Unsendable:
            return  # a stored value that JSON cannot express

    async def ask(self, method: str, params: Mapping[str, Any]) -> object:
        """Send a request and wait for its answer; a cancelled wait cancels the request too.

        Raise `RpcError` if the client refuses, and `ConnectionLost` if it has gone.
        """
        answer: object = await self._connection.call(
            method, params, timeout_seconds=math.inf, on_abandon="tell"
        )
        return answer
