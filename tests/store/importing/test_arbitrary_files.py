"""Import of arbitrary files: each is refused, or becomes a session that can be stored and shown."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.facts import number_facts
from supervisor.core.ids import SessionId
from supervisor.core.state import SessionState
from supervisor.store.codec import decode, encode
from supervisor.store.export import EXPORT_FORMATS
from supervisor.store.importing import ImportedSession, ImportFailed, ImportFormat, read_import
from tests.support.export_samples import exported, rich
from tests.support.import_files import blocks, lines_of, replayed, text

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
FILES: dict[ImportFormat, list[str]] = {
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
    """Return the value with another one at some place in it."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        name = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 5)) == 0:
            return {other: item for other, item in value.items() if other != name}
        return {**value, name: spoil(value[name], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        return [spoil(value[0], data), *value[1:]]
    return data.draw(VALUES)


def imported_or_none(format: ImportFormat, lines: list[str]) -> ImportedSession | None:  # noqa: A002 - as in `read_import`
    try:
        return read_import(format, lines)
    except ImportFailed:
        return None


@pytest.mark.parametrize("format", FILES)
@given(st.data())
def test_a_damaged_file_is_refused_or_can_be_stored_and_shown(
    format: ImportFormat,  # noqa: A002 - as in `read_import`
    data: st.DataObject,
) -> None:
    lines = list(FILES[format])
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = json.dumps(spoil(json.loads(lines[number]), data)) + "\n"

    imported = imported_or_none(format, lines)

    if imported is not None:
        session = replayed(imported)
        assert decode(encode(session), SessionState) == session
        records = [*rich()[:1], *number_facts(NEW, imported.facts, after=1)]
        for record in records:
            encode(record)
        for form in EXPORT_FORMATS:
            assert exported(form, records)


@pytest.mark.parametrize("format", FILES)
@given(st.lists(st.text(max_size=40), max_size=4))
def test_arbitrary_lines_are_refused_or_read(
    format: ImportFormat,  # noqa: A002 - as in `read_import`
    lines: list[str],
) -> None:
    imported_or_none(format, lines)


@pytest.mark.parametrize("format", FILES)
def test_a_truncated_file_loses_at_most_its_last_line(
    format: ImportFormat,  # noqa: A002 - as in `read_import`
) -> None:
    whole = "".join(FILES[format])
    least = 0

    for letters in range(0, len(whole) + 1, 61):
        imported = imported_or_none(format, whole[:letters].splitlines(keepends=True))
        read_so_far = 0 if imported is None else len(imported.facts)
        assert read_so_far >= least
        least = read_so_far if format == "jsonl" else 0
