"""Parsing of JSON bodies: strict, with a bound on depth.

A body is parsed twice. orjson refuses lone surrogates, infinite numbers and bytes that are not
UTF-8, but takes the last of two equal names and approximates a large integer. The parser of the
standard library lets us refuse both, but fails at depth, so the depth is checked in between.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from .problems import RequestRefused

MAX_DEPTH: Final = 64

_LARGEST: Final = 2**63


def parse_json(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a JSON body.

    Raise RequestRefused if it is malformed or nested too deeply.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _bad_json_error(f"the body is not JSON: {error}", "send one JSON object") from None
    if _depth(value) > MAX_DEPTH:
        raise _bad_json_error(
            f"the body is nested more than {MAX_DEPTH} levels deep", "send less nested data"
        )
    return json.loads(body, object_pairs_hook=_unique_names, parse_int=_parse_int)


def _depth(value: object) -> int:
    """Return the nesting depth of lists and objects; stop counting one above the allowed depth."""
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


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _bad_json_error(
            "an object in the body has the same name twice", "give each name once"
        )
    return made


def _parse_int(digits: str) -> int:
    number = int(digits) if len(digits) <= len(str(-_LARGEST)) else _LARGEST
    if not -_LARGEST <= number < _LARGEST:
        raise _bad_json_error(
            "the body has an integer of more than 64 bits", "give a smaller integer, or a string"
        )
    return number


def _bad_json_error(problem: str, hint: str) -> RequestRefused:
    return RequestRefused("bad_json", problem, hint=hint)
