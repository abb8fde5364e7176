"""The fields of a frozen class as values of a configuration.

What a value must be is said once, by the validators of the class. Here it is only brought into the
shape that they know: text from the environment becomes a number, "none" becomes None.
"""

from __future__ import annotations

import math
import re
import types
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from supervisor.core.errors import ConfigError, shown

from .places import expanded
from .schema import Leaf, Node, Table
from .sources import Source, Wrong

# In the metadata of a field that is a path.
PATH: Final = "path"

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
_WORDS: Final = {"true": True, "false": False}


def table_of(example: attrs.AttrsInstance) -> Table:
    """A table with a value for each field of the example's class, and a table for each part."""
    kind = type(example)
    hints = get_type_hints(kind)
    nodes: dict[str, Node] = {}
    for field in attrs.fields(kind):
        part = getattr(example, field.name)
        if attrs.has(type(part)):
            nodes[field.name] = table_of(part)
        else:
            nodes[field.name] = Leaf(
                _Field(example, field.name, hints[field.name], field.metadata.get(PATH, False))
            )
    return Table(nodes)


@attrs.frozen
class _Field:
    """Reads the value of one field: fitted, then checked by the class itself."""

    example: Any  # of a class of attrs
    name: str
    hint: Any
    is_path: bool

    def __call__(self, value: object, source: Source) -> object:
        optional, kind = _without_none(self.hint)
        if source.is_text and isinstance(value, str):
            value = _from_text(kind, value)
        value = None if optional and value == "none" else _fitted(kind, value)
        if self.is_path and isinstance(value, str):
            value = expanded(value, folder=source.folder, home=source.home) if value else value
        try:
            attrs.evolve(self.example, **{self.name: value})
        except ConfigError as error:
            raise self._wrong(error) from None
        return float(value) if kind is float and isinstance(value, int) else value

    def _wrong(self, error: ConfigError) -> Wrong:
        # The class speaks of `limits.max_depth`; here the whole path is said by others.
        own = f"{type(self.example).__name__.lower()}.{self.name} "
        problem = str(error.args[0]).removeprefix(own)
        hint = error.hint.replace(f"give {own}", "give ").replace("None", '"none"')
        return Wrong(problem, hint=hint)


def _without_none(hint: Any) -> tuple[bool, Any]:  # noqa: ANN401 - a type hint is anything
    if get_origin(hint) in (Union, types.UnionType):
        others = [kind for kind in get_args(hint) if kind is not type(None)]
        return True, others[0]
    return False, hint


def _from_text(kind: Any, text: str) -> object:  # noqa: ANN401 - as above
    """What a text means where that kind is wanted; the text itself, if nothing."""
    text = text.strip()
    if kind is int and _WHOLE.fullmatch(text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            return text
    if kind is bool:
        return _WORDS.get(text.lower(), text)
    if get_origin(kind) in (tuple, frozenset):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _fitted(kind: Any, value: object) -> object:  # noqa: ANN401 - as above
    if kind is float and value == "inf":  # JSON has no other way to say it
        return math.inf
    if kind is bool and not isinstance(value, bool):
        raise Wrong(f"is {shown(value)}", hint="write true or false")
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(value)
    return value
