"""What one tool consists of, and what it gets in a call.

A tool is one module in `tools/` with its classes of arguments and answer, a function, and a
`SessionTool`; `tool_list` names it. The schemas are generated from the classes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from supervisor.config import Settings
from supervisor.core.errors import ConfigError, PermissionDenied, short_repr
from supervisor.core.ids import SessionId
from supervisor.decode import DecodeError, InvalidField, decode
from supervisor.decode.json_schema import (
    DESCRIPTION_KEY,
    SCHEMA_KEY,
    json_name,
    schema_of_object,
)
from supervisor.handles.subtree import Subtree
from supervisor.handles.supervisor import Supervisor
from supervisor.store.port import Hit

from .caller import Caller
from .inboxes import CallersInbox, PeoplesInbox
from .open_questions import UnreadQuestions
from .tool import ToolDescription

MAX_TEXT_CHARS: Final = 4_000


def described(
    description: str,
    default: Any = attrs.NOTHING,  # noqa: ANN401 - the default of any field
    **schema: Any,  # noqa: ANN401 - JSON schema
) -> Any:  # noqa: ANN401 - as attrs.field
    """Return an attrs field with a description for models, and with bounds that are checked."""
    metadata = {DESCRIPTION_KEY: description}
    return attrs.field(
        default=default,
        metadata={**metadata, SCHEMA_KEY: schema} if schema else metadata,
        validator=_check_bounds,
    )


def _check_bounds(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """Raise ConfigError if the value is outside the bounds in the schema of the field."""
    schema = field.metadata.get(SCHEMA_KEY, {})
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(value, int | float) and least is not None:
        refuse_outside(field.name, value, least, most)
    most = schema.get("maxItems")
    if isinstance(value, tuple) and most is not None and len(value) > most:
        raise ConfigError(
            f"{field.name} has {len(value)} items", hint=f"give at most {most} at once"
        )


def refuse_outside(name: str, value: float, least: float, most: float | None) -> None:
    """Raise ConfigError if the value of an argument is outside its bounds."""
    if value < least or (most is not None and value > most):
        bounds = f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"
        raise ConfigError(f"{name} is {short_repr(value)}", hint=f"give {name} {bounds}")


@attrs.define
class ToolContext:
    """What the function of a tool gets besides its arguments."""

    sup: Supervisor
    subtree: Subtree
    caller: Caller
    settings: Settings
    # Questions that calls of `ask` have put and not read the end of.
    unread_questions: UnreadQuestions
    # The session that the call named, once it is found: for the record of the call.
    target: SessionId | None = None

    @property
    def inbox(self) -> CallersInbox:
        """The requests that the caller may answer."""
        if self.caller.session_id is None:
            return PeoplesInbox(self.sup)
        return self.sup.tool_access().inbox(self.caller.session_id)

    async def search(
        self, words: str, session: SessionId | None, *, before: int | None, limit: int
    ) -> list[Hit]:
        """Return messages with all words: of a session that was found, or of all within reach."""
        access, ids = self.sup.tool_access(), None if session is None else [session]
        if ids is None and self.caller.session_id is not None:
            ids = [self.subtree.id, *(row.id for row in await self.subtree.descendants())]
        return await access.search(words, ids, before=before, limit=limit)

    async def find(self, text: str) -> SessionId:
        """Return the session that a text names, within the reach of the caller."""
        self.target = await self.subtree.find(text)
        self.subtree = self.subtree.around(self.target)
        return self.target

    async def find_or_own(self, text: str | None) -> SessionId:
        """Return the session that a text names; without a text, that of the caller."""
        if text is not None:
            return await self.find(text)
        if self.caller.session_id is None:
            raise ConfigError("the call names no session", hint="name one: list has them")
        return self.caller.session_id

    async def find_below(self, text: str) -> SessionId:
        """Return the descendant that a text names; raise PermissionDenied for the caller itself."""
        found = await self.find(text)
        if found == self.caller.session_id:
            raise PermissionDenied(
                "that is your own session", hint="name a session below yours; tree lists them"
            )
        return found


def decode_arguments(kind: type, given: object) -> Any:  # noqa: ANN401 - a `kind`
    """Return the arguments of a tool; raise DecodeError with the faults of all."""
    names = {json_name(field.name): field.name for field in attrs.fields(kind)}
    hidden = set(names.values()) - names.keys()  # names in Python are none in JSON
    if not isinstance(given, dict) or not hidden:
        return decode(kind, given)
    wrong = sorted(hidden & given.keys())
    if wrong:
        hint = f"did you mean {json_name(wrong[0])}?"
        raise DecodeError((InvalidField(f"$.{wrong[0]}", "unknown field", hint),))
    try:
        return decode(kind, {names.get(name, name): value for name, value in given.items()})
    except DecodeError as error:
        faults = [_with_json_names(fault, hidden) for fault in error.invalid_fields]
        raise DecodeError(tuple(faults)) from None


def _with_json_names(fault: InvalidField, hidden: set[str]) -> InvalidField:
    """Return the fault with the names of fields as they are in JSON."""
    texts = [fault.path, fault.detail, fault.hint]
    for name in hidden:
        texts = [re.sub(rf"\b{name}\b", json_name(name), text) for text in texts]
    return InvalidField(texts[0], texts[1], texts[2], fault.code)


# An answer of the class that the tool declares, and a short text.
Answered: TypeAlias = tuple[Any, str]


@attrs.frozen(kw_only=True)
class SessionTool:
    """A tool: how clients see it, and the function that carries it out."""

    name: str
    title: str
    description: str
    arguments: type
    answer: type
    run: Callable[[ToolContext, Any], Awaitable[Answered]]
    is_read_only: bool = False
    # Whether the caller needs the right to answer for its children.
    needs_answering: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False
    # Whether what follows from a call may reach beyond the supervisor: an agent works.
    gives_work: bool = False
    # The largest values of arguments, where settings decide.
    maxima: Callable[[Settings], Mapping[str, float]] | None = None
    # How many calls of one caller may be under way, None for any number.
    max_concurrent: int | None = None

    def describe(self, settings: Settings) -> ToolDescription:
        """Return the tool as a client sees it."""
        input_schema = schema_of_object(self.arguments)
        for name, most in ({} if self.maxima is None else self.maxima(settings)).items():
            input_schema["properties"][name]["maximum"] = most
        return ToolDescription(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=input_schema,
            output_schema=schema_of_object(self.answer),
            annotations={
                "title": self.title,
                "readOnlyHint": self.is_read_only,
                "destructiveHint": self.is_destructive,
                "idempotentHint": self.is_read_only or self.is_idempotent,
                "openWorldHint": self.gives_work,
            },
        )


def plain_answer(answer: Any) -> Mapping[str, Any]:  # noqa: ANN401 - an attrs object
    """Return an answer as JSON data; fields that are None are left out."""
    return attrs.asdict(
        answer,
        filter=lambda _, value: value is not None,
        value_serializer=_plain_value,
    )


def _plain_value(_: object, __: object, value: Any) -> Any:  # noqa: ANN401 - any value
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, str) else value  # a member of an enum is one


def clip(text: str, most: int = MAX_TEXT_CHARS) -> str:
    """Return the beginning of a text, with at most this number of characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
