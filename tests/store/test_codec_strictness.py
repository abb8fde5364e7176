"""Rows and records that do not fit their types are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import state as rows
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.state import (
    SessionState,
)
from supervisor.store.codec import decode, encode
from supervisor.store.port import StoredReply
from tests.support.store_samples import FULL_STATE, ONE, PLAN, creation_write, plan_record


def changed(thing: object, path: str, value: object) -> bytes:
    """The thing's JSON with another value at `path`, as in `turn.calls.0.name`."""
    whole_thing: Any = orjson.loads(encode(thing))
    *way, last = path.split(".")
    place = functools.reduce(lambda at, step: at[_step(step)], way, whole_thing)
    place[_step(last)] = value
    return orjson.dumps(whole_thing)


def without(thing: object, path: str) -> bytes:
    whole_thing: Any = orjson.loads(encode(thing))
    *way, last = path.split(".")
    del functools.reduce(lambda at, step: at[_step(step)], way, whole_thing)[_step(last)]
    return orjson.dumps(whole_thing)


def can_be_read(data: bytes) -> bool:
    try:
        decode(data, SessionState)
    except ValueError:
        return False
    return True


def _step(text: str) -> int | str:
    return int(text) if text.isdigit() else text


WRONG: list[tuple[str, object]] = [
    ("turns", "5"),
    ("turns", 1.9),
    ("turns", 1.0),
    ("turns", True),
    ("turns", None),
    ("created_at", "1.0"),
    ("created_at", True),
    ("created_at", None),
    ("archived", 0),
    ("archived", "false"),
    ("archived", None),
    ("title", 5),
    ("title", ["t"]),
    ("id", None),
    ("id", 7),
    ("tags", "ab"),
    ("tags", {"a": 1}),
    ("tags", None),
    ("tags", [1]),
    ("tags", [None]),
    ("custom", []),
    ("custom", None),
    ("custom", {"k": 5}),
    ("custom", {"k": None}),
    ("permissions.tools", "bash"),
    ("permissions.tools", {"bash": 1}),
    ("permissions.tools", [5]),
    ("permissions.tools", [" "]),
    ("permissions", None),
    ("permissions", []),
    ("limits.turns", -1),
    ("limits.max_depth", "3"),
    ("limits.cost", "1.5"),
    ("terms.ladder.ask_seconds", -1.0),
    ("key", "a:b:c"),
    ("key.peer", ""),
    ("key.peer", None),
    ("inputs", {}),
    ("inputs", ""),
    ("inputs.0", None),
    ("inputs.0.number", "1"),
    ("inputs.0.attachments", [1]),
    ("turn", {}),
    ("turn", []),
    ("turn", False),
    ("turn.calls.0.cancellable", "yes"),
    ("turn.requests.0.input", []),
    ("turn.usage", None),
    ("agent.pid", 7.5),
    ("agent.capabilities.ladder", "ask"),
    ("recent_restarts", [None]),
    ("recent_restarts", "12"),
]


WORDS = [
    "phase",
    "kind",
    "permissions.mode",
    "terms.steer_fallback",
    "terms.restart.policy",
    "lineage.lifetime",
    "rules.0.decision",
    "stopping.cause",
    "agent.capabilities.steering",
    "agent.capabilities.ladder.0",
    "turn.source",
    "turn.step",
    "turn.requests.0.options.0",
    "inputs.0.when_busy",
    "inputs.0.status",
]


def _paths(thing: Any, way: str = "") -> list[str]:  # noqa: ANN401 - whatever JSON has
    """Every name in it, however deep, but for what is free to have any."""
    found: list[str] = []
    for name, inner in thing.items() if isinstance(thing, dict) else enumerate(thing):
        path = f"{way}{name}"
        if isinstance(thing, dict):
            found.append(path)
        if isinstance(inner, dict | list) and name not in ("custom", "input", "attachments"):
            found += _paths(inner, f"{path}.")
    return found


PATHS = _paths(orjson.loads(encode(FULL_STATE)))


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_value_of_another_type_is_refused(path: str, value: object) -> None:
    with pytest.raises(ValueError, match="not a stored SessionState"):
        decode(changed(FULL_STATE, path, value), SessionState)


@pytest.mark.parametrize("word", ["unheard-of", "", "IDLE", 1, True, ["ask"]])
def test_an_unknown_word_is_refused(word: object) -> None:
    assert [path for path in WORDS if can_be_read(changed(FULL_STATE, path, word))] == []


