"""A fake user who decides permission requests, and a helper for refusals."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio

from supervisor.drivers.acp.permissions import PermissionAnswer, PermissionQuestion
from supervisor.json_rpc.rpc_messages import RpcError


class FakeUser:
    """A user who rejects unless `answer` is set; `asked` has the questions."""

    def __init__(self) -> None:
        self.answer: PermissionAnswer = "reject_once"
        self.asked: list[PermissionQuestion] = []
        self.decides = trio.Event()
        self.decides.set()

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        await self.decides.wait()
        return self.answer


async def refusal(of: Awaitable[object]) -> RpcError:
    """Return the error that the request is refused with."""
    with pytest.raises(RpcError) as caught:
        await of
    return caught.value
