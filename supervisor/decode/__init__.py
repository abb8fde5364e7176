"""Decoders of plain data: `strict` for untrusted input, `light` for trusted data.

Rule 1: no coercion. "5" is not a number, 1.0 is not an integer, true is neither; numbers are
        finite and integers fit 64 bits; unknown fields are refused.
Rule 2: every fault has a path, and one error reports all faults, up to `MAX_INVALID_FIELDS`.
Rule 3: importing this package does not import cattrs, which a short command does not need;
        `decode` and `strict` do.

`strict` uses cattrs with strict hooks and decodes HTTP bodies and stored rows; `store/codec.py`
builds on the same hooks. `light` decodes answers of our own daemon and the configuration without
cattrs; it reports only the first fault and ignores unknown fields. Both read annotations with
`annotations`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from .annotations import (
    MAX_INVALID_FIELDS,
    Check,
    Checked,
    DecodeError,
    InvalidField,
    Partial,
    alternatives,
    field_kinds,
    format_path,
    is_collection,
    is_mapping,
    is_str_enum,
    json_types,
    plain_kind,
)
from .light import decode_light

__all__ = [
    "MAX_INVALID_FIELDS",
    "Check",
    "Checked",
    "DecodeError",
    "InvalidField",
    "Partial",
    "alternatives",
    "decode",
    "decode_light",
    "field_kinds",
    "format_path",
    "is_collection",
    "is_mapping",
    "is_str_enum",
    "json_types",
    "make_decoder",
    "plain_kind",
]

T = TypeVar("T")


def decode(kind: type[T], value: object, *, root: str = "$") -> T:
    """Return plain data as a `kind`; raise DecodeError with every fault.

    Paths of faults start with `root`. The cast is here because mypy does not accept a union as
    `type[T]`.
    """
    from .strict import structure  # noqa: PLC0415 - cattrs costs a short command 45 ms

    made: T = structure(kind, value, root)
    return made


def make_decoder(kind: type[T]) -> Callable[[object, str], T]:
    """Return a function that takes plain data and a root, and decodes as `decode` does.

    It is faster for a kind that is decoded repeatedly.
    """
    from .strict import structure  # noqa: PLC0415 - as above

    return functools.partial(structure, kind)
