"""Rules for questions: an agent asks people for a text, and waits for it inside its turn.

Rule 1: only an answer decides a question; no mode, no permission rule and no hook does.
Rule 2: it ends as a permission request does: answered, timed out, or cancelled with its turn.
Rule 3: asking again what is open is not another question, so a caller may repeat itself.
"""

from __future__ import annotations

from typing import Final

from supervisor.core.effects import SetRequestTimer
from supervisor.core.errors import (
    InputRefused,
    InvalidDecision,
    NotRunning,
    SupervisorError,
    short_repr,
)
from supervisor.core.events import QuestionAnswered, QuestionAsked
from supervisor.core.state import OpenTurn, SessionState
from supervisor.core.step import Draft

from .permission_requests import close_question, find_request, refuse_answer
from .refusals import refuse_any, text_problem

# What people see as the tool of a question.
QUESTION_TOOL: Final = "ask"
MAX_OPEN_QUESTIONS: Final = 8
MAX_CHOICES: Final = 20
MAX_CHOICE_CHARS: Final = 1_000


def ask_question(draft: Draft, event: QuestionAsked) -> None:
    """Record a question, and reply with its id; of an open one that is the same, with its id."""
    session, turn = draft.state, draft.state.turn
    if turn is None or turn.id != event.turn or turn.step is not None:
        refuse_question(draft, event)
        return
    for one in turn.requests:
        if (one.kind, one.question, one.choices) == ("question", event.question, event.choices):
            draft.accept(one.id)
            return
    if refuse_any(draft, _problem(session, turn, event)):
        return
    seconds = session.terms.permission_timeout_seconds
    draft.note(
        "permission_asked",
        request_id=event.question_id,
        tool=QUESTION_TOOL,
        question=event.question,
        input=None,
        options=[],
        asks="person",
        kind="question",
        choices=list(event.choices),
        **({} if seconds is None else {"expires_at": event.steady_at + seconds}),
    )
    if seconds is not None:
        draft.do(SetRequestTimer(event.question_id, seconds))
    draft.accept(event.question_id)


def _problem(session: SessionState, turn: OpenTurn, event: QuestionAsked) -> SupervisorError | None:
    if len(event.choices) > MAX_CHOICES:
        return InputRefused(
            f"the question has {len(event.choices)} options", hint=f"give at most {MAX_CHOICES}"
        )
    for choice in event.choices:
        if len(choice) > MAX_CHOICE_CHARS:
            return InputRefused(
                f"an option has {len(choice)} characters: {short_repr(choice)}",
                hint=f"an option has at most {MAX_CHOICE_CHARS}: explain them in the question",
            )
    if sum(one.kind == "question" for one in turn.requests) >= MAX_OPEN_QUESTIONS:
        return InputRefused(
            f"{MAX_OPEN_QUESTIONS} questions of session {session.id} wait for an answer",
            hint="wait for one of the answers first",
        )
    texts = (event.question, *event.choices)
    problems = (text_problem(session, text) for text in texts)
    return next((problem for problem in problems if problem is not None), None)


def refuse_question(draft: Draft, event: QuestionAsked) -> None:
    """Refuse a question, because its turn is over or being interrupted."""
    draft.refuse(
        NotRunning(
            f"turn {event.turn} of session {draft.state.id} does not run on",
            hint="a question belongs to a running turn",
        )
    )


def answer_question(draft: Draft, event: QuestionAnswered) -> None:
    """Record the answer."""
    request = find_request(draft.state, event.request)
    if request is None:
        refuse_answer(draft, event)
    elif request.kind != "question":
        draft.refuse(
            InvalidDecision(
                f"request {request.id} asks for permission",
                hint=f"choose one of {', '.join(request.options)}",
            )
        )
    elif not refuse_any(draft, text_problem(draft.state, event.text)):
        close_question(draft, request.id, "answered", by=event.by, text=event.text)
        draft.accept()
