"""The tool `ask`: ask people a question, and wait for the answer."""

from __future__ import annotations

from typing import Final, Literal

import attrs
import trio

from supervisor.core.errors import ConfigError, NotRunning
from supervisor.handles.questions import QuestionEnd, SessionQuestions
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
)

_MAX_WAIT_SECONDS: Final = 50
_MAX_OPTIONS: Final = 20
_MAX_CONCURRENT: Final = 8


@attrs.frozen(kw_only=True)
class AskArguments:
    """The arguments of `ask`: a question, or the request of one that waits."""

    question: str | None = described(
        "the question, with all that a person needs to answer it; not needed with request", None
    )
    options: tuple[str, ...] = described(
        "answers to choose from; any other text may be the answer too", (), maxItems=_MAX_OPTIONS
    )
    seconds: float = described(
        "how long to wait at most", 45.0, minimum=0, maximum=_MAX_WAIT_SECONDS
    )
    request: str | None = described("go on waiting for this question of yours", None)


@attrs.frozen(kw_only=True)
class AskAnswer:
    """The answer of `ask`."""

    state: Literal["answered", "waiting", "cancelled"] = described(
        "cancelled: it timed out, or its turn ended"
    )
    request: str = described("the id of the question: give it as request to go on waiting")
    text: str | None = described("the answer", None)
    by: str | None = described("who ended it: person, parent, timeout or turn", None)


async def _run(context: ToolContext, given: AskArguments) -> Answered:
    own, unread = context.subtree.id, context.unread_questions
    questions = context.sup.tool_access().questions(own)
    request = given.request
    if request is None:
        request = await _put(context, questions, given)
    end: QuestionEnd | None = None
    with trio.move_on_after(given.seconds):
        end = await questions.wait(request)
    if end is None:
        answer = AskAnswer(state="waiting", request=request)
        return answer, f"no answer yet; call ask again with request={request} to go on waiting"
    unread.remove(own, request)
    answer = AskAnswer(state=end.outcome, request=request, text=end.text, by=end.by)
    text = f"cancelled by the {end.by}" if end.text is None else clip(end.text)
    return answer, text


async def _put(context: ToolContext, questions: SessionQuestions, given: AskArguments) -> str:
    """Return the request of the question: a new one, or that of an earlier call with the same."""
    if given.question is None:
        raise ConfigError("question is missing", hint="give question, or the request of one")
    own, unread = context.subtree.id, context.unread_questions
    turn = (await context.subtree.snapshot(own)).state.turn
    if turn is None:
        raise NotRunning(
            f"no turn of session {own} runs", hint="a question belongs to a turn of yours"
        )
    asked = (turn.id, given.question, *given.options)
    known = unread.find(own, asked)
    if known is None:
        known = await questions.ask(given.question, given.options)
        unread.add(own, asked, known)
    return known


TOOL: Final = SessionTool(
    name="ask",
    title="Ask people",
    description=(
        "Ask the people who supervise you a question, and wait for the answer. After state waiting,"
        " call it again with the same question, or with request, to go on waiting. The question"
        " ends with your turn. Not for permissions: those are asked for by themselves."
    ),
    arguments=AskArguments,
    answer=AskAnswer,
    run=_run,
    is_idempotent=True,
    gives_work=True,
    max_concurrent=_MAX_CONCURRENT,
)
