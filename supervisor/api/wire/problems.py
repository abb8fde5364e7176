"""Errors on the wire: `application/problem+json`, with the word and the hint of the error.

Rule 1: one table says which status an error has. Every class of the error tree is in it.
Rule 2: `code` is the error's own, so that a client can raise the same class again.
Rule 3: nothing is shown but the error's own words, with what looks like a secret covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import attrs

from supervisor.core import errors
from supervisor.core.errors import ConfigError, SpawnRefused, SupervisorError
from supervisor.core.redaction import redacted

from .reading import Fault, Unreadable

MEDIA_TYPE: Final = "application/problem+json"

STATUSES: Final[Mapping[type[SupervisorError], int]] = {
    # The caller named something that is not there.
    errors.SessionNotFound: HTTPStatus.NOT_FOUND,
    errors.AgentUnknown: HTTPStatus.NOT_FOUND,
    errors.PermissionNotFound: HTTPStatus.NOT_FOUND,
    errors.RecordNotFound: HTTPStatus.NOT_FOUND,
    # The caller's words cannot be meant.
    errors.InvalidKey: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidDecision: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ConfigError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ImportFailed: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotStorable: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InputTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.OutputTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    # Not now, not in this phase; or someone was there before. A blank text is an InputRefused
    # too, but that is seen at the door, with its path.
    errors.InputRefused: HTTPStatus.CONFLICT,
    errors.SessionNotActive: HTTPStatus.CONFLICT,
    errors.NotRunning: HTTPStatus.CONFLICT,
    errors.TurnOver: HTTPStatus.CONFLICT,
    errors.RepairRefused: HTTPStatus.CONFLICT,
    errors.KeyTaken: HTTPStatus.CONFLICT,
    errors.IdempotencyConflict: HTTPStatus.CONFLICT,
    errors.PermissionConflict: HTTPStatus.CONFLICT,
    errors.Fenced: HTTPStatus.CONFLICT,
    # More than was granted.
    errors.QueueFull: HTTPStatus.TOO_MANY_REQUESTS,
    errors.SpawnRefused: HTTPStatus.TOO_MANY_REQUESTS,
    errors.BudgetSpent: HTTPStatus.TOO_MANY_REQUESTS,
    errors.PermissionDenied: HTTPStatus.FORBIDDEN,
    # Ours, or the agent's.
    errors.StoreDegraded: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreLocked: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreTooNew: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AgentStartFailed: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SupervisorError: HTTPStatus.SERVICE_UNAVAILABLE,
}

# What this surface refuses by itself, before anybody behind it is asked.
REQUEST_STATUSES: Final[Mapping[str, int]] = {
    "bad_http": HTTPStatus.BAD_REQUEST,  # said by the server, before the app
    "bad_json": HTTPStatus.BAD_REQUEST,
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "forbidden_host": HTTPStatus.FORBIDDEN,
    "forbidden_origin": HTTPStatus.FORBIDDEN,
    "forbidden_peer": HTTPStatus.FORBIDDEN,
    "no_such_route": HTTPStatus.NOT_FOUND,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "too_slow": HTTPStatus.REQUEST_TIMEOUT,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "not_json": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "headers_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "not_ready": HTTPStatus.SERVICE_UNAVAILABLE,
    "too_many_connections": HTTPStatus.SERVICE_UNAVAILABLE,  # said by the server, before the app
    "draining": HTTPStatus.SERVICE_UNAVAILABLE,
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
}

LEAVING_RETRY_SECONDS: Final = 5
# Where waiting helps, for how long to begin with.
_RETRY_SECONDS: Final[Mapping[str, int]] = {
    errors.QueueFull.code: 1,
    errors.StoreDegraded.code: 2,
    "not_ready": 1,
    "draining": LEAVING_RETRY_SECONDS,
}
# The limits of which something may become free by itself.
_PASSING_LIMITS: Final = frozenset(
    {
        "max_children",
        "max_descendants",
        "max_sessions",
        "max_running_turns",
        "max_agent_processes",
    }
)


class RequestRefused(SupervisorError):
    """The surface itself refused: by its gate, or because of the request's size or form."""

    # An instance has one of its own: a word of REQUEST_STATUSES.
    code: str  # type: ignore[misc] # elsewhere the class says it all

    def __init__(self, code: str, problem: str, *, hint: str) -> None:
        super().__init__(problem, hint=hint)
        self.code = code


