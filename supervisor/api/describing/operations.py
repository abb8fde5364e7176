"""Operations: one for each thing that can be asked, with all that is known about it in one place.

    @operation("POST", "/v1/sessions/{id}/fork", form_of(Session.fork), status=201, raises=(...))
    async def fork(call: Call) -> Info:
        '''A new session with what was said here.

        More about it.
        '''

The docstring is what the document says, the return annotation what it says is answered.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from types import NoneType
from typing import Any, Final, Literal, TypeAlias

import attrs
from starlette.types import Receive, Scope, Send

from supervisor.api.doors import Doors
from supervisor.api.wire.kinds import alternatives
from supervisor.core.errors import SupervisorError
from supervisor.sessions.surface.handle import Session
from supervisor.sessions.surface.supervisor import Supervisor
from supervisor.store.writer.health import StoreState

from .forms import Form

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


@attrs.frozen(kw_only=True)
class Context:
    """What operations are asked with: the supervisor, and what the process around it gave."""

    sup: Supervisor
    doors: Doors
    version: str
    metrics: Callable[[], bytes] | None = None
    store_state: Callable[[], StoreState] | None = None
    document: Callable[[], bytes] = bytes


@attrs.frozen(kw_only=True)
class Call:
    """One request, read and checked."""

    context: Context
    ids: Mapping[str, str]  # those in the path, by name
    given: Mapping[str, Any]  # the arguments that were given, by name
    headers: Mapping[str, str]  # the few that an operation may look at
    wait_gone: Callable[[], Awaitable[None]]  # until whoever asked has hung up

    @property
    def sup(self) -> Supervisor:
        """The supervisor."""
        return self.context.sup

    @property
    def session(self) -> Session:
        """A handle on the session in the path."""
        return self.context.sup.session(self.ids["id"])


@attrs.frozen
class Text:
    """An answer that is no JSON."""

    content: bytes
    media_type: str


@attrs.frozen
class Later:
    """An answer with another status than the operation's own: what was asked for goes on."""

    value: Any
    status: int = 202


class NotThere(Exception):
    """What the path names is not there: 404, whatever status its error has elsewhere."""

    def __init__(self, error: SupervisorError) -> None:
        super().__init__(str(error))
        self.error = error


class Stream:
    """An answer that goes on: an ASGI app which is asked once the request was read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, for as long as it takes."""
        raise NotImplementedError


_OTHER_ANSWERS: Final = (Text, Later, Stream)

# A thing to be written as JSON, None for nothing, or one of the classes above.
Answer: TypeAlias = Any
Handler: TypeAlias = Callable[[Call], Awaitable[Answer]]


@attrs.frozen(kw_only=True)
class Operation:
    """One thing that can be asked."""

    method: Method
    path: str
    handle: Handler
    form: Form = Form()
    status: int = 200
    raises: tuple[type[SupervisorError], ...] = ()
    # Media types of answers that are no JSON, with what each is.
    also_answers: Mapping[str, str] = attrs.field(factory=dict)
    streams: bool = False

    @property
    def name(self) -> str:
        """What it is called in the document."""
        return str(getattr(self.handle, "__name__", "")).rstrip("_")

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return self._doc[0]

    @property
    def description(self) -> str:
        """What else there is to know about it."""
        return "\n".join(self._doc[1:]).strip()

    @property
    def _doc(self) -> list[str]:
        return (inspect.getdoc(self.handle) or "").splitlines() or [""]

    @property
    def answer(self) -> Any:  # noqa: ANN401 - an annotation
        """What it answers with as JSON; NoneType for nothing."""
        kinds = [one for one in self._answers if one not in _OTHER_ANSWERS]
        return kinds[0] if kinds else NoneType

    @property
    def _answers(self) -> tuple[Any, ...]:
        return alternatives(typing.get_type_hints(self.handle)["return"])

    @property
    def answers_later(self) -> bool:
        """Whether it may answer before what was asked for is done."""
        return Later in self._answers

    @property
    def has_body(self) -> bool:
        """Whether its arguments are in a body, not in the query."""
        return self.method in ("POST", "PATCH")


def operation(
    method: Method,
    path: str,
    form: Form = Form(),  # noqa: B008 - frozen
    *,
    status: int = 200,
    raises: tuple[type[SupervisorError], ...] = (),
    also_answers: Mapping[str, str] | None = None,
    streams: bool = False,
) -> Callable[[Handler], Operation]:
    """Make an operation of the function below."""

    def make(handle: Handler) -> Operation:
        return Operation(
            method=method,
            path=path,
            handle=handle,
            form=form,
            status=status,
            raises=raises,
            also_answers=also_answers or {},
            streams=streams,
        )

    return make
