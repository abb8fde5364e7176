"""Whatever stands in a file: it is a session that can be stored and shown, or it is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.ids import SessionId
from supervisor.core.records import numbered
from supervisor.core.session import Session
from supervisor.store.codec import decode, encode
from supervisor.store.exporting import FORMATS
from supervisor.store.importing import Format, Imported, ImportFailed, read
from tests.store.exporting.cast import exported, rich
from tests.store.importing.cast import blocks, lines_of, replayed, text

NEW = SessionId("s_new")
PICOCLAW = lines_of(
    {"role": "user", "content": "hello", "created_at": "2026-03-11T12:00:00Z"},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "content": "x", "tool_call_id": "c"},
)
GGCODE = lines_of(
    {"type": "meta", "title": "t", "workspace": "/w", "created_at": "2026-03-11T12:00:00Z"},
    blocks("user", text("hello")),
    blocks("assistant", text("x"), {"type": "tool_use", "tool_id": "t", "input": {"a": 1}}),
    blocks("user", {"type": "tool_result", "tool_id": "t", "output": "x", "is_error": True}),
    {"type": "usage", "usage_entry": {"usage": {"input_tokens": 1, "output_tokens": 2}}},
)
FILES: dict[Format, list[str]] = {
    "jsonl": exported("jsonl", rich()).splitlines(keepends=True),
    "picoclaw": PICOCLAW,
    "ggcode": GGCODE,
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def spoil(value: Any, data: st.DataObject) -> Any:  # noqa: ANN401 - any plain data
    """The same with something else at one place in it."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        name = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 5)) == 0:
            return {other: item for other, item in value.items() if other != name}
        return {**value, name: spoil(value[name], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        return [spoil(value[0], data), *value[1:]]
    return data.draw(VALUES)


def imported_or_none(format: Format, lines: list[str]) -> Imported | None:  # noqa: A002 - as in `read`
    try:
        return read(format, lines)
    except ImportFailed:
        return None


@pytest.mark.parametrize("format", FILES)
@given(st.data())
def test_a_spoilt_file_is_refused_or_can_be_stored_and_shown(
    format: Format,  # noqa: A002 - as in `read`
    data: st.DataObject,
) -> None:
    lines = list(FILES[format])
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = json.dumps(spoil(json.loads(lines[number]), data)) + "\n"

    imported = imported_or_none(format, lines)

    if imported is not None:
        session = replayed(imported)
        assert decode(encode(session), Session) == session
        records = [*rich()[:1], *numbered(NEW, imported.facts, after=1)]
        for record in records:
            encode(record)
        for form in FORMATS:
            assert exported(form, records)


@pytest.mark.parametrize("format", FILES)
@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_lines_at_all_are_refused_or_read(
    format: Format,  # noqa: A002 - as in `read`
    lines: list[str],
) -> None:
    imported_or_none(format, lines)


@pytest.mark.parametrize("format", FILES)
def test_a_file_that_was_cut_off_anywhere_loses_no_more_than_its_last_line(
    format: Format,  # noqa: A002 - as in `read`
) -> None:
    whole = "".join(FILES[format])
    least = 0

    for letters in range(0, len(whole) + 1, 61):
        imported = imported_or_none(format, whole[:letters].splitlines(keepends=True))
        read_so_far = 0 if imported is None else len(imported.facts)
        assert read_so_far >= least
        least = read_so_far if format == "jsonl" else 0
