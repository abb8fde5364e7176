"""What an agent holds of one below it: enough to lead it, and nothing to get out of its tree by."""

from __future__ import annotations

from typing import Any

from supervisor.core.ids import SessionId
from supervisor.core.info import Info
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.drivers.port import Turn
from supervisor.sessions.shell.results import TurnResult

from .handle import Session
from .shapes import Scope


class Child:
    """A session below the agent's own; see `Session` for what the methods do.

    Good for the turn that it was given in: after that every method raises `TurnOver`, and the next
    turn finds it by `turn.descendant(id)`.
    """

    __slots__ = ("_handle", "_turn")

    def __init__(self, handle: Session, turn: Turn) -> None:
        self._handle = handle
        self._turn = turn

    @property
    def _session(self) -> Session:
        self._turn.refuse_if_over()
        return self._handle

    def __repr__(self) -> str:
        return f"<Child {self.id}>"

    @property
    def id(self) -> SessionId:
        """Which it is."""
        return self._handle.id

    async def wait(self) -> TurnResult:
        """The result of the text that it was spawned with."""
        return await self._session.wait()

    async def send(self, text: str, **options: Any) -> Receipt:  # noqa: ANN401 - see Session.send
        """Give it another input; options are those of `Session.send`."""
        return await self._session.send(text, **options)

    async def prompt(self, text: str, **options: Any) -> TurnResult:  # noqa: ANN401
        """Give it another input, and wait for what comes of it."""
        return await self._session.prompt(text, **options)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for what comes of an input that it was given."""
        return await self._session.result(input_id)

    async def steer(self, text: str) -> Receipt:
        """Guidance for what it is doing."""
        return await self._session.steer(text)

    async def interrupt(
        self, scope: Scope = "turn", *, reason: str | None = None
    ) -> InterruptReport:
        """Interrupt what it is doing; `tree` for all below it too."""
        return await self._session.interrupt(scope, reason=reason)

    async def stop(self) -> None:
        """Stop it, and all that live with it."""
        await self._session.stop()

    async def info(self) -> Info:
        """How it is."""
        return await self._session.info()
