"""Operations of the HTTP interface, each described in one place.

    @operation("POST", "/v1/sessions/{id}/fork", body_params_of(Session.fork), status=201)
    async def fork(call: OperationCall) -> Info:
        '''Create a session with a copy of the history.

        Further description.
        '''

The OpenAPI document takes the summary from the docstring and the answer from the annotation.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from types import NoneType
from typing import Any, Final, Literal, TypeAlias

import attrs
from starlette.types import Receive, Scope, Send

from supervisor.core.errors import SupervisorError
from supervisor.decode import alternatives

from .backup_folder import NAME_PATTERN
from .params import NO_PARAMS, OperationCall, Params

# All ids are ours and match this; a path segment that does not match its pattern is a 404.
ID_PATTERN: Final = r"[a-z0-9_]{3,64}"
# Patterns of parameters in paths that are not ids.
PATH_PATTERNS: Final[Mapping[str, str]] = {"name": NAME_PATTERN}

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen
class TextResponse:
    """An answer that is not JSON."""

    content: bytes
    media_type: str


@attrs.frozen
class DeferredResponse:
    """An answer with status 202: the work continues."""

    value: Any
    status: int = 202


class NotFound(Exception):
    """The id in the path is unknown: answered with 404, whatever status the error has elsewhere."""

    def __init__(self, error: SupervisorError) -> None:
        super().__init__(str(error))
        self.error = error


class StreamResponse:
    """A streamed answer: an ASGI app, called after the request was read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; return when the stream has ended."""
        raise NotImplementedError


_NON_JSON_RESULTS: Final = (TextResponse, DeferredResponse, StreamResponse)

# A value to encode as JSON, None for 204, or one of the classes above.
Result: TypeAlias = Any
Handler: TypeAlias = Callable[[OperationCall], Awaitable[Result]]


@attrs.frozen(kw_only=True)
class Operation:
    """One method at one path."""

    method: Method
    path: str
    handle: Handler
    params: Params = NO_PARAMS
    status: int = 200
    raises: tuple[type[SupervisorError], ...] = ()
    # Media types of answers that are not JSON, with a description of each.
    other_media_types: Mapping[str, str] = attrs.field(factory=dict)
    is_stream: bool = False
    # Classes of the data of a stream's events.
    event_kinds: tuple[type, ...] = ()
    # Whether it is refused on TCP, because the server uses a path that the caller names.
    unix_only: bool = False
    # Whether its arguments are in a body, not in the query.
    has_body: bool = attrs.field(init=False)

    @has_body.default
    def _has_body(self) -> bool:
        return self.method in ("POST", "PATCH")

    @property
    def name(self) -> str:
        """Name of the operation in the OpenAPI document."""
        return str(getattr(self.handle, "__name__", "")).rstrip("_")

    @property
    def summary(self) -> str:
        """First line of the handler's docstring."""
        return self._doc[0]

    @property
    def description(self) -> str:
        """Docstring of the handler without its first line."""
        return "\n".join(self._doc[1:]).strip()

    @property
    def _doc(self) -> list[str]:
        return (inspect.getdoc(self.handle) or "").splitlines() or [""]

    @property
    def result_kind(self) -> Any:  # noqa: ANN401 - an annotation
        """Annotation of the JSON answer; NoneType if there is none."""
        kinds = [one for one in self._result_kinds if one not in _NON_JSON_RESULTS]
        return kinds[0] if kinds else NoneType

    @property
    def _result_kinds(self) -> tuple[Any, ...]:
        return alternatives(typing.get_type_hints(self.handle)["return"])

    @property
    def may_defer(self) -> bool:
        """Whether the operation may answer 202 before its work is done."""
        return DeferredResponse in self._result_kinds


def operation(
    method: Method,
    path: str,
    params: Params = NO_PARAMS,
    *,
    status: int = 200,
    raises: tuple[type[SupervisorError], ...] = (),
    other_media_types: Mapping[str, str] | None = None,
    streams: bool = False,
    event_kinds: tuple[type, ...] = (),
    unix_only: bool = False,
) -> Callable[[Handler], Operation]:
    """Return a decorator that makes an operation of a function."""

    def make(handle: Handler) -> Operation:
        return Operation(
            method=method,
            path=path,
            handle=handle,
            params=params,
            status=status,
            raises=raises,
            other_media_types=other_media_types or {},
            is_stream=streams,
            event_kinds=event_kinds,
            unix_only=unix_only,
        )

    return make
