"""Values of the embedding API as JSON.

Rule 1: an object has the fields of its class by name; sets are sorted lists.
Rule 2: the depth of a tree or of a body is not limited.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import orjson

from supervisor.core.info import Info, Node
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.session_values import Spending, Usage

# Items encoded between two checkpoints, so that other tasks run.
_ITEMS_PER_CHECKPOINT: Final = 100


def encode(thing: object) -> bytes:
    """Return a value of the embedding API as JSON."""
    if type(thing) is Node:
        return b"".join(_encode_tree(thing))
    return orjson.dumps(thing, default=_encode_default)


async def encode_page(items: Sequence[object], following: str | None) -> bytes:
    """Return a page as JSON with `items` and `next`; other tasks may run between two items."""
    rows = await encode_list(items)
    return b'{"items":%b,"next":%b}' % (rows, orjson.dumps(following))


async def encode_list(items: Sequence[object]) -> bytes:
    """Return a list as JSON; other tasks may run between two items."""
    import trio  # noqa: PLC0415 - clients encode too, and may run without it

    pieces: list[bytes] = []
    for place, item in enumerate(items):
        if place % _ITEMS_PER_CHECKPOINT == _ITEMS_PER_CHECKPOINT - 1:
            await trio.lowlevel.checkpoint()
        pieces.append(encode(item))
    return b"[%b]" % b",".join(pieces)


def _encode_default(thing: Any) -> object:  # noqa: ANN401 - any value that orjson does not support
    kind: Any = type(thing)
    if kind is Record:
        # A body may have the depth limit of orjson; encoded apart, it does not exceed it in a page.
        return {**_fields_getter(kind)(thing), "body": orjson.Fragment(orjson.dumps(thing.body))}
    if kind is Node:
        return orjson.Fragment(encode(thing))
    if kind in _CACHED_KINDS:
        return orjson.Fragment(_encode_cached(thing))
    if attrs.has(kind):
        return _fields_getter(kind)(thing)
    if isinstance(thing, frozenset):
        return sorted(thing)
    if isinstance(thing, Mapping):
        return dict(thing)
    raise TypeError(f"{kind.__name__} cannot be encoded as JSON")


# Frozen, small, and equal in nearly every session, so their JSON is cached.
_CACHED_KINDS: Final = frozenset({Limits, Permissions, Usage, Spending})


@functools.lru_cache(maxsize=256)
def _encode_cached(thing: Limits | Permissions | Usage | Spending) -> bytes:
    kind: Any = type(thing)
    return orjson.dumps(_fields_getter(kind)(thing), default=_encode_default)


@functools.cache
def _fields_getter(kind: Any) -> Callable[[Any], dict[str, Any]]:  # noqa: ANN401 - an attrs class
    """Return a function that makes a dict of an instance; faster than getattr in a loop."""
    names = _field_names(kind)
    if len(names) < 2:  # noqa: PLR2004 - attrgetter returns a tuple for two names or more
        return lambda thing: {name: getattr(thing, name) for name in names}
    values = operator.attrgetter(*names)
    return lambda thing: dict(zip(names, values(thing), strict=True))


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - an attrs class
    return tuple(field.name for field in attrs.fields(kind))


def _encode_tree(root: Node) -> Iterable[bytes]:
    """Yield the JSON of a tree without recursion, because its depth is not limited."""
    # A stack of nodes and of the text between them.
    stack: list[Node | bytes] = [root]
    while stack:
        top = stack.pop()
        if isinstance(top, bytes):
            yield top
            continue
        fields = _fields_getter(Info)(top)
        del fields["children"]
        yield orjson.dumps(fields, default=_encode_default)[:-1] + b',"children":['
        stack.append(b"]}")
        for place, child in enumerate(reversed(top.children)):
            if place:
                stack.append(b",")
            stack.append(child)
