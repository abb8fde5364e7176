"""The strict converter: cattrs with hooks that coerce nothing and refuse unknown fields.

`decode` uses it with detailed errors, which report every fault with its path. `store/codec.py` uses
it without detailed errors, which is faster and raises the first fault.
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import attrs
from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.errors import AttributeValidationNote, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override
from cattrs.gen.typeddicts import make_dict_structure_fn as make_typed_dict_structure_fn

from supervisor.core.errors import SupervisorError

from .annotations import (
    MAX_INVALID_FIELDS,
    UNIONS,
    Checked,
    DecodeError,
    InvalidField,
    Mismatch,
    exact_integer,
    exact_number,
    field_kinds,
    format_path,
    is_collection,
    is_mapping,
    is_partial,
    json_types,
    not_a_choice,
    require_json_type,
    suggest,
)

# A hook of cattrs: takes the plain value and the annotation, returns the value.
Hook: TypeAlias = Callable[[Any, Any], Any]


def structure(kind: Any, value: object, root: str) -> Any:  # noqa: ANN401 - returns a `kind`
    """Return plain data as a `kind`; raise DecodeError with every fault."""
    try:
        return _converter().structure(value, kind)
    except (Mismatch, SupervisorError, ClassValidationError, IterableValidationError) as error:
        faults = itertools.islice(_faults(error, root, ()), MAX_INVALID_FIELDS)
        raise DecodeError(tuple(faults)) from None


@functools.cache
def _converter() -> Converter:
    return make_converter(detailed=True)


def make_converter(*, detailed: bool) -> Converter:
    """Return a converter with the strict hooks.

    With `detailed` the converter collects all faults with their paths; otherwise it raises the
    first fault unchanged, which is faster.
    """
    converter = Converter(forbid_extra_keys=True, detailed_validation=detailed)
    for kind, hook in (
        (str, _exact(str)),
        (bool, _exact(bool)),
        (int, exact_integer),
        (float, _number),
    ):
        converter.register_structure_hook(kind, hook)
    converter.register_structure_hook(types.NoneType, _exact(types.NoneType))
    # By class, as str is: cattrs asks for the class first, and an enum of strings is a str.
    converter.register_structure_hook(enum.StrEnum, _enum_member)
    converter.register_structure_hook_func(_is_anything, _unchanged)
    for is_kind, factory in (
        (attrs.has, _class_hook),
        (typing.is_typeddict, _typed_dict_hook),
        (is_partial, _partial_hook),
        (is_mapping, _mapping_hook),
        (is_collection, _collection_hook),
        (_is_literal, _literal_hook),
        (_is_union, _union_hook),
        (_is_checked, _checked_hook),
    ):
        converter.register_structure_hook_factory(
            is_kind, functools.partial(_make_hook, factory, converter)
        )
    return converter


def _make_hook(factory: Any, converter: Converter, kind: Any) -> Hook:  # noqa: ANN401 - see Hook
    hook: Hook = factory(kind, converter)
    return hook


def _is_anything(kind: object) -> bool:
    return kind is object or kind is Any


def _unchanged(value: object, _: object) -> object:
    return value


def _exact(kind: type) -> Hook:
    def check(value: object, _: object) -> object:
        if type(value) is not kind:
            require_json_type(kind, value)
        return value

    return check


def _number(value: object, _: object) -> float:
    number = value if type(value) is float else exact_number(value)
    if not math.isfinite(number):
        raise Mismatch(f"is {number!r}", "give a finite number")
    return number


def _enum_member(value: object, kind: Any) -> object:  # noqa: ANN401 - see Hook
    # Only a plain str: a member of another enum would compare equal.
    if type(value) is not str:
        require_json_type(str, value)
    member = kind._value2member_map_.get(value)
    if member is None:
        raise not_a_choice(value, kind)
    return member


def _literal_hook(kind: Any, _: Converter) -> Hook:  # noqa: ANN401 - see Hook
    words = frozenset(get_args(kind))

    def choose(value: object, _: object) -> object:
        if type(value) is not str:
            require_json_type(str, value)
        if value not in words:
            raise not_a_choice(value, get_args(kind))
        return value

    return choose


def _union_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    """Return a hook that tries the alternatives that fit the JSON type of the value, in order."""
    hooks: dict[type, tuple[Hook, Any]] = {}
    for one in get_args(kind):
        hook = converter.get_structure_hook(one)
        for json_type in json_types(one):
            hooks.setdefault(json_type, (hook, one))

    def structure(value: object, _: object) -> object:
        if value is None and types.NoneType in hooks:
            return None
        if type(value) not in hooks:
            require_json_type(kind, value)
        hook, one = hooks[type(value)]
        return hook(value, one)

    return structure


def _checked_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    inner, *metadata = get_args(kind)
    checks = [one.check for one in metadata if isinstance(one, Checked)]
    hook = converter.get_structure_hook(inner)

    def structure(value: object, _: object) -> object:
        made = hook(value, inner)
        if made is not None:
            for check in checks:
                check(made)
        return made

    return structure


def _is_literal(kind: object) -> bool:
    return get_origin(kind) is Literal


def _is_union(kind: object) -> bool:
    return get_origin(kind) in UNIONS


def _is_checked(kind: object) -> bool:
    return get_origin(kind) is Annotated


def _mapping_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    item_kind = get_args(kind)[1]
    is_any = _is_anything(item_kind)
    hook = converter.get_structure_hook(item_kind)

    def structure(value: Any, _: object) -> object:  # noqa: ANN401 - plain data
        if type(value) is not dict:
            require_json_type(kind, value)
        if is_any:
            return value
        if not converter.detailed_validation:
            return {name: hook(item, item_kind) for name, item in value.items()}
        return dict(_structure_items(kind, item_kind, hook, value.items()))

    return structure


def _collection_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    origin: Any = get_origin(kind)
    make: Any = origin if origin in (list, frozenset) else tuple
    item_kind = get_args(kind)[0]
    hook = converter.get_structure_hook(item_kind)

    def structure(value: Any, _: object) -> object:  # noqa: ANN401 - plain data
        if type(value) is not list:
            require_json_type(kind, value)
        if not converter.detailed_validation:
            return make([hook(item, item_kind) for item in value])
        return make([made for _, made in _structure_items(kind, item_kind, hook, enumerate(value))])

    return structure


def _structure_items(
    kind: Any,  # noqa: ANN401 - any annotation
    item_kind: Any,  # noqa: ANN401 - any annotation
    hook: Hook,
    items: Iterable[tuple[Any, Any]],
) -> list[tuple[Any, Any]]:
    """Return the decoded items with their keys; raise one error for all invalid items."""
    made, errors = [], []
    for place, item in items:
        try:
            made.append((place, hook(item, item_kind)))
        except Exception as error:  # noqa: BLE001 - cattrs collects in the same way
            error.add_note(IterableValidationNote("", place, item_kind))
            errors.append(error)
            if len(errors) == MAX_INVALID_FIELDS:  # a body has room for half a million of them
                break
    if errors:
        raise IterableValidationError("invalid items", errors, kind)
    return made


def _class_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    structure_fields = make_dict_structure_fn(kind, converter, **_redefined(kind, converter))

    def structure(value: Any, _: object) -> object:  # noqa: ANN401 - plain data
        if type(value) is not dict:
            require_json_type(kind, value)
        try:
            return structure_fields(value, kind)
        except ClassValidationError as error:
            refusal = _refusal_of_class(error)
            if refusal is None:
                raise
            raise _refused_fields(kind, structure_fields, value, refusal) from None

    return structure


def _redefined(kind: Any, converter: Converter) -> dict[str, Any]:  # noqa: ANN401 - see Hook
    """Return hooks for fields that a plain subclass annotates differently from its base.

    Such a class (`Node`) inherits the attrs fields of its base, where cattrs would read their
    types.
    """
    own = vars(get_origin(kind) or kind)
    if "__attrs_attrs__" in own:
        return {}
    kinds = field_kinds(kind)

    def hook_for(name: str) -> Hook:
        return lambda value, _: converter.structure(value, kinds[name])

    return {name: override(struct_hook=hook_for(name)) for name in own.get("__annotations__", {})}


def _refusal_of_class(error: ClassValidationError) -> SupervisorError | None:
    """Return the error that the class itself raised for its fields; None for any other error."""
    with_notes, others = error.group_exceptions()
    if not with_notes and len(others) == 1 and isinstance(others[0], SupervisorError):
        return others[0]
    return None


def _refused_fields(
    kind: Any,  # noqa: ANN401 - an attrs class
    structure_fields: Hook,
    value: Mapping[str, Any],
    refusal: SupervisorError,
) -> Exception:
    """Return the error for a class that refused its fields.

    Each field is tried alone, because the error of the class does not name the field. If no single
    field is refused, the fault has the path of the object.
    """
    errors: list[Exception] = []
    for name, item in value.items():
        try:
            structure_fields({name: item}, kind)
        except ClassValidationError as error:
            alone = _refusal_of_class(error)
            if alone is None:  # the class has required fields
                break
            alone.add_note(AttributeValidationNote("", name, kind))
            errors.append(alone)
    return ClassValidationError("refused", errors or [refusal], kind)


def _typed_dict_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    structure_fields = make_typed_dict_structure_fn(kind, converter)

    def structure(value: Any, _: object) -> object:  # noqa: ANN401 - plain data
        if type(value) is not dict:
            require_json_type(kind, value)
        return structure_fields(value, kind)

    return structure


def _partial_hook(kind: Any, converter: Converter) -> Hook:  # noqa: ANN401 - see Hook
    (whole_kind,) = get_args(kind)
    hook = converter.get_structure_hook(whole_kind)

    def structure(value: Any, _: object) -> object:  # noqa: ANN401 - plain data
        whole = hook(value, whole_kind)
        return {name: getattr(whole, name) for name in value}

    return structure


def _faults(error: Exception, root: str, path: tuple[str | int, ...]) -> Iterator[InvalidField]:
    """Yield the faults inside an error of cattrs.

    `cattrs.transform_error` is not used: it reports all unknown fields of an object as one
    message, does not escape names in paths, and returns no hints.
    """
    at = format_path(root, path)
    match error:
        case ClassValidationError() | IterableValidationError():
            for inner in error.exceptions:
                yield from _faults(inner, root, (*path, *_place(inner)))
        case ForbiddenExtraKeysError():
            known = _field_names(error.cl)
            for name in sorted(error.extra_fields):
                unknown_path = format_path(root, (*path, name))
                yield InvalidField(unknown_path, "unknown field", suggest(name, known))
        case Mismatch():
            yield InvalidField(at, error.detail, error.hint)
        case SupervisorError():
            yield InvalidField(at, error.args[0], error.hint, error.code)
        case KeyError():
            yield InvalidField(at, "required field missing", "give it")
        case _:
            raise error


def _place(error: Exception) -> tuple[str | int, ...]:
    """Return the field name or the index that cattrs noted on the error; empty if there is none."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return (note.name,)
        if isinstance(note, IterableValidationNote):
            return (note.index,)
    return ()


def _field_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - an attrs class or a TypedDict
    if typing.is_typeddict(kind):
        return tuple(kind.__annotations__)
    return tuple(field.name for field in attrs.fields(kind))
