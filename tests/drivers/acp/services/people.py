"""Whoever decides, played by a test; and an agent's refusals in short."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio

from supervisor.drivers.acp.rpc.messages import RpcError
from supervisor.drivers.acp.services.asking import Answer, Question


class Person:
    """Says no unless told otherwise; `asked` is what was asked."""

    def __init__(self) -> None:
        self.answer: Answer = "reject_once"
        self.asked: list[Question] = []
        self.decides = trio.Event()
        self.decides.set()

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        await self.decides.wait()
        return self.answer


async def refusal(of: Awaitable[object]) -> RpcError:
    """The error that it is refused with."""
    with pytest.raises(RpcError) as caught:
        await of
    return caught.value