def test_a_missing_field_is_refused() -> None:
    never_empty = ["id", "agent_name", "kind", "lineage", "terms", "permissions"]
    written = [*never_empty, "phase", "usage", *(path for path in PATHS if "." in path)]
    # None where None is the default is left out at every depth, so these may be.
    optional = {
        field.name
        for kind in [*vars(rows).values(), Limits, Permissions]
        if isinstance(kind, type) and attrs.has(kind) and kind is not SessionState
        for field in attrs.fields(kind)
        if field.default is None
    }
    written = [path for path in written if path.rpartition(".")[2] not in optional]

    assert len(written) > 50
    assert [path for path in written if can_be_read(without(FULL_STATE, path))] == []


@pytest.mark.parametrize("place", ["", "key.", "terms.", "terms.ladder.", "turn.", "turn.usage."])
def test_an_unknown_field_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="not a stored SessionState"):
        decode(changed(FULL_STATE, f"{place}colour", "red"), SessionState)


RECORD = plan_record(ONE, 1, {"free": {"to": ["have", 1, None]}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seq", "1"),
        ("seq", 1.0),
        ("seq", True),
        ("at", "now"),
        ("at", None),
        ("kind", "unheard_of"),
        ("kind", None),
        ("body", []),
        ("body", "text"),
        ("body", None),
        ("turn_id", 5),
        ("session_id", None),
        ("colour", "red"),
    ],
)
def test_a_record_that_was_not_written_here_is_refused(path: str, value: object) -> None:
    with pytest.raises(ValueError, match="not a stored Record"):
        decode(changed(RECORD, path, value), Record)


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Record)])
def test_a_record_without_one_of_its_names_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a stored Record"):
        decode(without(RECORD, name), Record)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'""',
        b"{}",
        b"{",
        b"\x00",
        b"\xff\xfe",
        b'{"id": "\xed\xa0\x80"}',
        b"[" * 100_000,
        b'{"id": NaN}',
        encode(FULL_STATE)[:-1],
        encode(FULL_STATE) + b"}",
        encode(RECORD),
    ],
)
def test_malformed_json_is_refused(junk: bytes) -> None:
    with pytest.raises(ValueError, match="not a stored SessionState"):
        decode(junk, SessionState)


@given(junk=st.binary(max_size=200))
def test_random_bytes_are_refused(junk: bytes) -> None:
    for kind in (SessionState, Record, StoredReply):
        with pytest.raises(ValueError, match=f"not a stored {kind.__name__}"):
            decode(junk, kind)


@given(data=st.data())
def test_a_row_with_a_changed_byte_is_refused_or_read_unchanged(data: st.DataObject) -> None:
    damaged = bytearray(encode(FULL_STATE))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))

    _is_refused_or_read_as_it_stands(bytes(damaged))


VALUES: list[object] = [None, True, 0, 7, 1.5, "", "5", "abc", [], [1], ["a"], {}, {"x": 1}]


@given(path=st.sampled_from(PATHS), value=st.sampled_from(VALUES))
def test_no_value_is_coerced_when_decoded(path: str, value: object) -> None:
    _is_refused_or_read_as_it_stands(changed(FULL_STATE, path, value))


def _is_refused_or_read_as_it_stands(data: bytes) -> None:
    try:
        session = decode(data, SessionState)
    except ValueError:
        return
    assert _in_order(encode(session)) == _in_order(data)


def _in_order(data: bytes) -> bytes:
    """With its names sorted, and without those that say nothing."""
    said_so = {name: value for name, value in orjson.loads(data).items() if value}
    return orjson.dumps(_without_nones(said_so), option=orjson.OPT_SORT_KEYS)


def _without_nones(thing: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(thing, dict):
        return {key: _without_nones(value) for key, value in thing.items() if value is not None}
    return [_without_nones(value) for value in thing] if isinstance(thing, list) else thing


@pytest.mark.parametrize(
    "make", [lambda: FULL_STATE, lambda: RECORD, lambda: creation_write(ONE, PLAN).row]
)
def test_a_decoded_value_is_encoded_identically(make: Callable[[], object]) -> None:
    thing = make()

    assert encode(decode(encode(thing), type(thing))) == encode(thing)
