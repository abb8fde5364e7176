"""Schema of the configuration: a tree of tables and values.

Each layer is read along the tree, value by value, and all its problems are collected; so a wrong
value is found even if a later layer overrides it.

The values of a table can be the fields of a frozen class. The validators of the class check them;
here text of the environment becomes a number, and "none" becomes None.
"""

from __future__ import annotations

import difflib
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs

from supervisor.core.errors import ConfigError, short_repr
from supervisor.decode import DecodeError, decode_light, is_collection

from .paths import expand_path
from .sources import ConfigProblem, InvalidValue, KeyPath, Source, Value, dotted

# Takes one plain value and returns the setting; raises InvalidValue or DecodeError.
Reader: TypeAlias = Callable[[object, Source], object]


@attrs.frozen
class Leaf:
    """A value. Its default is defined by the class that it belongs to."""

    read: Reader


@attrs.frozen
class Table:
    """A table with known names."""

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
        except DecodeError as error:
            (fault,) = error.invalid_fields
            detail = f"{fault.path.removeprefix('$')} {fault.detail}".strip()
            _add_problem(layer, source, at, InvalidValue(detail, hint=fault.hint))
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


def table_for_class(example: attrs.AttrsInstance) -> Table:
    """Return a table with a value for each field of a class, and a table for each part."""
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
    """Reader of one field: decodes the value, then lets the class check it."""

    example: Any  # an instance of an attrs class
    name: str
    hint: Any
    is_path: bool

    def __call__(self, value: object, source: Source) -> object:
        optional, kind = _without_none(self.hint)
        if source.is_text and isinstance(value, str):
            value = _from_text(kind, value)
        value = None if optional and value == "none" else _decoded(kind, value)
        if self.is_path and isinstance(value, str):
            value = expand_path(value, folder=source.folder, home=source.home) if value else value
        try:
            attrs.evolve(self.example, **{self.name: value})
        except ConfigError as error:
            raise self._wrong(error) from None
        return float(value) if kind is float and isinstance(value, int) else value

    def _wrong(self, error: ConfigError) -> InvalidValue:
        # The class names `limits.max_depth`; the problem already has the whole path.
        own = f"{type(self.example).__name__.lower()}.{self.name} "
        problem = str(error.args[0]).removeprefix(own)
        hint = error.hint.replace(f"give {own}", "give ").replace("None", '"none"')
        return InvalidValue(problem, hint=hint)


def _without_none(hint: Any) -> tuple[bool, Any]:  # noqa: ANN401 - any annotation
    if get_origin(hint) in (Union, types.UnionType):
        others = [kind for kind in get_args(hint) if kind is not type(None)]
        return True, others[0]
    return False, hint


def _from_text(kind: Any, text: str) -> object:  # noqa: ANN401 - as above
    """Return the value of a text for a kind; the text itself if it has the wrong form."""
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
    if get_origin(kind) in (tuple, frozenset):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _decoded(kind: Any, value: object) -> object:  # noqa: ANN401 - as above
    if kind is float and value == "inf":  # JSON has no other way to write it
        return math.inf
    # A number or a choice is left to the validators of the class: their hints state the bounds.
    if kind is bool or is_collection(kind):
        return decode_light(kind, value)
    return value
