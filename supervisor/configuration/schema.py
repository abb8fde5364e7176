"""Schema of the configuration: a tree of tables and values, and the settings of the daemon.

Each layer is read along the tree, value by value, and all its problems are collected; so a wrong
value is found even if a later layer overrides it.

Every value is decoded by its annotation with `supervisor.decode.light`, because short commands read
the configuration. A table can be described by an attrs class: its validators check the values, and
this module converts text from environment variables ("5" to 5, "none" to None).

The settings of sessions are in `supervisor.config.Settings`.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, TypeAlias, get_type_hints

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.limits import one_of, whole_number
from supervisor.decode import DecodeError, alternatives, decode_light, is_collection

from .paths import MAX_SOCKET_PATH_BYTES, expand_path, socket_path, state_folder
from .sources import ConfigProblem, InvalidValue, KeyPath, Source, Value, dotted

# Takes one plain value and returns the setting; raises InvalidValue.
Reader: TypeAlias = Callable[[object, Source], object]


@attrs.frozen
class Leaf:
    """A value of the configuration; the attrs class with the field defines its default."""

    read: Reader


@attrs.frozen
class Table:
    """A table whose names are defined here."""

    nodes: Mapping[str, Node]


@attrs.frozen
class OpenTable:
    """A table whose names the user chooses; `check` raises InvalidValue for a bad name."""

    node: Node
    check: Callable[[str], None]


Node: TypeAlias = Leaf | Table | OpenTable


@attrs.frozen
class Layer:
    """The valid values of one source, and its problems."""

    values: dict[KeyPath, Value] = attrs.field(factory=dict)
    problems: list[ConfigProblem] = attrs.field(factory=list)


def read_layer(schema: Table, tables: Mapping[str, Any], source: Source) -> Layer:
    """Return the values and the problems of one source."""
    layer = Layer()
    _walk_table(schema, tables, (), source, layer)
    return layer


def _walk(node: Node, value: object, at: KeyPath, source: Source, layer: Layer) -> None:
    if isinstance(node, Leaf):
        try:
            read = node.read(value, source)
        except InvalidValue as wrong:
            _add_problem(layer, source, at, wrong)
        else:
            layer.values[at] = Value(read, source.origin(at))
    elif not isinstance(value, Mapping):
        hint = f"write [{dotted(at)}] on its own line, and the values below it"
        _add_problem(
            layer, source, at, InvalidValue(f"is {short_repr(value)}, not a table", hint=hint)
        )
    elif isinstance(node, Table):
        _walk_table(node, value, at, source, layer)
    else:
        for name, inside in value.items():
            try:
                node.check(name)
                _refuse_empty(node.node, inside)
            except InvalidValue as wrong:
                _add_problem(layer, source, (*at, name), wrong)
            else:
                _walk(node.node, inside, (*at, name), source, layer)


def _refuse_empty(node: Node, value: object) -> None:
    # An empty table has no values, so it would be dropped without a message.
    if isinstance(node, Table) and value == {}:
        raise InvalidValue("is empty", hint=f"set one of {', '.join(node.nodes)}")


def _walk_table(
    table: Table, values: Mapping[str, Any], at: KeyPath, source: Source, layer: Layer
) -> None:
    for name, inside in values.items():
        node = table.nodes.get(name)
        if node is None:
            wrong = InvalidValue("is not a setting", hint=_suggestion(table, name, at))
            _add_problem(layer, source, (*at, name), wrong)
        else:
            _walk(node, inside, (*at, name), source, layer)


def _add_problem(layer: Layer, source: Source, at: KeyPath, wrong: InvalidValue) -> None:
    layer.problems.append(ConfigProblem(dotted(at), wrong.problem, wrong.hint, source.origin(at)))


def _suggestion(table: Table, name: str, at: KeyPath) -> str:
    close = difflib.get_close_matches(name, table.nodes, n=1)
    if close:
        return f"did you mean {dotted((*at, close[0]))}?"
    # Often the name is right, and only the table above it is missing.
    deeper = [path for path in leaves(table) if path[-1] == name]
    if deeper:
        return f"did you mean {dotted(at + deeper[0])}?"
    return f"known settings: {', '.join(table.nodes)}"


def leaves(node: Node) -> Iterator[KeyPath]:
    """Yield the paths of all values with known names."""
    if isinstance(node, Leaf):
        yield ()
    elif isinstance(node, Table):
        for name, inside in node.nodes.items():
            for path in leaves(inside):
                yield (name, *path)


# Key in the metadata of a field that is a path.
PATH_METADATA: Final = "path"

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")

_BOOLEANS: Final = {"true": True, "false": False}


@attrs.frozen
class DecodedValue:
    """Reader of one value: decodes the value by its annotation; `finish` converts it.

    `hint` replaces the hint of the decoder. With `is_secret` no problem contains the value.
    """

    kind: Any  # an annotation for `supervisor.decode`
    finish: Callable[[Any, Source], object] | None = None
    hint: str | None = None
    is_secret: bool = False

    def __call__(self, value: object, source: Source) -> object:
        """Return the setting; raise InvalidValue if the value cannot be decoded or converted."""
        try:
            decoded = decode_light(self.kind, _plain(self.kind, value, source))
        except DecodeError as error:
            raise _mismatch(error, self) from None
        return decoded if self.finish is None else self.finish(decoded, source)


def table_for_class(example: attrs.AttrsInstance) -> Table:
    """Return a table with a value for each field of an attrs class.

    A field that is an attrs class itself becomes a table.
    """
    kind = type(example)
    hints = get_type_hints(kind)
    nodes: dict[str, Node] = {}
    for field in attrs.fields(kind):
        part = getattr(example, field.name)
        if attrs.has(type(part)):
            nodes[field.name] = table_for_class(part)
        else:
            nodes[field.name] = Leaf(
                _Field(
                    example, field.name, hints[field.name], field.metadata.get(PATH_METADATA, False)
                )
            )
    return Table(nodes)


@attrs.frozen
class _Field:
    """Reader of one field: decodes the value, then runs the validators of the attrs class."""

    example: Any  # an instance of an attrs class
    name: str
    kind: Any  # the annotation of the field
    is_path: bool

    def __call__(self, value: object, source: Source) -> object:
        plain = _plain(self.kind, value, source)
        try:
            decoded: Any = decode_light(self.kind, plain)
        except DecodeError as error:
            self._check(plain)  # the hint of the class states the bounds
            raise _mismatch(error) from None
        if self.is_path and decoded:
            decoded = expand_path(decoded, folder=source.folder, home=source.home)
        # A number is checked as it was written, so that a problem says -1 and not -1.0.
        self._check(plain if isinstance(plain, int) else decoded)
        return decoded

    def _check(self, value: object) -> None:
        try:
            attrs.evolve(self.example, **{self.name: value})
        except ConfigError as error:
            # The class names `limits.max_depth`; the problem already has the whole path.
            own = f"{type(self.example).__name__.lower()}.{self.name} "
            problem = str(error.args[0]).removeprefix(own)
            hint = error.hint.replace(f"give {own}", "give ").replace("None", '"none"')
            raise InvalidValue(problem, hint=hint) from None


def _mismatch(error: DecodeError, reader: DecodedValue | None = None) -> InvalidValue:
    (fault,) = error.invalid_fields  # the light engine reports the first
    if reader is not None and reader.is_secret:
        return InvalidValue("is not a text", hint=reader.hint or fault.hint)
    problem = f"{fault.path.removeprefix('$')} {fault.detail}".strip()
    return InvalidValue(problem, hint=(reader and reader.hint) or fault.hint)


def _plain(kind: Any, value: object, source: Source) -> object:  # noqa: ANN401 - any annotation
    """Return a value for the decoder.

    Text from a variable becomes a number, True, False or None.
    """
    kinds = alternatives(kind)
    if source.is_text and isinstance(value, str) and (len(kinds) == 1 or NoneType in kinds):
        value = _from_text(kinds[0], value)
    if NoneType in kinds and value == "none":
        return None
    # JSON has no other way to write infinity.
    return math.inf if kinds[0] is float and value == "inf" else value


def _from_text(kind: Any, text: str) -> object:  # noqa: ANN401 - as above
    """Return the value of a text for a kind.

    If its form is wrong, the text, which the decoder refuses.
    """
    text = text.strip()
    if kind is int and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            return text
    if kind is bool:
        return _BOOLEANS.get(text.lower(), text)
    if is_collection(kind):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]


def _check_path(_: object, field: attrs.Attribute[Any], value: object) -> None:
    name = f"daemonsettings.{field.name}"
    if not isinstance(value, str) or not value.startswith("/") or not _is_storable(value):
        raise ConfigError(f"{name} is {short_repr(value)}", hint=f"give {name} an absolute path")


def _is_storable(path: str) -> bool:
    # A name that is not UTF-8 has lone surrogates, which cannot be printed or sent.
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in path)


def _check_socket_length(_: object, field: attrs.Attribute[Any], value: str) -> None:
    size = len(os.fsencode(value))
    if size > MAX_SOCKET_PATH_BYTES:
        raise ConfigError(
            f"daemonsettings.{field.name} has {size} bytes",
            hint=f"choose a path of at most {MAX_SOCKET_PATH_BYTES} bytes",
        )


def _check_origins(_: object, field: attrs.Attribute[Any], value: object) -> None:
    name = f"daemonsettings.{field.name}"
    wanted = 'give a list of texts such as "http://127.0.0.1:3000"'
    if not isinstance(value, tuple):
        raise ConfigError(f"{name} is {short_repr(value)}", hint=wanted)
    for origin in value:
        scheme, colon, rest = origin.partition("://") if isinstance(origin, str) else ("", "", "")
        if scheme not in ("http", "https") or not colon or not rest or set(rest) & set("/?#@* "):
            raise ConfigError(f"{name} contains {short_repr(origin)}", hint=wanted)


def _check_flag(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(
            f"daemonsettings.{field.name} is {short_repr(value)}", hint="give true or false"
        )


@attrs.frozen(kw_only=True)
class DaemonSettings:
    """Settings of `understudy serve`."""

    socket: str = attrs.field(
        validator=[_check_path, _check_socket_length], metadata={PATH_METADATA: True}
    )
    state_folder: str = attrs.field(validator=_check_path, metadata={PATH_METADATA: True})
    tcp_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(whole_number(least=1, most=65535))
    )
    allowed_origins: tuple[str, ...] = attrs.field(default=(), validator=_check_origins)
    max_connections: int = attrs.field(default=2000, validator=whole_number(least=1))
    log_level: LogLevel = attrs.field(default="info", validator=one_of(LogLevel))
    log_format: LogFormat = attrs.field(default="text", validator=one_of(LogFormat))
    log_content: bool = attrs.field(default=False, validator=_check_flag)
    autostart: bool = attrs.field(default=True, validator=_check_flag)
    agents_may_use_api: bool = attrs.field(default=False, validator=_check_flag)

    @property
    def database(self) -> str:
        """Path of the database."""
        return str(Path(self.state_folder) / "state.db")

    @property
    def tools_socket(self) -> str:
        """Path of the socket for the tools of agents."""
        return str(Path(self.state_folder) / "tools.sock")

    @property
    def token(self) -> str:
        """Path of the file with the token for TCP."""
        return str(Path(self.state_folder) / "token")

    @property
    def log_file(self) -> str:
        """Path of the log of a detached daemon."""
        return log_file_in(self.state_folder)


def log_file_in(state_folder: str) -> str:
    """Return the path of the log of a detached daemon with that state folder."""
    return str(Path(state_folder) / "daemon.log")


# An instance to check single fields with; the real paths depend on the user.
EXAMPLE: Final = DaemonSettings(socket="/run/understudy.sock", state_folder="/var/lib/understudy")


def make_daemon_settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> DaemonSettings:
    """Return the settings from given values and default paths.

    Raise ConfigError if the default path of the socket is too long and no other is given.
    """
    state = given.get("state_folder", str(state_folder(environ)))
    socket = given.get("socket", str(socket_path(environ, Path(state))))
    return DaemonSettings(**{**given, "state_folder": state, "socket": socket})
