"""What the embedding API gives, as JSON.

Rule 1: what is on the wire is what the class says: its fields by name, sets in order, nothing else.
Rule 2: however deep a tree or a body is, it can be written.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import orjson
import trio

from supervisor.core.info import Info, Node
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.session import Spending, Usage

# So many things are written before others may run.
_AT_ONCE: Final = 100


def encode(thing: object) -> bytes:
    """The thing as JSON."""
    if type(thing) is Node:
        return b"".join(_tree_pieces(thing))
    return orjson.dumps(thing, default=_plain)


async def encode_page(items: Sequence[object], following: str | None) -> bytes:
    """Some of a list as JSON: `items`, and where the rest begins as `next`; lets others run."""
    pieces: list[bytes] = []
    for place, item in enumerate(items):
        if place % _AT_ONCE == _AT_ONCE - 1:
            await trio.lowlevel.checkpoint()
        pieces.append(encode(item))
    return b'{"items":[%b],"next":%b}' % (b",".join(pieces), orjson.dumps(following))


def _plain(thing: Any) -> object:  # noqa: ANN401 - whatever orjson does not know
    kind: Any = type(thing)
    if kind is Record:
        # Its body may be as deep as JSON goes, and what is around it must not make it too deep.
        return {**_fields(kind)(thing), "body": orjson.Fragment(orjson.dumps(thing.body))}
    if kind is Node:
        return orjson.Fragment(encode(thing))
    if kind in _REPEATED:
        return orjson.Fragment(_written(thing))
    if attrs.has(kind):
        return _fields(kind)(thing)
    if isinstance(thing, frozenset):
        return sorted(thing)
    if isinstance(thing, Mapping):
        return dict(thing)
    raise TypeError(f"{kind.__name__} has no form on the wire")


# Frozen, small, and the same in nearly every session: the last few are written once.
_REPEATED: Final = frozenset({Limits, Permissions, Usage, Spending})


@functools.lru_cache(maxsize=256)
def _written(thing: Limits | Permissions | Usage | Spending) -> bytes:
    kind: Any = type(thing)
    return orjson.dumps(_fields(kind)(thing), default=_plain)


@functools.cache
def _fields(kind: Any) -> Callable[[Any], dict[str, Any]]:  # noqa: ANN401 - an attrs class
    """What makes a dict of a thing of that class: all at once, for there are many in a list."""
    names = _names(kind)
    if len(names) < 2:  # noqa: PLR2004 - of one, or none, attrgetter gives no tuple
        return lambda thing: {name: getattr(thing, name) for name in names}
    values = operator.attrgetter(*names)
    return lambda thing: dict(zip(names, values(thing), strict=True))


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - an attrs class
    return tuple(field.name for field in attrs.fields(kind))


def _tree_pieces(top: Node) -> Iterable[bytes]:
    """A tree in the order of writing, without recursion: there is no bound on its depth."""
    # What is still to be written, the next last: nodes, and the text between them.
    waiting: list[Node | bytes] = [top]
    while waiting:
        next_one = waiting.pop()
        if isinstance(next_one, bytes):
            yield next_one
            continue
        fields = _fields(Info)(next_one)
        del fields["children"]
        yield orjson.dumps(fields, default=_plain)[:-1] + b',"children":['
        waiting.append(b"]}")
        for place, child in enumerate(reversed(next_one.children)):
            if place:
                waiting.append(b",")
            waiting.append(child)
