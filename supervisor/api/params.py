"""Parameters of operations, decoded by the annotations of the embedding API, and a decoded call.

Rule 1: parameters are read from the signature of a method, so that the two cannot differ.
Rule 2: an argument that was not given is not passed on: the defaults of the method apply.
Rule 3: the decoder checks types, and the constraints that only this interface has. The embedding
        API checks the values of its own arguments. Only after a refusal are the same checks, of
        `core/validation` and `handles/arguments`, called here, so that the answer names the path
        of every invalid value.
"""

from __future__ import annotations

import functools
import inspect
import math
import os.path
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NotRequired,
    TypeAlias,
    Unpack,
    get_args,
    get_origin,
)

import attrs

from supervisor.config import Settings
from supervisor.core import validation
from supervisor.core.agent_options import check_agent_options
from supervisor.core.errors import ConfigError, SupervisorError, short_repr
from supervisor.core.mcp_server_list import check_mcp_servers
from supervisor.core.session_values import Decision
from supervisor.core.trace_context import check_trace
from supervisor.decode import (
    MAX_INVALID_FIELDS,
    Check,
    Checked,
    DecodeError,
    InvalidField,
    format_path,
    json_types,
    make_decoder,
)
from supervisor.handles import arguments

if TYPE_CHECKING:  # short commands import this module, and must not import the session
    from supervisor.handles.session import Session
    from supervisor.handles.supervisor import Supervisor

    from .context import OperationContext

MAX_PAGE: Final = 1_000
MAX_WAIT_SECONDS: Final = 60.0


@attrs.frozen
class Constraint:
    """A check of an argument's value, and the same constraint as JSON schema.

    With `only_here` the embedding API does not check the value, so the decoder does.
    """

    check: Check
    schema: Mapping[str, Any] = attrs.field(factory=dict)
    only_here: bool = attrs.field(default=False, kw_only=True)


_NON_BLANK: Final = {"minLength": 1, "pattern": r"\S"}


_CONTROL: Final = validation.CONTROL_CLASS
_ONE_LINE: Final = {"minLength": 1, "pattern": rf"^[^{_CONTROL}]*[^\s{_CONTROL}][^{_CONTROL}]*$"}


def _name(name: str) -> Constraint:
    return Constraint(functools.partial(validation.check_name, name), _ONE_LINE)


# Wider than the check, which also refuses invisible characters.
_SESSION_NAME: Final = {
    "minLength": 1,
    "pattern": rf"^(?!-$)(?!{validation.SHORT_ID}$)"
    rf"[^\s/{_CONTROL}](?:[^/{_CONTROL}]*[^\s/{_CONTROL}])?$",
}


def _non_blank(name: str, *, only_here: bool = False) -> Constraint:
    check = functools.partial(validation.check_text, name)
    return Constraint(check, _NON_BLANK, only_here=only_here)


def _check_absolute_path(path: str) -> None:
    """Raise ConfigError if the path is relative: client and server have different directories."""
    arguments.check_path("path", path)
    if not os.path.isabs(path):  # noqa: PTH117 - as text, which is what is passed on
        raise ConfigError(f"path is {short_repr(path)}", hint="give an absolute path")


def _seconds(name: str) -> Constraint:
    check = functools.partial(validation.check_seconds, name)
    return Constraint(check, {"minimum": 0, "maximum": validation.MAX_SECONDS})


def _count(name: str) -> Constraint:
    return Constraint(functools.partial(validation.check_integer, name, least=0), {"minimum": 0})


def _check_wait_seconds(seconds: float) -> None:
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise ConfigError(
            f"wait is {short_repr(seconds)}", hint=f"give seconds from 0 to {MAX_WAIT_SECONDS:g}"
        )


def _setting(name: str) -> Constraint:
    return Constraint(lambda value: Settings(**{name: value}))


_LINES: Final = ("agent", "title", "role", "idempotency_key", "model", "effort")