@attrs.frozen(kw_only=True)
class ProblemDetails:
    """An error as it is answered; what is None is left out."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    limit: str | None = None  # of SpawnRefused: what is exhausted
    used: float | None = None
    allowed: float | None = None
    line: int | None = None  # of ImportFailed
    paths: tuple[Fault, ...] | None = None  # what is wrong, and where; of 422
    retry_after_seconds: int | None = None

    def plain(self) -> dict[str, Any]:
        """Without what is None."""
        return attrs.asdict(self, filter=lambda _, value: value is not None)


def problem_of(error: SupervisorError, *, status: int | None = None) -> ProblemDetails:
    """The error as a problem; `status` is for those whom their place makes something else."""
    code = error.code
    if status is None:
        status = REQUEST_STATUSES[code] if isinstance(error, RequestRefused) else _status(error)
    waits = _RETRY_SECONDS.get(code)
    if isinstance(error, SpawnRefused) and error.limit in _PASSING_LIMITS:
        waits = 1
    return ProblemDetails(
        type=f"urn:understudy:problem:{code}",
        title=_title(code),
        status=int(status),
        detail=redacted(str(error.args[0])),
        code=code,
        hint=redacted(error.hint),
        limit=getattr(error, "limit", None),
        used=getattr(error, "used", None),
        allowed=getattr(error, "allowed", None),
        line=getattr(error, "line", None),
        retry_after_seconds=waits,
    )


def problem_of_faults(unreadable: Unreadable) -> ProblemDetails:
    """The problem of a request whose parts cannot be meant, each with its path."""
    faults = tuple(
        attrs.evolve(fault, detail=redacted(fault.detail)) for fault in unreadable.faults
    )
    # What the embedding API would have raised, if that is one thing.
    codes = {fault.code for fault in faults}
    code = codes.pop() if len(codes) == 1 else ConfigError.code
    return ProblemDetails(
        type=f"urn:understudy:problem:{code}",
        title=_title(code),
        status=int(HTTPStatus.UNPROCESSABLE_ENTITY),
        detail="; ".join(f"{fault.path}: {fault.detail}" for fault in faults),
        code=code,
        hint=faults[0].hint,
        paths=faults,
    )


def error_of(plain: object, *, status: int) -> SupervisorError:
    """The error of a problem that somebody was answered with, of the class that was raised.

    What is no problem of ours becomes a `RequestRefused` that says so.
    """
    given: Mapping[str, Any] = plain if isinstance(plain, Mapping) else {}
    code, detail = given.get("code"), given.get("detail")
    hint = str(given.get("hint", "look at the server's log"))
    if not isinstance(code, str) or not isinstance(detail, str):
        return RequestRefused("internal_error", f"the server answered {status}", hint=hint)
    kind = _CLASSES.get(code)
    if kind is None:
        return RequestRefused(code, detail, hint=hint)
    if issubclass(kind, SpawnRefused):
        return kind(
            detail,
            hint=hint,
            limit=str(given.get("limit")),
            used=given.get("used"),
            allowed=given.get("allowed"),
        )
    error = kind(detail, hint=hint)
    if isinstance(error, errors.ImportFailed):
        error.line = given.get("line")  # the detail has it already
    return error


_CLASSES: Final[Mapping[str, type[SupervisorError]]] = {kind.code: kind for kind in STATUSES}


def _status(error: SupervisorError) -> int:
    """Of its class, or of the nearest above it that is in the table."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def _title(code: str) -> str:
    return code.replace("_", " ").capitalize()
