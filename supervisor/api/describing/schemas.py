"""Annotations as JSON schemas, for the document."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final, assert_never, get_args

import orjson

from supervisor.api.wire.kinds import (
    Anything,
    Choice,
    Fields,
    Many,
    Named,
    OneOf,
    Simple,
    Word,
    shape_of,
)
from supervisor.api.wire.writing import encode

from .forms import Field, Form
from .words import word_for

Schema = dict[str, Any]

_LARGEST: Final = 2**63 - 1
_SIMPLE: Final[Mapping[Word, Schema]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer", "minimum": -_LARGEST - 1, "maximum": _LARGEST},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "nothing": {"type": "null"},
}


class Schemas:
    """Schemas as they are asked for; those of classes are kept, and referred to by name."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._kinds: dict[str, object] = {}

    def of(self, kind: Any) -> Schema:  # noqa: ANN401, PLR0911 - any annotation; one for each shape
        """The schema of an annotation."""
        shape = shape_of(kind)
        match shape:
            case Anything():
                return {}
            case Simple(word):
                return dict(_SIMPLE[word])
            case Choice(words):
                return {"type": "string", "enum": [str(word) for word in words]}
            case Many(item, make):
                unique = {"uniqueItems": True} if make is frozenset else {}
                return {"type": "array", "items": self.of(item), **unique}
            case Named(item):
                return {"type": "object", "additionalProperties": self.of(item)}
            case Fields():
                return self._of_class(kind, shape)
            case OneOf(kinds):
                return {"anyOf": [self.of(one) for one in kinds]}
            case _:
                assert_never(shape)

    def of_form(self, form: Form) -> Schema:
        """The schema of a body."""
        needed = [field.name for field in form.fields if field.is_needed]
        return {
            "type": "object",
            "properties": {field.name: self.of_field(field) for field in form.fields},
            "additionalProperties": False,
            **({"required": needed} if needed else {}),
        }

    def of_field(self, field: Field) -> Schema:
        """The schema of one argument: what it may be, what it is, and what it is if not given."""
        schema = self.of(field.kind)
        if field.rule is not None and field.rule.schema:
            schema = _narrowed(schema, field.rule.schema)
        if not field.is_needed and field.default is not None:
            schema = {**schema, "default": _plain(field.default)}
        return {**schema, "description": word_for(field.name)}

    def _of_class(self, kind: Any, shape: Fields) -> Schema:  # noqa: ANN401 - as above
        name = _name(kind, shape)
        if self._kinds.setdefault(name, kind) != kind:
            raise TypeError(f"two classes are called {name}")
        if name not in self.named:
            self.named[name] = {}  # so that one which has itself inside comes to an end
            self.named[name] = {
                "type": "object",
                "description": (inspect.getdoc(shape.kind) or "").replace("\n", " "),
                "properties": {field: self.of(one) for field, one in shape.fields.items()},
                "additionalProperties": False,
                **({"required": sorted(shape.needed)} if shape.needed else {}),
            }
        return {"$ref": f"#/components/schemas/{name}"}


def _name(kind: Any, shape: Fields) -> str:  # noqa: ANN401 - an attrs class
    """`Info`, and `PageOfInfo` for a page of those."""
    inside = [] if shape.partial else [one.__name__ for one in get_args(kind)]
    return "Of".join([shape.name, *inside])


def _narrowed(schema: Schema, more: Mapping[str, Any]) -> Schema:
    """The schema with further conditions, on that of its alternatives which they are about."""
    if "anyOf" not in schema:
        return {**schema, **more}
    first, *others = schema["anyOf"]
    return {"anyOf": [{**first, **more}, *others]}


def _plain(default: object) -> object:
    """As JSON gives it."""
    return orjson.loads(encode(default))
