"""JSON as we take it from strangers: everything that a store could not keep is refused.

Rule 1: an error names the line, and never shows what is in it: that may be anybody's secret.
Rule 2: a last line that breaks off was left by a writer that was killed. It is no error: what
        stands before it is whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from supervisor.core.errors import ImportFailed

MAX_DEPTH: Final = 100
MAX_LINE_LETTERS: Final = 128 * 1024 * 1024
_MEND: Final = "mend that line, or export the session again"
_WHOLE_NUMBERS: Final = range(-(2**63), 2**64)


def objects_in(
    lines: Iterable[str], warnings: list[str], *, longest: int = MAX_LINE_LETTERS
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects, one a line, each with the number of its line; blank lines are passed over."""
    waiting: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix("\ufeff")  # noqa: PLW2901 - some editors put it there
        if len(line) > longest:
            raise ImportFailed(
                f"it has more than {longest} letters",
                hint="nothing that is a session has such a line; is it the right file?",
                line=number,
            )
        if line.strip():
            if waiting is not None:
                yield waiting[0], object_of(waiting[1], line=waiting[0])
            waiting = number, line
    if waiting is None:
        return
    number, line = waiting
    if not line.endswith("\n") and _breaks_off(line):
        warnings.append(f"line {number}, the last one, breaks off and was left out")
    else:
        yield number, object_of(line, line=number)


def object_of(text: str, *, line: int | None = None) -> dict[str, Any]:
    """The JSON object that a text is, strictly."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise _failed(f"it is nested deeper than {MAX_DEPTH}", line) from None
    except json.JSONDecodeError as error:
        raise _failed(f"it is no JSON: {error.msg} at letter {error.pos + 1}", line) from None
    except ValueError as error:
        raise _failed(str(error), line) from None
    if not isinstance(value, dict):
        raise _failed("it is no JSON object", line)
    _refuse_unless_storable(value, line)
    return value


def value_of(text: str) -> Any:  # noqa: ANN401 - any plain data
    """The plain data that a text is; raises `ImportFailed` for everything else."""
    return object_of(f'{{"it":{text}}}')["it"]


def _failed(problem: str, line: int | None) -> ImportFailed:
    return ImportFailed(problem, hint=_MEND, line=line)


def _breaks_off(line: str) -> bool:
    try:
        json.loads(line)
    except RecursionError:
        return False
    except ValueError:
        return True
    return False


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("it has the same name twice in one object")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it has a number that is too large")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"it has {text}, which is no number")


def _whole(text: str) -> int:
    # More digits than any number that can be kept; turning them into one would take long.
    if len(text) > len(str(2**64)) or int(text) not in _WHOLE_NUMBERS:
        raise ValueError("it has a whole number that is too large")
    return int(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_without_repeats,
    parse_float=_finite,
    parse_int=_whole,
    parse_constant=_no_constant,
)


def _refuse_unless_storable(value: object, line: int | None) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += (*item, *item.values())
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and _has_half_a_character(item):
                raise _failed("it has half of a character, or bytes that are no text", line)
        level = below
        if not level:
            return
    raise _failed(f"it is nested deeper than {MAX_DEPTH}", line)


def _has_half_a_character(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
