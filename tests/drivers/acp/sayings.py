"""What may be said: messages of every kind, and lines that are none."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import strategies as st

from supervisor.drivers.acp.rpc.messages import (
    Answer,
    Junk,
    Message,
    Notification,
    Refusal,
    Request,
    parse,
)

# Small numbers and few letters: so that ids meet.
ids = st.none() | st.integers(0, 5) | st.sampled_from(["", "1", "a"])
methods = st.sampled_from(["session/update", "fs/read_text_file", "_x", ""])
texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

requests = st.builds(Request, ids, methods, values)
notifications = st.builds(Notification, methods, values)
answers = st.builds(Answer, ids, values)
refusals = st.builds(Refusal, ids, st.integers(-40_000, 40_000), texts, values)
messages: st.SearchStrategy[Message] = requests | notifications | answers | refusals


def _is_junk(line: bytes) -> bool:
    return bool(line.strip()) and isinstance(parse(line.strip()), Junk)


# What agents write among their messages: logs, halves of messages, bytes of any kind.
garbage = (
    st.sampled_from([b"Starting up...", b'{"jsonrpc":"2.0","id":', b"[]", b"\xff\xfe", b"{}", b"7"])
    | st.binary(max_size=30).map(lambda line: line.replace(b"\n", b""))
).filter(_is_junk)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The data in pieces, cut at those places, whatever numbers they are; some may be empty."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[first:last] for first, last in itertools.pairwise(bounds)]
