"""What may stand in a configuration, as a tree: tables of known names, tables of any names, values.

Walking a layer along the tree gives its values, each read and checked by itself, and everything
that is wrong with it. So a wrong value is found even where another layer would have hidden it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from supervisor.core.errors import shown

from .sources import KeyPath, Problem, Source, Value, Wrong, dotted

# Reads one value, and gives it as it is meant; raises `Wrong`.
Reader: TypeAlias = Callable[[object, Source], object]


@attrs.frozen
class Leaf:
    """A value; what it is when nobody says anything is known elsewhere."""

    read: Reader


@attrs.frozen
class Table:
    """A table whose names are known."""

    nodes: Mapping[str, Node]


@attrs.frozen
class Names:
    """A table whose names are the user's; `check` raises `Wrong` for one that cannot be used."""

    node: Node
    check: Callable[[str], None]


Node: TypeAlias = Leaf | Table | Names


@attrs.frozen
class Layer:
    """What one source says: the values that can be used, and all that is wrong."""

    values: dict[KeyPath, Value] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)


def walk(schema: Table, tables: Mapping[str, Any], source: Source) -> Layer:
    """Read everything that a source says."""
    layer = Layer()
    _walk_table(schema, tables, (), source, layer)
    return layer


def _walk(node: Node, value: object, at: KeyPath, source: Source, layer: Layer) -> None:
    if isinstance(node, Leaf):
        try:
            read = node.read(value, source)
        except Wrong as wrong:
            _complain(layer, source, at, wrong)
        else:
            layer.values[at] = Value(read, source.origin(at))
    elif not isinstance(value, Mapping):
        hint = f"write [{dotted(at)}] on a line of its own, and its values below"
        _complain(layer, source, at, Wrong(f"is {shown(value)}, not a table", hint=hint))
    elif isinstance(node, Table):
        _walk_table(node, value, at, source, layer)
    else:
        for name, inside in value.items():
            try:
                node.check(name)
                _refuse_empty(node.node, inside)
            except Wrong as wrong:
                _complain(layer, source, (*at, name), wrong)
            else:
                _walk(node.node, inside, (*at, name), source, layer)


def _refuse_empty(node: Node, value: object) -> None:
    # It would vanish without a word, and whoever named it would look for it in vain.
    if isinstance(node, Table) and value == {}:
        raise Wrong("says nothing", hint=f"give it some of {', '.join(node.nodes)}")


def _walk_table(
    table: Table, values: Mapping[str, Any], at: KeyPath, source: Source, layer: Layer
) -> None:
    for name, inside in values.items():
        node = table.nodes.get(name)
        if node is None:
            wrong = Wrong("is no setting", hint=_suggestion(table, name, at))
            _complain(layer, source, (*at, name), wrong)
        else:
            _walk(node, inside, (*at, name), source, layer)


def _complain(layer: Layer, source: Source, at: KeyPath, wrong: Wrong) -> None:
    layer.problems.append(Problem(dotted(at), wrong.problem, wrong.hint, source.origin(at)))


def _suggestion(table: Table, name: str, at: KeyPath) -> str:
    close = difflib.get_close_matches(name, table.nodes, n=1)
    if close:
        return f"did you mean {dotted((*at, close[0]))}?"
    # Often the name is right, and only the table is missing above it.
    deeper = [path for path in leaves(table) if path[-1] == name]
    if deeper:
        return f"did you mean {dotted(at + deeper[0])}?"
    return f"there are {', '.join(table.nodes)}"


def leaves(node: Node) -> Iterator[KeyPath]:
    """The paths of all values whose names are known."""
    if isinstance(node, Leaf):
        yield ()
    elif isinstance(node, Table):
        for name, inside in node.nodes.items():
            for path in leaves(inside):
                yield (name, *path)
