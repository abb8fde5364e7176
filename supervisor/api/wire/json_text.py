"""A body's bytes into plain data: what passes here can be stored, compared and shown.

orjson alone refuses text with half characters, numbers without end and what is no UTF-8, but takes
the last of two equal names and makes an approximation of a large number. Python's own parser lets
us look at both, and would fail on its own at depth, so depth is looked at in between.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from .problems import RequestRefused

MAX_DEPTH: Final = 64
_LARGEST: Final = 2**63


def parse(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The JSON in a body; raises `RequestRefused` with what is wrong with it."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _refusal(f"the body is no JSON: {error}", "send one object as JSON") from None
    if _depth(value) > MAX_DEPTH:
        raise _refusal(f"the body is nested more than {MAX_DEPTH} deep", "send something flatter")
    return json.loads(body, object_pairs_hook=_without_repeats, parse_int=_whole)


def _depth(value: object) -> int:
    """How deep lists and objects are nested, or one more than is allowed."""
    depth = 0
    level: list[object] = [value]
    while level and depth <= MAX_DEPTH:
        inside: list[object] = []
        for one in level:
            if type(one) is dict:
                inside.extend(one.values())
            elif type(one) is list:
                inside.extend(one)
        if not any(type(one) in (dict, list) for one in level):
            return depth
        level = inside
        depth += 1
    return depth


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _refusal("the body has the same name twice in one object", "give each name once")
    return made


def _whole(digits: str) -> int:
    number = int(digits) if len(digits) <= len(str(-_LARGEST)) else _LARGEST
    if not -_LARGEST <= number < _LARGEST:
        raise _refusal(
            "the body has a whole number that 64 bits cannot hold", "give a smaller one, or a text"
        )
    return number


def _refusal(problem: str, hint: str) -> RequestRefused:
    return RequestRefused("bad_json", problem, hint=hint)
