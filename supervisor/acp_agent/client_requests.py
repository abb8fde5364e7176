"""Permission requests and questions that the client is asked; the first answer wins.

Rule 1: a request is asked once in a connection. When it is answered elsewhere, or its turn is
        over, the client's request is cancelled.
Rule 2: a request that the client cannot or does not answer stays in the inbox.
"""

from __future__ import annotations

import logging
from typing import Final

import attrs
import trio

from supervisor.client import RemoteSupervisor
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import RequestId
from supervisor.core.log_content import error_content
from supervisor.core.scopes import TurnScope
from supervisor.core.session_values import Decision
from supervisor.json_rpc.rpc_messages import RpcError
from supervisor.json_rpc.rpc_outbox import ConnectionLost
from supervisor.sessions.inbox import PermissionRequest

from .client_link import ClientLink
from .notices import notice
from .permission_form import (
    ClientAnswer,
    QuestionAnswer,
    form_params,
    permission_params,
    read_form,
    read_permission,
)
from .tool_cards import Update

logger = logging.getLogger("supervisor")

_ANSWER_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True)
class Question:
    """A request, and where it is shown: a session that the client knows, and a tool call in it.

    `card` is that tool call, if it is made for the request.
    """

    request: PermissionRequest
    session_id: str
    call_id: str
    asker: str | None = None
    card: Update | None = None


class Questions:
    """The requests that the client of one connection is asked."""

    def __init__(self, sup: RemoteSupervisor, link: ClientLink, nursery: trio.Nursery) -> None:
        self._sup = sup
        self._link = link
        self._nursery = nursery
        self._asked: dict[RequestId, trio.CancelScope] = {}
        # Requests that have a card of their own, until they are closed.
        self._carded: dict[RequestId, str] = {}

    def ask(self, question: Question) -> bool:
        """Ask the client, unless it was asked; return True if it is asked now."""
        if question.request.id in self._asked:
            return False
        self._asked[question.request.id] = trio.CancelScope()
        self._nursery.start_soon(self._ask, question)
        return True

    def close(self, request_id: RequestId) -> str | None:
        """Cancel the request to the client: it was answered, or its turn is over.

        Return the session in which the client has a card for it, None without one.
        """
        scope = self._asked.get(request_id)
        if scope is not None:
            scope.cancel(reason="the request is answered")
        return self._carded.pop(request_id, None)

    async def _ask(self, question: Question) -> None:
        request = question.request
        try:
            with self._asked[request.id]:
                pending = await self._show(question)
                if pending is not None:
                    question = attrs.evolve(question, request=pending)
                    await self._decide(question, await self._answer_of(question))
        except (ConnectionLost, SupervisorError):
            return  # it stays in the inbox
        except RpcError as error:
            await self._say_unanswered(question, error)
        finally:
            del self._asked[request.id]

    async def _show(self, question: Question) -> PermissionRequest | None:
        """Show the card of a request, and return it; None if it is not pending any more."""
        request_id = question.request.id
        pending = await self._sup.permissions()
        request = next((one for one in pending if one.id == request_id), None)
        if request is not None and question.card is not None:
            self._carded[request_id] = question.session_id
            await self._link.update(question.session_id, question.card)
        return request

    async def _answer_of(self, question: Question) -> ClientAnswer:
        request, session_id = question.request, question.session_id
        if request.asks == "question" and self._link.offers.forms:
            params = form_params(request, session_id=session_id, asker=question.asker)
            return read_form(await self._link.ask("elicitation/create", params))
        if request.asks == "question" and not request.choices:
            return "dismissed"  # a request for permission takes no text
        params = permission_params(
            request, session_id=session_id, call_id=question.call_id, asker=question.asker
        )
        answer = await self._link.ask("session/request_permission", params)
        return read_permission(answer, request)

    async def _decide(self, question: Question, answer: ClientAnswer) -> None:
        request = question.request
        if answer == "dismissed":
            await self._say_unanswered(question, None)
            return
        try:
            if answer == "cancelled":
                turn = self._sup.session(request.session_id)
                await turn.interrupt(TurnScope(request.turn_id), "the client cancelled a request")
            else:
                await self._send(request.id, answer)
        except SupervisorError as error:
            # Answered elsewhere, or its turn is over.
            logger.debug("an answer of the client came too late: %s", error_content(error))

    async def _send(self, request_id: RequestId, answer: Decision | QuestionAnswer) -> None:
        # Once the client has answered, the answer must arrive.
        with trio.CancelScope(shield=True), trio.move_on_after(_ANSWER_SECONDS):
            if isinstance(answer, QuestionAnswer):
                await self._sup.answer_question(request_id, answer.text)
            else:
                await self._sup.answer(request_id, answer)

    async def _say_unanswered(self, question: Question, error: RpcError | None) -> None:
        if error is not None:
            logger.warning("the client does not answer a request: %s", error_content(error))
        if self._link.offers.notices:
            answer = "TEXT" if question.request.asks == "question" else "yes"
            hint = f"understudy answer {question.request.id} {answer}"
            update = notice("warning", "A request waits in the inbox", hint)
            await self._link.update(question.session_id, update)
