"""The tools `inbox` and `answer`: requests of the sessions below, for a parent with that right."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from supervisor.core.errors import ConfigError
from supervisor.mcp_server.inboxes import check_decision, find_request
from supervisor.mcp_server.session_tool import (
    MAX_TEXT_CHARS,
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
)

_MAX_SHOWN: Final = 100


@attrs.frozen(kw_only=True)
class InboxArguments:
    """The arguments of `inbox`: none."""


@attrs.frozen(kw_only=True)
class PendingRequest:
    """A request that waits for an answer."""

    request: str = described("its id, for answer")
    session: str
    asks: str = described("permission or question")
    tool: str
    question: str
    input: str | None = described("the arguments of the tool, as JSON", None)
    options: tuple[str, ...] = described("decisions that it offers, or answers that it suggests")
    asked_at: float = described("seconds since 1970")


@attrs.frozen(kw_only=True)
class InboxAnswer:
    """The requests, the oldest first."""

    requests: tuple[PendingRequest, ...] = described("at most 100")
    more: int | None = described("how many more wait", None)


async def _list(context: ToolContext, _: InboxArguments) -> Answered:
    pending = await context.inbox.pending()
    shown = tuple(
        PendingRequest(
            request=one.id,
            session=one.session_id,
            asks=one.asks,
            tool=one.tool,
            question=clip(one.question),
            input=None if one.input is None else _input_text(one.input),
            options=(*one.options, *one.choices),
            asked_at=one.asked_at,
        )
        for one in pending[:_MAX_SHOWN]
    )
    answer = InboxAnswer(requests=shown, more=len(pending) - len(shown) or None)
    lines = [f"{one.request} of {one.session}: {one.tool}: {one.question}" for one in shown]
    return answer, "\n".join(lines) or "no request waits"


def _input_text(given: Any) -> str:  # noqa: ANN401 - JSON data
    return clip(json.dumps(given, ensure_ascii=False, default=str), MAX_TEXT_CHARS)


@attrs.frozen(kw_only=True)
class AnswerArguments:
    """The arguments of `answer`: a decision on a permission request, or a text on a question."""

    request: str = described("the id of the request")
    decision: str = described(
        "of a permission request: allow_once, allow_always, reject_once or reject_always; of a"
        " question: the answer, as a text"
    )


@attrs.frozen(kw_only=True)
class AnswerAnswer:
    """The answer that was recorded."""

    request: str = described("its id")
    session: str = described("the session that asked")
    decision: str = described("what was recorded")


async def _answer(context: ToolContext, given: AnswerArguments) -> Answered:
    request = find_request(await context.inbox.pending(), given.request)
    context.target = request.session_id
    if request.asks == "question":
        if not given.decision.strip():
            raise ConfigError("decision is blank", hint="give the answer as a text")
        await context.inbox.answer_question(request, given.decision)
    else:
        await context.inbox.answer(request, check_decision(request, given.decision))
    answer = AnswerAnswer(request=request.id, session=request.session_id, decision=given.decision)
    return answer, f"{request.id}: {clip(given.decision)}"


INBOX: Final = SessionTool(
    name="inbox",
    title="List requests",
    description=(
        "List the permission requests and questions of the sessions below yours that wait for an"
        " answer, the oldest first. Answer them with answer."
    ),
    arguments=InboxArguments,
    answer=InboxAnswer,
    run=_list,
    is_read_only=True,
    needs_answering=True,
)
ANSWER: Final = SessionTool(
    name="answer",
    title="Answer a request",
    description=(
        "Answer a permission request or a question of a session below yours. You can allow only"
        " what you may do yourself without asking. The first answer counts."
    ),
    arguments=AnswerArguments,
    answer=AnswerAnswer,
    run=_answer,
    is_destructive=True,
    needs_answering=True,
)