BODY_CONSTRAINTS: Final[Mapping[str, Constraint]] = {
    **{field.name: _setting(field.name) for field in attrs.fields(Settings)},
    **{name: _name(name) for name in _LINES},
    "name": Constraint(validation.check_session_name, _SESSION_NAME),
    **{name: _non_blank(name) for name in ("reason", "at_turn")},
    **{name: _non_blank(name, only_here=True) for name in ("turn_id", "call_id")},
    "text": Constraint(validation.check_prompt, _NON_BLANK),
    "replace_with": Constraint(validation.check_prompt, _NON_BLANK),
    "key": Constraint(validation.check_key),
    "tags": Constraint(validation.check_tags),
    "custom": Constraint(validation.check_custom),
    "options": Constraint(check_agent_options),
    "mcp_servers": Constraint(check_mcp_servers),
    "permissions": Constraint(arguments.check_permissions),
    "attachments": Constraint(validation.check_attachments),
    "trace": Constraint(check_trace),
    "workspace": Constraint(arguments.check_workspace),
    "ttl_seconds": Constraint(
        validation.check_ttl_seconds, {"exclusiveMinimum": 0, "maximum": validation.MAX_SECONDS}
    ),
    "older_than_seconds": _seconds("older_than_seconds"),
    **{name: _count(name) for name in ("position", "seq", "keep_last", "max_bytes")},
    # The permission request checks which of them it offers.
    "decision": Constraint(lambda _: None, {"enum": list(get_args(Decision))}),
    "path": Constraint(_check_absolute_path, {"pattern": "^/"}, only_here=True),
}

QUERY_CONSTRAINTS: Final[Mapping[str, Constraint]] = {
    "q": _non_blank("q"),
    "cursor": Constraint(arguments.decode_cursor),
    "limit": Constraint(
        functools.partial(validation.check_integer, "limit", most=MAX_PAGE),
        {"minimum": 1, "maximum": MAX_PAGE},
        only_here=True,
    ),
    "after": attrs.evolve(_count("after"), only_here=True),
    **{
        name: _seconds(name)
        for name in ("created_after", "created_before", "updated_after", "updated_before")
    },
    **{
        name: Constraint(functools.partial(validation.check_filter, name))
        for name in arguments.TEXT_FILTERS
    },
    "at": Constraint(functools.partial(validation.check_integer, "at"), {"minimum": 1}),
    "wait": Constraint(
        _check_wait_seconds, {"minimum": 0, "maximum": MAX_WAIT_SECONDS}, only_here=True
    ),
}

# `text` is not a filter there: it has to name something.
RESOLVE_CONSTRAINTS: Final[Mapping[str, Constraint]] = {
    **QUERY_CONSTRAINTS,
    "text": _non_blank("text"),
}


@attrs.frozen
class Param:
    """One argument: name, annotation, default and constraint."""

    name: str
    kind: Any
    default: Any = attrs.NOTHING
    constraint: Constraint | None = None

    @property
    def is_required(self) -> bool:
        """Whether the argument has no default."""
        return self.default is attrs.NOTHING

    def annotation(self, *, all_checks: bool) -> Any:  # noqa: ANN401 - an annotation
        """Return the annotation for the decoder.

        A constraint is added if `all_checks` or `only_here`.
        """
        kind, constraint = self.kind, self.constraint
        if constraint is not None and (all_checks or constraint.only_here):
            kind = Annotated[kind, Checked(constraint.check)]
        return kind if self.is_required else NotRequired[kind]


# Takes plain data and the root of its paths, returns the arguments.
_Decoder: TypeAlias = Callable[[object, str], dict[str, Any]]


