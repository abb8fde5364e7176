"""Errors as `application/problem+json`, with the code and the hint of the error.

Rule 1: one table maps errors to statuses. Every class of the error tree is in it.
Rule 2: `code` is the code of the error, so that a client can raise the same class.
Rule 3: only the text of the error is sent, with text that looks like a secret redacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import attrs

from supervisor.core import errors
from supervisor.core.errors import ConfigError, SpawnRefused, SupervisorError
from supervisor.core.match import Match
from supervisor.core.redaction import redact
from supervisor.decode import DecodeError, InvalidField, decode_light

MEDIA_TYPE: Final = "application/problem+json"

STATUSES: Final[Mapping[type[SupervisorError], int]] = {
    # The caller named something unknown.
    errors.SessionNotFound: HTTPStatus.NOT_FOUND,
    errors.AgentUnknown: HTTPStatus.NOT_FOUND,
    errors.PermissionNotFound: HTTPStatus.NOT_FOUND,
    errors.RecordNotFound: HTTPStatus.NOT_FOUND,
    # The arguments are invalid.
    errors.InvalidKey: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidDecision: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ConfigError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ImportFailed: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotStorable: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InputTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.OutputTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    # The state forbids it, or another request came first. A blank text is an InputRefused too,
    # but an invalid argument is a 422 with its path.
    errors.InputRefused: HTTPStatus.CONFLICT,
    errors.SessionNotActive: HTTPStatus.CONFLICT,
    errors.NotRunning: HTTPStatus.CONFLICT,
    errors.TurnOver: HTTPStatus.CONFLICT,
    errors.RepairRefused: HTTPStatus.CONFLICT,
    errors.KeyTaken: HTTPStatus.CONFLICT,
    errors.NameTaken: HTTPStatus.CONFLICT,
    errors.AmbiguousId: HTTPStatus.CONFLICT,
    errors.IdempotencyConflict: HTTPStatus.CONFLICT,
    errors.PermissionConflict: HTTPStatus.CONFLICT,
    errors.Fenced: HTTPStatus.CONFLICT,
    # A limit or a budget is exhausted.
    errors.QueueFull: HTTPStatus.TOO_MANY_REQUESTS,
    errors.SpawnRefused: HTTPStatus.TOO_MANY_REQUESTS,
    errors.BudgetSpent: HTTPStatus.TOO_MANY_REQUESTS,
    errors.PermissionDenied: HTTPStatus.FORBIDDEN,
    # A fault of the server or of the agent.
    errors.StoreDegraded: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreLocked: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreTooNew: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AgentStartFailed: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.SupervisorError: HTTPStatus.SERVICE_UNAVAILABLE,
}

# Refusals of the HTTP layer itself.
REQUEST_STATUSES: Final[Mapping[str, int]] = {
    "bad_http": HTTPStatus.BAD_REQUEST,  # sent by the server, before the app
    "bad_json": HTTPStatus.BAD_REQUEST,
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "forbidden_host": HTTPStatus.FORBIDDEN,
    "forbidden_origin": HTTPStatus.FORBIDDEN,
    "forbidden_peer": HTTPStatus.FORBIDDEN,
    "unix_socket_only": HTTPStatus.FORBIDDEN,
    "no_such_route": HTTPStatus.NOT_FOUND,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "not_acceptable": HTTPStatus.NOT_ACCEPTABLE,
    "too_slow": HTTPStatus.REQUEST_TIMEOUT,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "not_json": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "headers_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "not_ready": HTTPStatus.SERVICE_UNAVAILABLE,
    "too_many_connections": HTTPStatus.SERVICE_UNAVAILABLE,  # sent by the server, before the app
    "out_of_descriptors": HTTPStatus.SERVICE_UNAVAILABLE,
    "draining": HTTPStatus.SERVICE_UNAVAILABLE,
    "internal_error": HTTPStatus.INTERNAL_SERVER_ERROR,
}

DRAINING_RETRY_SECONDS: Final = 5
# Where waiting helps, for how long to begin with.
_RETRY_SECONDS: Final[Mapping[str, int]] = {
    errors.QueueFull.code: 1,
    errors.StoreDegraded.code: 2,
    "not_ready": 1,
    "out_of_descriptors": 1,
    "draining": DRAINING_RETRY_SECONDS,
}
# The limits of which something may become free by itself.
_TRANSIENT_LIMITS: Final = frozenset(
    {
        "max_children",
        "max_descendants",
        "max_sessions",
        "max_running_turns",
        "max_agent_processes",
    }
)


class RequestRefused(SupervisorError):
    """A refusal of the HTTP layer: by the gate, or because of the size or form of the request."""

    # Each instance has its own: a key of REQUEST_STATUSES.
    code: str  # type: ignore[misc] # a class attribute elsewhere

    def __init__(self, code: str, problem: str, *, hint: str) -> None:
        super().__init__(problem, hint=hint)
        self.code = code


@attrs.frozen(kw_only=True)
class ProblemDetails:
    """The body of an error response; None fields are left out."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    limit: str | None = None  # of SpawnRefused: the exhausted limit
    used: float | None = None
    allowed: float | None = None
    line: int | None = None  # of ImportFailed
    candidates: tuple[Match, ...] | None = None  # of AmbiguousId
    paths: tuple[InvalidField, ...] | None = None  # of 422: each fault with its path
    retry_after_seconds: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not None."""
        return attrs.asdict(self, filter=lambda _, value: value is not None)


def retry_seconds_of(error: SupervisorError) -> int | None:
    """Return after how many seconds the same request may succeed; None if time does not help."""
    if isinstance(error, SpawnRefused) and error.limit in _TRANSIENT_LIMITS:
        return 1
    return _RETRY_SECONDS.get(error.code)


def problem_of(error: SupervisorError, *, status: int | None = None) -> ProblemDetails:
    """Return the problem document for an error; `status` replaces the status of the table."""
    code = error.code
    if status is None:
        status = REQUEST_STATUSES[code] if isinstance(error, RequestRefused) else _status(error)
    return ProblemDetails(
        type=f"urn:understudy:problem:{code}",
        title=_title(code),
        status=int(status),
        detail=redact(str(error.args[0])),
        code=code,
        hint=redact(error.hint),
        limit=getattr(error, "limit", None),
        used=getattr(error, "used", None),
        allowed=getattr(error, "allowed", None),
        line=getattr(error, "line", None),
        candidates=getattr(error, "candidates", None),
        retry_after_seconds=retry_seconds_of(error),
    )


def problem_of_invalid_fields(error: DecodeError) -> ProblemDetails:
    """Return the problem document for a request with invalid arguments."""
    faults = tuple(
        attrs.evolve(fault, detail=redact(fault.detail)) for fault in error.invalid_fields
    )
    # The code that the embedding API would have raised, if all faults have the same.
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
    """Return the error that the server raised, rebuilt from the problem document of its answer.

    A body that is not a problem document of ours becomes a RequestRefused.
    """
    given: Mapping[str, Any] = plain if isinstance(plain, Mapping) else {}
    code, detail = given.get("code"), given.get("detail")
    hint = str(given.get("hint", "check the log of the server"))
    if not isinstance(code, str) or not isinstance(detail, str):
        return RequestRefused("internal_error", f"the server answered {status}", hint=hint)
    kind = _ERROR_CLASSES.get(code)
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
    if issubclass(kind, errors.AmbiguousId):
        return kind(detail, hint=hint, candidates=_candidates(given.get("candidates")))
    error = kind(detail, hint=hint)
    if isinstance(error, errors.ImportFailed):
        error.line = given.get("line")  # the detail has it already
    return error


def _candidates(plain: object) -> tuple[Match, ...]:
    """Return the candidates in a problem document; none if their form is wrong."""
    try:
        return decode_light(tuple[Match, ...], plain)
    except DecodeError:
        return ()


_ERROR_CLASSES: Final[Mapping[str, type[SupervisorError]]] = {kind.code: kind for kind in STATUSES}


def _status(error: SupervisorError) -> int:
    """Return the status of the class, or of its nearest base in the table."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def _title(code: str) -> str:
    return code.replace("_", " ").capitalize()
