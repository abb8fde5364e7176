"""Strict JSON lines: data that a store cannot keep is refused.

Rule 1: an error names the line and never shows its content, which may be secret.
Rule 2: a truncated last line was left by a writer that was killed. It is not an error: everything
        before it is complete.

Also helpers for foreign files: fields that may be missing, and times as text.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from supervisor.core.errors import ImportFailed, short_repr

MAX_DEPTH: Final = 100
MAX_LINE_CHARS: Final = 128 * 1024 * 1024
_LINE_HINT: Final = "correct that line, or export the session again"

_STORABLE_INTEGERS: Final = range(-(2**63), 2**64)


def read_objects(
    lines: Iterable[str], warnings: list[str], *, max_chars: int = MAX_LINE_CHARS
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects, one a line, each with its line number; skip blank lines."""
    previous: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix("\ufeff")  # noqa: PLW2901 - some editors add a byte order mark
        if len(line) > max_chars:
            raise ImportFailed(
                f"it has more than {max_chars} characters",
                hint="a session has no line that long; check that it is the right file",
                line=number,
            )
        if line.strip():
            if previous is not None:
                yield previous[0], parse_object(previous[1], line=previous[0])
            previous = number, line
    if previous is None:
        return
    number, line = previous
    if not line.endswith("\n") and _is_truncated(line):
        warnings.append(f"line {number}, the last one, is truncated and was left out")
    else:
        yield number, parse_object(line, line=number)


def parse_object(text: str, *, line: int | None = None) -> dict[str, Any]:
    """Return the JSON object in a text; raise `ImportFailed` if it is not a JSON object."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise _failed(f"it is nested deeper than {MAX_DEPTH}", line) from None
    except json.JSONDecodeError as error:
        raise _failed(f"it is not JSON: {error.msg} at character {error.pos + 1}", line) from None
    except ValueError as error:
        raise _failed(str(error), line) from None
    if not isinstance(value, dict):
        raise _failed("it is not a JSON object", line)
    _check_storable(value, line)
    return value


def parse_value(text: str) -> Any:  # noqa: ANN401 - any plain data
    """Return the JSON value in a text; raise `ImportFailed` if it is not JSON."""
    return parse_object(f'{{"value":{text}}}')["value"]


def _failed(problem: str, line: int | None) -> ImportFailed:
    return ImportFailed(problem, hint=_LINE_HINT, line=line)


def _is_truncated(line: str) -> bool:
    try:
        json.loads(line)
    except RecursionError:
        return False
    except ValueError:
        return True
    return False


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has the same name twice")
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it has a number that is too large")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError(f"it has {text}, which is not a number")


def _bounded_int(text: str) -> int:
    # The length first: converting a very long number would take long.
    if len(text) > len(str(2**64)) or int(text) not in _STORABLE_INTEGERS:
        raise ValueError("it has a whole number that is too large")
    return int(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique_keys,
    parse_float=_finite,
    parse_int=_bounded_int,
    parse_constant=_refuse_constant,
)


def _check_storable(value: object, line: int | None) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += (*item, *item.values())
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and _has_lone_surrogate(item):
                raise _failed("it has a lone surrogate, or bytes that are not text", line)
        level = below
        if not level:
            return
    raise _failed(f"it is nested deeper than {MAX_DEPTH}", line)


def _has_lone_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


T = TypeVar("T")

# The limit of the programs that write these files.
MAX_FOREIGN_LINE_CHARS: Final = 10 * 1024 * 1024

_FIELD_HINT: Final = "check the file and the format; correct that line, or leave it out"


def field(entry: Mapping[str, Any], name: str, kind: type[T], *, line: int | None) -> T:
    """Return a field of that type, or the type's empty value if the field is missing or null.

    Raise `ImportFailed` if it has another type.
    """
    value = entry.get(name)
    if value is None:
        return kind()
    if type(value) is not kind:
        raise ImportFailed(f"its {name} is {short_repr(value)}", hint=_FIELD_HINT, line=line)
    return value


def object_list(entry: Mapping[str, Any], name: str, *, line: int | None) -> list[dict[str, Any]]:
    """Return a field that is a list of objects; raise `ImportFailed` if it is not."""
    found = field(entry, name, list, line=line)
    if not all(isinstance(item, dict) for item in found):
        raise ImportFailed(
            f"its {name} has an item that is not an object", hint=_FIELD_HINT, line=line
        )
    return found


def time_field(entry: Mapping[str, Any], name: str, *, line: int | None) -> float | None:
    """Return an RFC 3339 time in seconds; None if it is missing or Go's zero time, in year 1."""
    text = field(entry, name, str, line=line)
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ImportFailed(
            f"its {name} is {short_repr(text)}", hint=_FIELD_HINT, line=line
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return moment.timestamp() if moment.year > 1 else None


def without_empty(**fields: str) -> dict[str, str]:
    """Return the fields whose value is not empty."""
    return {name: value for name, value in fields.items() if value}
