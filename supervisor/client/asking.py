"""One question over HTTP, and its answer: all that a line wants of what carries it.

Two can do it: `pool`, for programs, keeps connections open with httpx; `Caller`, for commands,
opens one for each question with what streams are read with, and has nothing more to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

import attrs

from .address import Address
from .stream import Stream, dial

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen
class Question:
    """What is asked: `target` is the path with its query."""

    method: Method
    target: str
    headers: Mapping[str, str]
    content: bytes | None = None


class Answer(NamedTuple):
    """What was answered."""

    status: int
    content: bytes


class Asker(Protocol):
    """Whoever can ask. How long an answer may take is for whoever wants it to say."""

    async def ask(self, question: Question) -> Answer:
        """Ask; raises `Unreachable` or `Crowded` before anything was asked, `Broken` after."""


class Caller:
    """Asks each question over a connection of its own."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def ask(self, question: Question) -> Answer:
        """See `Asker`."""
        stream = Stream(await dial(self._address), self._address.host)
        try:
            headers = {**self._address.headers, **question.headers, "connection": "close"}
            await stream.ask(question.method, question.target, headers, question.content)
            return Answer(stream.status, await stream.whole())
        finally:
            stream.close()
