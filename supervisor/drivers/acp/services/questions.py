"""What an agent waits to be allowed: put to its session, and answered once.

Rule 1: every question is answered, also when its turn is interrupted, over or lost: `cancelled`.
Rule 2: when a turn is interrupted the agent hears of that first, and of its questions then. Else it
        would take them for declined, and go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from supervisor.core import events as ev
from supervisor.core.errors import OutputTooLarge
from supervisor.core.ids import RequestId, TurnId
from supervisor.drivers.port import Office

from .asking import Answer, Question


class _Open:
    """A question that nobody has answered yet."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: Answer = "cancelled"


class Questions:
    """Those of one agent.

    `before_asking` waits until it is known which turn they are of, `before_cancelling` until the
    agent was told that its turn is to end.
    """

    def __init__(
        self,
        office: Office,
        *,
        before_asking: Callable[[], Awaitable[None]],
        before_cancelling: Callable[[], Awaitable[None]],
        on_too_much: Callable[[OutputTooLarge], None],
    ) -> None:
        self._office = office
        self._before_asking = before_asking
        self._before_cancelling = before_cancelling
        self._on_too_much = on_too_much
        self._turn: TurnId | None = None
        self._open: dict[RequestId, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin_turn(self, turn: TurnId) -> None:
        """Questions are this turn's from now on."""
        self._turn = turn

    def end_turn(self) -> None:
        """Whatever is still open will not be decided any more."""
        self._turn = None
        for one in self._open.values():
            one.answered.set()

    async def ask(self, question: Question) -> Answer:
        """Have the session decide; waits for as long as that takes, which the session bounds."""
        await self._before_asking()
        turn = self._turn
        if turn is None:
            return "cancelled"
        asked = {"tool": question.tool, "question": question.question, "kind": question.kind}
        try:
            self._office.charge(turn, {**asked, "input": question.input})
        except OutputTooLarge as error:
            self._on_too_much(error)
            return "cancelled"
        request = RequestId(self._office.new_id("req"))
        denied_by = await self._office.before_request(
            turn, request, {**asked, "input": question.input, "options": question.options}
        )
        if self._turn != turn:
            return "cancelled"
        one = self._open[request] = _Open()
        try:
            await self._office.report_soon(
                ev.PermissionAsked(
                    turn=turn,
                    request=request,
                    tool=question.tool,
                    question=question.question,
                    kind=question.kind,
                    inside_workspace=question.inside_workspace,
                    input=question.input,
                    options=question.options,
                    denied_by=denied_by,
                    **self._office.stamp(),
                )
            )
            await one.answered.wait()
            if one.answer == "cancelled":
                await self._before_cancelling()
        finally:
            del self._open[request]
        return one.answer

    def answer(self, request: RequestId, answer: Answer) -> None:
        """Somebody has decided."""
        one = self._open.get(request)
        if one is not None and not one.answered.is_set():
            one.answer = answer
            one.answered.set()
