"""Strategies for messages of every kind, and for invalid lines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import strategies as st

from supervisor.json_rpc.rpc_messages import (
    InvalidLine,
    RpcErrorResponse,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    parse,
)

# Few values, so that ids collide.
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

requests = st.builds(RpcRequest, ids, methods, values)
notifications = st.builds(RpcNotification, methods, values)
answers = st.builds(RpcResult, ids, values)
refusals = st.builds(RpcErrorResponse, ids, st.integers(-40_000, 40_000), texts, values)
messages: st.SearchStrategy[RpcMessage] = requests | notifications | answers | refusals


def _is_junk(line: bytes) -> bool:
    return bool(line.strip()) and isinstance(parse(line.strip()), InvalidLine)


# Invalid lines among messages: logs, cut messages, any bytes.
garbage = (
    st.sampled_from([b"Starting up...", b'{"jsonrpc":"2.0","id":', b"[]", b"\xff\xfe", b"{}", b"7"])
    | st.binary(max_size=30).map(lambda line: line.replace(b"\n", b""))
).filter(_is_junk)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Return the data cut at these positions, of any value; chunks may be empty."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[first:last] for first, last in itertools.pairwise(bounds)]
