"""Open permission requests of one agent: put to the session, answered exactly once.

Rule 1: every request is answered; `cancelled` when its turn is interrupted, over or lost.
Rule 2: when a turn is interrupted, the agent receives `session/cancel` before the answers to its
        requests. Otherwise it would take them for rejections and continue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from supervisor.core import agent_events
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import RequestId, TurnId
from supervisor.drivers.port import DriverContext

from .permissions import PermissionAnswer, PermissionQuestion


class _PendingQuestion:
    """A request that has no answer yet."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: PermissionAnswer = "cancelled"


class PendingPermissions:
    """Open permission requests of one agent.

    `before_asking` waits until the running turn has its id, `before_cancelling` until the agent
    has received the cancel of its turn.
    """

    def __init__(
        self,
        context: DriverContext,
        *,
        before_asking: Callable[[], Awaitable[None]],
        before_cancelling: Callable[[], Awaitable[None]],
        on_output_too_large: Callable[[OutputTooLarge], None],
    ) -> None:
        self._context = context
        self._before_asking = before_asking
        self._before_cancelling = before_cancelling
        self._on_output_too_large = on_output_too_large
        self._turn: TurnId | None = None
        self._open: dict[RequestId, _PendingQuestion] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin_turn(self, turn: TurnId) -> None:
        """Assign requests to this turn."""
        self._turn = turn

    def end_turn(self) -> None:
        """Answer the open requests with `cancelled`."""
        self._turn = None
        for pending in self._open.values():
            pending.answered.set()

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Report the question and wait for the decision; the session bounds the wait."""
        await self._before_asking()
        turn = self._turn
        if turn is None:
            return "cancelled"
        asked = {"tool": question.tool, "question": question.question, "kind": question.kind}
        try:
            self._context.count_output(turn, {**asked, "input": question.input})
        except OutputTooLarge as error:
            self._on_output_too_large(error)
            return "cancelled"
        request = RequestId(self._context.new_id("req"))
        denied_by = await self._context.before_request(
            turn, request, {**asked, "input": question.input, "options": question.options}
        )
        if self._turn != turn:
            return "cancelled"
        pending = self._open[request] = _PendingQuestion()
        try:
            await self._context.report_when_possible(
                agent_events.PermissionAsked(
                    turn=turn,
                    request=request,
                    tool=question.tool,
                    question=question.question,
                    kind=question.kind,
                    inside_workspace=question.inside_workspace,
                    input=question.input,
                    options=question.options,
                    denied_by=denied_by,
                    **self._context.stamp(),
                )
            )
            await pending.answered.wait()
            if pending.answer == "cancelled":
                await self._before_cancelling()
        finally:
            del self._open[request]
        return pending.answer

    def answer(self, request: RequestId, answer: PermissionAnswer) -> None:
        """Answer an open request; ignore a second answer."""
        pending = self._open.get(request)
        if pending is not None and not pending.answered.is_set():
            pending.answer = answer
            pending.answered.set()
