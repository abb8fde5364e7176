"""Trace context of an input: the fields of W3C Trace Context and W3C Baggage.

Rule 1: what is not valid is not carried on; `tracestate` without a `traceparent` means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .errors import InputRefused

TRACE_FIELDS: Final = ("traceparent", "tracestate", "baggage")
MAX_STATE_LETTERS: Final = 512
MAX_BAGGAGE_LETTERS: Final = 8192

_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_KEY: Final = r"[a-z0-9][a-z0-9_\-*/]{0,255}(?:@[a-z][a-z0-9_\-*/]{0,13})?"
_VALUE: Final = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}"
_STATE: Final = re.compile(rf"[ \t]*{_KEY}={_VALUE}(?:,[ \t]*(?:{_KEY}={_VALUE})?){{0,31}}")
_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_MEMBER: Final = rf"[ \t]*{_NAME}[ \t]*=[\x20\x21\x23-\x2b\x2d-\x7e]*"
_BAGGAGE: Final = re.compile(rf"{_MEMBER}(?:,{_MEMBER})*")


def valid_trace(given: Mapping[str, object]) -> dict[str, str]:
    """Return the fields that are valid."""
    found = {
        name: value
        for name in TRACE_FIELDS
        if isinstance(value := given.get(name), str) and _is_valid(name, value)
    }
    if "traceparent" not in found:
        found.pop("tracestate", None)
    return found


def check_trace(trace: object) -> dict[str, str]:
    """Return the trace context; raise `InputRefused` unless all of it is valid."""
    found = valid_trace(trace) if isinstance(trace, Mapping) else None
    if found is None or found != trace:
        raise InputRefused(
            "the trace context is not valid",
            hint=f"give {', '.join(TRACE_FIELDS)} as the W3C describes them",
        )
    return found


def _is_valid(name: str, value: str) -> bool:
    match name:
        case "traceparent":
            return _PARENT.fullmatch(value) is not None
        case "tracestate":
            return len(value) <= MAX_STATE_LETTERS and _STATE.fullmatch(value) is not None
        case _:
            return len(value) <= MAX_BAGGAGE_LETTERS and _BAGGAGE.fullmatch(value) is not None
