"""The handle of an agent on a descendant session; sessions outside the subtree are refused."""

from __future__ import annotations

from typing import Unpack

from supervisor.core.creation import PromptOptions, SendOptions
from supervisor.core.ids import SessionId
from supervisor.core.info import Info
from supervisor.core.receipts import InterruptReport, Receipt, TurnResult
from supervisor.core.scopes import Scope
from supervisor.drivers.port import TurnHandle

from .session import Session


class Child:
    """A handle on a descendant of the agent's session; the methods are those of `Session`.

    It is valid in the turn that got it. After that turn every method raises `TurnOver`; the next
    turn gets a new handle by `turn.descendant(id)`.
    """

    __slots__ = ("_turn", "_unchecked_session")

    def __init__(self, handle: Session, turn: TurnHandle) -> None:
        self._unchecked_session = handle
        self._turn = turn

    @property
    def _session(self) -> Session:
        self._turn.raise_if_over()
        return self._unchecked_session

    def __repr__(self) -> str:
        return f"<Child {self.id}>"

    @property
    def id(self) -> SessionId:
        """The id of the descendant."""
        return self._unchecked_session.id

    async def wait(self) -> TurnResult:
        """Wait for the turn that runs the child's first input; return its result.

        Raise as `Session.wait` does. Cancelling the call changes nothing.
        """
        return await self._session.wait()

    async def send(self, text: str, **options: Unpack[SendOptions]) -> Receipt:
        """Send another input; return its receipt when the input is durable.

        The options, the errors and the effect of cancellation are those of `Session.send`.
        """
        return await self._session.send(text, **options)

    async def prompt(self, text: str, **options: Unpack[PromptOptions]) -> TurnResult:
        """Send another input and wait for its turn; return the result of that turn.

        The options, the errors and the effect of cancellation are those of `Session.prompt`.
        """
        return await self._session.prompt(text, **options)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the turn of an input and return its result; raise as `Session.result` does."""
        return await self._session.result(input_id)

    async def steer(self, text: str) -> Receipt:
        """Steer the running turn; return the receipt. Raise `NotRunning` if no turn runs."""
        return await self._session.steer(text)

    async def interrupt(
        self, scope: Scope = "turn", *, reason: str | None = None
    ) -> InterruptReport:
        """Interrupt the scope; return a report when it has ended or the ladder is exhausted.

        The scope `tree` includes all descendants of the child. Cancelling the call does not undo
        the interrupt.
        """
        return await self._session.interrupt(scope, reason=reason)

    async def stop(self) -> None:
        """Stop the child and its `with_parent` descendants; return when they have stopped.

        Cancelling the call does not undo the stop.
        """
        await self._session.stop()

    async def info(self) -> Info:
        """Return a frozen snapshot of the child."""
        return await self._session.info()