@attrs.frozen
class Params:
    """The arguments of an operation."""

    fields: tuple[Param, ...] = ()

    def names(self) -> frozenset[str]:
        """Return the names of the arguments."""
        return frozenset(field.name for field in self.fields)

    def decode_body(self, body: object) -> dict[str, Any]:
        """Return the arguments in a JSON body.

        Raise DecodeError if one is missing, unknown or invalid.
        """
        return self._decode(body, "$")

    def _decode(self, plain: object, root: str) -> dict[str, Any]:
        try:
            return self._decoder(plain, root)
        except DecodeError:
            return self._checking_decoder(plain, root)  # raises with the faults of values as well

    @functools.cached_property
    def _decoder(self) -> _Decoder:
        return make_decoder(self._typed_dict(all_checks=False))

    @functools.cached_property
    def _checking_decoder(self) -> _Decoder:
        return make_decoder(self._typed_dict(all_checks=True))

    def _typed_dict(self, *, all_checks: bool) -> Any:  # noqa: ANN401 - made at run time
        make: Any = typing.TypedDict
        fields = {field.name: field.annotation(all_checks=all_checks) for field in self.fields}
        return make("Arguments", fields)

    def invalid_values(self, arguments: Mapping[str, Any], *, root: str) -> DecodeError | None:
        """Return the error of all values that a constraint refuses; None if there are none."""
        faults: list[InvalidField] = []
        for field in self.fields:
            value = arguments.get(field.name)
            if value is None or field.constraint is None:
                continue
            try:
                field.constraint.check(value)
            except SupervisorError as error:
                path = format_path(root, [field.name])
                faults.append(InvalidField(path, error.args[0], error.hint, error.code))
        return DecodeError(tuple(faults[:MAX_INVALID_FIELDS])) if faults else None

    def decode_query(self, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Return the arguments in a query.

        Raise DecodeError if one is missing, unknown or invalid.
        """
        kinds = {field.name: field.kind for field in self.fields}
        faults: list[InvalidField] = []
        plain: dict[str, Any] = {}
        for name, text in pairs:
            if name in plain:
                path = format_path("?", [name])
                faults.append(InvalidField(path, "parameter given twice", "give it once"))
            plain[name] = _parse_query_value(kinds[name], text) if name in kinds else text
        arguments: dict[str, Any] = {}
        try:
            arguments = self._decode(plain, "?")
        except DecodeError as error:
            faults += error.invalid_fields
        if faults:
            raise DecodeError(tuple(faults[:MAX_INVALID_FIELDS]))
        return arguments


# Of an operation without arguments. One object, because its decoder is generated once.
NO_PARAMS: Final = Params()


def body_params_of(
    method: Callable[..., Any],
    *,
    without: Iterable[str] = (),
    only: Iterable[str] | None = None,
    kinds: Mapping[str, Any] | None = None,
    constraints: Mapping[str, Constraint] = BODY_CONSTRAINTS,
) -> Params:
    """Return the parameters of a method of the embedding API; `kinds` replaces annotations."""
    hints = typing.get_type_hints(method)
    found: dict[str, tuple[Any, Any]] = {}
    for parameter in inspect.signature(method).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and get_origin(hint) is Unpack:
            options = typing.get_type_hints(get_args(hint)[0])
            found |= {name: (kind, None) for name, kind in options.items()}
        elif hint is not None:
            is_needed = parameter.default is inspect.Parameter.empty
            found[parameter.name] = (hint, attrs.NOTHING if is_needed else parameter.default)
    others = kinds or {}
    wanted = set(found if only is None else only) - set(without)
    return Params(
        tuple(
            Param(name, others.get(name, kind), default, constraints.get(name))
            for name, (kind, default) in found.items()
            if name in wanted
        )
    )


def query_params_of(
    method: Callable[..., Any],
    *,
    without: Iterable[str] = (),
    only: Iterable[str] | None = None,
    constraints: Mapping[str, Constraint] = QUERY_CONSTRAINTS,
) -> Params:
    """Return the parameters of a method whose arguments are in the query."""
    return body_params_of(method, without=without, only=only, constraints=constraints)


def body_params(**fields: Any) -> Params:  # noqa: ANN401 - see `_params`
    """Return parameters; each name has an annotation, or a pair of annotation and default."""
    return _params(fields, BODY_CONSTRAINTS)


def query_params(**fields: Any) -> Params:  # noqa: ANN401 - see `_params`
    """Return parameters as `body_params` does, for arguments in the query."""
    return _params(fields, QUERY_CONSTRAINTS)


def _params(fields: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> Params:
    pairs = {
        name: given if isinstance(given, tuple) else (given, attrs.NOTHING)
        for name, given in fields.items()
    }
    return Params(
        tuple(
            Param(name, kind, default, constraints.get(name))
            for name, (kind, default) in pairs.items()
        )
    )


_FLAGS: Final[Mapping[str, bool]] = {"true": True, "1": True, "false": False, "0": False}
# The digits of the longest number that is accepted.
_MAX_DIGITS: Final = 24


def _parse_query_value(kind: Any, text: str) -> Any:  # noqa: ANN401 - plain data
    """Return the value of a query argument.

    If its form is wrong, the text, which the decoder refuses.
    """
    wanted = json_types(kind)
    if bool in wanted:
        return _FLAGS.get(text, text)
    if float in wanted:
        return _parse_number(text)
    is_whole = text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if int in wanted and is_whole else text


def _parse_number(text: str) -> float | str:
    """Return the finite number in a text, or the text itself."""
    try:
        number = float(text) if "_" not in text and text == text.strip() else math.nan
    except ValueError:
        return text
    return number if math.isfinite(number) else text


@attrs.frozen(kw_only=True)
class OperationCall:
    """One decoded request: the supervisor, the session in the path, the arguments."""

    context: OperationContext
    path_ids: Mapping[str, str]  # ids in the path, by name
    arguments: Mapping[str, Any]  # only the given arguments, by name
    headers: Mapping[str, str]  # the headers that operations receive
    wait_disconnected: Callable[[], Awaitable[None]]  # returns when the client disconnects

    @property
    def sup(self) -> Supervisor:
        """The supervisor."""
        return self.context.sup

    @property
    def session(self) -> Session:
        """A handle on the session in the path."""
        return self.context.sup.session(self.path_ids["id"])
