"""Whatever JSON is sent wherever: never a 5xx, never a hang, never a traceback."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supervisor
from supervisor.api.app import make_app
from supervisor.api.drain import DrainState
from supervisor.api.operation import Operation
from supervisor.api.routes import OPERATIONS
from supervisor.decode import (
    Partial,
    alternatives,
    field_kinds,
    is_collection,
    is_mapping,
    is_str_enum,
    plain_kind,
)
from supervisor.http_server.gate import UnixGate
from tests.support.asgi_exchange import LOCALHOST, ask
from tests.support.virtual_time import run_in_virtual_time

# After it nothing is taken any more, which is a 503 by right.
LEAVING = "drain"
COMMANDS = [one for one in OPERATIONS if one.has_body and one.name != LEAVING]
QUESTIONS = sorted(one.name for one in OPERATIONS if not one.has_body and not one.is_stream)
NO_FILE = str(Path("/nowhere") / "at" / "all")

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside),
    max_leaves=8,
)
TEXTS = st.text(min_size=1, max_size=20)
# Values that pass the first checks, so that the later ones are reached.
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "agent": st.sampled_from(["echo", "scripted", "nobody"]),
    "text": st.sampled_from(["say hello", "sleep 5", "tool bash 3", "ask bash", "fail on purpose"]),
    "key": st.sampled_from(["a:b:c", "a:b:c:d", "a:b"]),
    "path": st.just(NO_FILE),
    "workspace": st.just(NO_FILE),
    "idempotency_key": st.sampled_from(["k", "l"]),
    "at_turn": st.just("turn_none"),
}


SCALARS: dict[object, st.SearchStrategy[Any]] = {
    Any: ANYTHING,
    object: ANYTHING,
    str: TEXTS,
    int: st.integers(-1, 5) | st.integers(),
    float: st.floats(-1, 1e3) | st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    NoneType: st.none(),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - an annotation
    kind = plain_kind(kind)
    if kind in SCALARS:
        return SCALARS[kind]
    arguments = get_args(kind)
    if len(alternatives(kind)) > 1:
        return st.one_of([values_of(one) for one in arguments])
    if get_origin(kind) is Literal or is_str_enum(kind):
        return st.sampled_from([str(word) for word in arguments or kind])
    if is_collection(kind):
        return st.lists(values_of(arguments[0]), max_size=2)
    if is_mapping(kind):
        return st.dictionaries(TEXTS, values_of(arguments[1]), max_size=2)
    is_partial = get_origin(kind) is Partial
    whole = arguments[0] if is_partial else kind
    fields = field_kinds(whole)
    needed = {one.name for one in attrs.fields(whole) if one.default is attrs.NOTHING}
    needed -= fields.keys() if is_partial else set()
    return st.fixed_dictionaries(
        {name: values_of(fields[name]) for name in needed},
        optional={n: values_of(one) for n, one in fields.items() if n not in needed},
    )


def bodies_of(operation: Operation) -> st.SearchStrategy[Any]:
    """Bodies of the right form, with a few things in them that may be anything."""
    values = {
        field.name: KNOWN.get(field.name, values_of(field.kind))
        for field in operation.params.fields
    }
    needed = {field.name for field in operation.params.fields if field.is_required}
    right = st.fixed_dictionaries(
        {name: values[name] for name in needed},
        optional={name: one for name, one in values.items() if name not in needed},
    )
    wrong = st.dictionaries(st.sampled_from([*values, "extra"]), ANYTHING, max_size=2)
    return st.builds(lambda a, b: {**a, **b}, right, wrong | st.just({}))


# By name, so that what was found can be shown.
BODIES = {operation.name: bodies_of(operation) for operation in COMMANDS}
NAMED = {operation.name: operation for operation in OPERATIONS}


@st.composite
def nearly_right(draw: st.DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(BODIES)))
    return name, draw(BODIES[name])


def request(name: str, body: bytes, query: str = "") -> tuple[str, str, bytes]:
    operation = NAMED[name]
    path = re.sub(r"{\w+}", "in_none", operation.path.replace("{id}", "SESSION"))
    return operation.method, path + query, body


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> Any:  # noqa: ANN401 - a generator
    """Nothing that a client sends is worth a traceback."""
    with caplog.at_level(logging.ERROR, logger="supervisor.api"):
        yield
    assert not [one for one in caplog.records if one.name == "supervisor.api"]


def play(requests: list[tuple[str, str, bytes]]) -> list[int | None]:
    """Send all of them to a house with a session in it, which `SESSION` in a path stands for."""

    async def main() -> list[int | None]:
        async with supervisor.open(":memory:") as sup:
            drain_state = DrainState()
            drain_state.open()
            app = make_app(sup, gate=UnixGate(own_uid=None), drain_state=drain_state)
            session = await sup.create("scripted")
            headers = [LOCALHOST, (b"content-type", b"application/json")]
            answers = [
                await ask(
                    app,
                    method,
                    target.replace("SESSION", session.id),
                    headers=headers,
                    body=body,
                    seconds=10_000.0,
                )
                for method, target, body in requests
            ]
            return [answer.status for answer in answers]

    return run_in_virtual_time(main, clock=None, instruments=())


def assert_never_5xx(requests: list[tuple[str, str, bytes]]) -> None:
    assert all(status is not None and status < 500 for status in play(requests))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(sorted(BODIES)), ANYTHING), min_size=1, max_size=10))
def test_any_json_at_any_command_is_answered_and_never_with_a_5xx(
    found: list[tuple[str, Any]],
) -> None:
    assert_never_5xx([request(name, json.dumps(body).encode()) for name, body in found])


@settings(max_examples=150)
@given(st.lists(nearly_right(), min_size=1, max_size=6))
def test_bodies_that_are_nearly_right_are_answered_and_never_with_a_5xx(
    found: list[tuple[str, Any]],
) -> None:
    assert_never_5xx([request(name, json.dumps(body).encode()) for name, body in found])


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(sorted(BODIES)), st.binary(max_size=40)), max_size=10))
def test_any_bytes_at_any_command_are_answered_and_never_with_a_5xx(
    found: list[tuple[str, bytes]],
) -> None:
    assert_never_5xx([request(name, body) for name, body in found])


QUERIES = st.lists(
    st.tuples(
        st.sampled_from(["limit", "cursor", "after", "wait", "at", "q", "phase", "format", "x"]),
        st.sampled_from(["", "0", "1", "-1", "1e3", "nan", "%00", "%ff", "a%20b", "[]", "2" * 30])
        | st.text("0123456789.e+-%&=;", max_size=8),
    ),
    max_size=4,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(QUESTIONS), QUERIES), min_size=1, max_size=10))
def test_any_query_is_answered_and_never_with_a_5xx(
    found: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    assert_never_5xx(
        [request(name, b"", "?" + "&".join(map("=".join, pairs))) for name, pairs in found]
    )
