"""JSON answers of any depth: a tree of sessions may be deeper than a recursive parser allows."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

# A string, a bracket, or a number or word; commas, colons and spaces only separate them.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^\s,:\[\]{}"]+')

_CLOSING: Final = {b"]": list, b"}": dict}


def parse_json(content: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text; raise `orjson.JSONDecodeError` if the text is not JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if "depth limit" not in error.msg.lower():
            raise
    return _parse_deep(content)


def _parse_deep(content: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse without recursion, for an answer of our own daemon: missing commas are not noticed."""
    top: list[Any] = []
    # The open containers, the innermost last, and the name in each object that has no value yet.
    containers: list[Any] = [top]
    names: list[str | None] = [None]
    for token in _TOKEN.findall(content):
        inner = containers[-1]
        if token in _CLOSING:
            if type(inner) is not _CLOSING[token] or len(containers) == 1:
                break
            containers.pop()
            names.pop()
        elif type(inner) is dict and names[-1] is None:
            names[-1] = orjson.loads(token)
        else:
            value: Any = [] if token == b"[" else {} if token == b"{" else orjson.loads(token)
            if type(inner) is list:
                inner.append(value)
            else:
                inner[names[-1]] = value
                names[-1] = None
            if token in (b"[", b"{"):
                containers.append(value)
                names.append(None)
    else:
        if len(containers) == len(top) == 1:
            return top[0]
    raise orjson.JSONDecodeError("the brackets do not match", content.decode(errors="replace"), 0)
