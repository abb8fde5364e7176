"""JSON schemas of annotations, which say what the strict decoder accepts.

Rule 1: a class has one schema, in `by_name`; other schemas refer to it by its name.
Rule 2: a field whose name is a word of Python ends in `_`, which its JSON name does not have.
Rule 3: a field may carry more of its schema in its metadata: `SCHEMA_KEY`, and its description
        under `DESCRIPTION_KEY`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

import attrs

from .annotations import (
    Partial,
    alternatives,
    field_kinds,
    is_collection,
    is_mapping,
    is_str_enum,
    plain_kind,
)

Schema: TypeAlias = dict[str, Any]

# Keys of the metadata of attrs fields.
SCHEMA_KEY: Final = "json_schema"
DESCRIPTION_KEY: Final = "description"

_LARGEST: Final = 2**63 - 1

_SCALARS: Final[Mapping[object, Schema]] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    int: {"type": "integer", "minimum": -_LARGEST - 1, "maximum": _LARGEST},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}

# Returns the description of a field from the name of its class and its own; empty for none.
DescribeField: TypeAlias = Callable[[str, str], str]


def _without_description(_class: str, _field: str) -> str:
    return ""


class Schemas:
    """JSON schemas of annotations; `refer_to` is the place of the classes in the document."""

    def __init__(
        self, *, refer_to: str = "#/$defs/", describe: DescribeField = _without_description
    ) -> None:
        self.by_name: dict[str, Schema] = {}
        self._kinds: dict[str, object] = {}
        self._refer_to = refer_to
        self._describe = describe

    def of(self, kind: Any) -> Schema:  # noqa: ANN401 - any annotation
        """Return the schema of an annotation."""
        kind = plain_kind(kind)
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        arguments = get_args(kind)
        if len(alternatives(kind)) > 1:
            return {"anyOf": [self.of(one) for one in arguments]}
        if get_origin(kind) is Literal or is_str_enum(kind):
            return {"type": "string", "enum": [str(word) for word in arguments or kind]}
        if is_collection(kind):
            unique = {"uniqueItems": True} if get_origin(kind) is frozenset else {}
            return {"type": "array", "items": self.of(arguments[0]), **unique}
        if is_mapping(kind):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        return self._of_class(kind)

    def _of_class(self, kind: Any) -> Schema:  # noqa: ANN401 - an attrs class, or a Partial of one
        is_partial = get_origin(kind) is Partial
        whole = get_args(kind)[0] if is_partial else kind
        name = _schema_name(whole, "Some" if is_partial else "")
        if self._kinds.setdefault(name, kind) != kind:
            raise TypeError(f"two classes are called {name}")
        if name not in self.by_name:
            self.by_name[name] = {}  # ends the recursion of a class that contains itself
            self.by_name[name] = self._of_fields(whole, is_partial=is_partial)
        return {"$ref": f"{self._refer_to}{name}"}

    def _of_fields(self, kind: Any, *, is_partial: bool) -> Schema:  # noqa: ANN401 - an attrs class
        made = get_origin(kind) or kind
        fields = {field.name: field for field in attrs.fields(made)}
        required = sorted(
            json_name(name) for name, one in fields.items() if one.default is attrs.NOTHING
        )
        return {
            "type": "object",
            "description": (inspect.getdoc(made) or "").replace("\n", " "),
            "properties": {
                json_name(name): self._of_field(made.__name__, fields[name], one)
                for name, one in field_kinds(kind).items()
            },
            "additionalProperties": False,
            **({"required": required} if required and not is_partial else {}),
        }

    def _of_field(self, owner: str, field: attrs.Attribute[Any], kind: Any) -> Schema:  # noqa: ANN401 - an annotation
        schema = self.of(kind)
        if SCHEMA_KEY in field.metadata:
            schema = with_constraints(schema, field.metadata[SCHEMA_KEY])
        said = field.metadata.get(DESCRIPTION_KEY) or self._describe(owner, field.name)
        return {**schema, "description": said} if said else schema


def schema_of_object(kind: Any) -> Schema:  # noqa: ANN401 - an attrs class
    """Return the schema of a class as a document of its own, with the classes inside under $defs.

    Defaults that are plain values are said, so that a reader of the schema knows them.
    """
    schemas = Schemas()
    schemas.of(kind)
    whole = schemas.by_name.pop(_schema_name(kind, ""))
    whole.pop("description")
    for field in attrs.fields(get_origin(kind) or kind):
        if isinstance(field.default, str | int | float):
            whole["properties"][json_name(field.name)]["default"] = field.default
    return {**whole, "$defs": schemas.by_name} if schemas.by_name else whole


def json_name(field: str) -> str:
    """Return the name of a field in JSON."""
    return field.removesuffix("_")


def with_constraints(schema: Schema, more: Mapping[str, Any]) -> Schema:
    """Return the schema with the constraints added; for a union, to its first alternative."""
    if "anyOf" not in schema:
        return {**schema, **more}
    first, *others = schema["anyOf"]
    return {"anyOf": [{**first, **more}, *others]}


def _schema_name(kind: Any, prefix: str) -> str:  # noqa: ANN401 - an attrs class
    """Return a name such as `Info`, or `PageOfInfo` for a generic class."""
    own = (get_origin(kind) or kind).__name__
    return "Of".join([prefix + own, *(one.__name__ for one in get_args(kind))])
