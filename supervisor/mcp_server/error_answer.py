"""Refusals of tools: answers that tell a model whether to try again.

Rule 1: every refusal is an answer `{code, detail, hint, retry, ...}`, also that of a bug.
Rule 2: no id of a session outside the reach of the caller is in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, Literal, TypeAlias

import attrs

from supervisor.core import errors
from supervisor.core.errors import SupervisorError
from supervisor.core.match import PREFIXES
from supervisor.http_server.problems import ProblemDetails, problem_of, retry_seconds_of

from .tool import ToolAnswer

# `never`: the same call fails again. `later`: it may succeed when something has changed. `after`:
# it may succeed after some seconds.
Retry: TypeAlias = Literal["never", "later", "after"]

# What a change elsewhere may cure: a turn that ends, a child that stops, a budget that is raised.
_LATER: Final = frozenset(
    {
        errors.NotRunning.code,
        errors.SessionNotActive.code,
        errors.AgentStartFailed.code,
        errors.BudgetSpent.code,
        errors.AgentUnknown.code,
    }
)
_SESSION_ID: Final = re.compile(rf"\b{PREFIXES['session']}[0-9a-z]{{6,}}\b")
_OTHER_SESSION: Final = "another session"


class CallRefused(SupervisorError):
    """A caller calls too often, or has too many calls under way."""

    # Each instance has its own.
    code: str  # type: ignore[misc] # a class attribute elsewhere

    def __init__(
        self, code: str, problem: str, *, hint: str, after_seconds: float, limit: str, allowed: int
    ) -> None:
        super().__init__(problem, hint=hint)
        self.code = code
        self.after_seconds = after_seconds
        self.limit = limit
        self.used = allowed
        self.allowed = allowed


@attrs.frozen(kw_only=True)
class ErrorAnswer:
    """The structured content of a refusal; None fields are left out."""

    code: str
    detail: str
    hint: str
    retry: Retry
    after_seconds: float | None = None
    limit: str | None = None
    used: float | None = None
    allowed: float | None = None


def error_answer(error: SupervisorError, *, shown_ids: Collection[str] | None) -> ToolAnswer:
    """Return the answer for an error; ids of sessions other than `shown_ids` are masked.

    With None, none is masked.
    """
    if isinstance(error, CallRefused):
        after: float | None = error.after_seconds
        problem = ProblemDetails(
            type="",
            title="",
            status=0,
            detail=error.args[0],
            code=error.code,
            hint=error.hint,
            limit=error.limit,
            used=error.used,
            allowed=error.allowed,
        )
    else:
        after = retry_seconds_of(error)
        problem = problem_of(error)
    retry: Retry = "later" if problem.code in _LATER else "never"
    return _make_answer(problem, "after" if after is not None else retry, after, shown_ids)


def invalid_arguments_answer(problem: ProblemDetails) -> ToolAnswer:
    """Return the answer for arguments that do not fit the input schema."""
    return _make_answer(problem, "never", None, None)


def internal_error_answer() -> ToolAnswer:
    """Return the answer for a fault of ours, of which nothing is told to the caller."""
    problem = ProblemDetails(
        type="",
        title="",
        status=0,
        detail="the tool failed because of a fault of the supervisor",
        code="internal_error",
        hint="the log of the supervisor says more",
    )
    return _make_answer(problem, "later", None, None)


def _make_answer(
    problem: ProblemDetails,
    retry: Retry,
    after: float | None,
    shown_ids: Collection[str] | None,
) -> ToolAnswer:
    def mask(text: str) -> str:
        return _SESSION_ID.sub(
            lambda found: (
                found[0] if shown_ids is None or found[0] in shown_ids else _OTHER_SESSION
            ),
            text,
        )

    answer = ErrorAnswer(
        code=problem.code,
        detail=mask(problem.detail),
        hint=mask(problem.hint),
        retry=retry,
        after_seconds=after,
        limit=problem.limit,
        used=problem.used,
        allowed=problem.allowed,
    )
    structured: dict[str, Any] = attrs.asdict(answer, filter=lambda _, value: value is not None)
    text = f"{answer.code}: {answer.detail}. {answer.hint[:1].upper()}{answer.hint[1:]}."
    return ToolAnswer(structured=structured, text=text, is_error=True)
