"""Import of our own exports: equal to the exported session, or refused with the line."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.errors import ConfigError
from supervisor.core.facts import Fact, fact_of, number_facts
from supervisor.core.fold import replay
from supervisor.core.info import make_info
from supervisor.core.records import BODY_FIELDS, KINDS, Record
from supervisor.store.codec import decode, encode
from supervisor.store.export import export
from supervisor.store.importing import ImportFailed, read_import
from supervisor.store.importing.json_lines import MAX_DEPTH
from supervisor.store.sqlite import schema
from supervisor.store.sqlite.store import open_sqlite
from tests.store.fixtures.make import SESSIONS, load
from tests.support.export_samples import SampleHistory, exported, records_of, rich
from tests.support.import_files import changed, ours, replayed
from tests.support.store_samples import ONE, random_session

PAGE = Path(__file__).parents[3] / "docs/reference/records.md"
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def lived(seed: int, length: int) -> list[Record]:
    """Return the records of a random session, as a store returns them."""
    facts = [fact for _, some, _ in random_session(seed, length) for fact in some]
    return [decode(encode(record), Record) for record in number_facts(ONE, facts, after=0)]


def as_imported(records: Sequence[Record]) -> list[Fact]:
    """Return the facts of the records, with spaces for the control characters of an old key."""
    created, *facts = (fact_of(record) for record in records)
    key = created.body["key"]
    shown = None if key is None else re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", key)
    body = {**created.body, "key": shown}
    return [Fact(created.kind, created.at, body, created.turn, created.seq), *facts]


@given(st.integers(0, 10_000), st.integers(0, 60))
def test_a_history_is_imported_with_equal_kinds_bodies_times_and_turns(
    seed: int, length: int
) -> None:
    records = lived(seed, length)
    session = replay(records)
    assert session is not None

    imported = read_import(
        "jsonl", export("jsonl", make_info(session, last_seq=len(records)), records)
    )

    assert [imported.created, *imported.facts] == as_imported(records)
    assert imported.warnings == ()
    assert imported.title == session.title


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text() | st.integers(-5, 5)))
def test_any_text_is_imported_unchanged(said: str, answer: str, given_: dict[str, Any]) -> None:
    history = SampleHistory()
    history.begin(said.encode(errors="replace").decode())
    history.say(answer.encode(errors="replace").decode())
    history.call("bash", json.loads(json.dumps(given_).encode(errors="replace")), "\x1b[31m\u2028")
    records = records_of(history)

    imported = read_import("jsonl", exported("jsonl", records))

    assert [fact.body for fact in imported.facts] == [record.body for record in records[1:]]


def test_a_session_with_all_kinds_replays_to_the_same_row() -> None:
    records = rich()

    session = replayed(read_import("jsonl", exported("jsonl", records)))

    before = replay(records)
    assert before is not None
    assert session == before.changed(id=session.id)


def test_control_characters_in_names_are_imported_as_spaces() -> None:
    header, created, *rest = ours()
    record = json.loads(created)
    record["body"] |= {"name": "a\x1bb", "title": "a\x07b", "tags": ["a\nb"], "key": "a:b\x00:c"}
    record["body"]["lineage"]["role"] = "a\u2028b"

    session = replayed(read_import("jsonl", [header, json.dumps(record) + "\n", *rest]))

    assert (session.name, session.title, session.tags) == ("a b", "a b", ("a b",))
    assert (str(session.key), session.lineage.role) == ("a:b :c", "a b")


def with_created(**changes: object) -> list[str]:
    header, created, *rest = ours()
    record = json.loads(created)
    record["body"] |= changes
    return [header, json.dumps(record) + "\n", *rest]


@pytest.mark.parametrize(("name", "made"), [("s_1", "s-1"), (" a/b\u202e", "a-b"), ("-", None)])
def test_a_name_that_can_be_mistaken_is_imported_as_one_like_it(
    name: str, made: str | None
) -> None:
    assert replayed(read_import("jsonl", with_created(name=name))).name == made


def test_control_characters_in_names_of_custom_data_are_imported_as_spaces() -> None:
    session = replayed(read_import("jsonl", with_created(custom={"a\nb": "c\nd"})))

    assert session.custom == {"a b": "c\nd"}


@pytest.mark.parametrize(
    "changes",
    [
        {"agent": "x\ny"},
        {"agent": " "},
        {"custom": {"a": "b" * 20000}},
        {"custom": {"a\nb": "c", "a b": "d"}},
    ],
)
def test_values_that_create_refuses_are_refused_with_their_line(changes: dict[str, Any]) -> None:
    with pytest.raises(ImportFailed) as failed:
        read_import("jsonl", with_created(**changes))

    assert failed.value.line == 2


def test_an_open_turn_stays_open() -> None:
    history = SampleHistory()
    history.begin("and then?")

    session = replayed(read_import("jsonl", exported("jsonl", records_of(history))))

    assert session.turn is not None
    assert session.turn.id == "turn_1"


def test_a_session_without_turns_is_imported() -> None:
    imported = read_import("jsonl", exported("jsonl", records_of(SampleHistory())))

    assert imported.facts == ()
    assert imported.agent == "coder"
    assert imported.tags == ("parser", "urgent")
    assert imported.custom == {"ticket": "PR-12"}
    assert imported.workspace == "/srv/project"


def test_a_redacted_export_is_imported() -> None:
    history = SampleHistory()
    history.begin("password=hunter2")

    imported = read_import("jsonl", exported("jsonl", records_of(history), redact=True))

    assert imported.facts[-1].body["text"] == "password=[redacted]"


def test_a_truncated_last_line_is_left_out_with_a_warning() -> None:
    lines = ours()

    imported = read_import("jsonl", [*lines[:-1], lines[-1][:40]])

    assert len(imported.facts) == len(lines) - 3
    assert imported.warnings == (f"line {len(lines)}, the last one, is truncated and was left out",)


@pytest.mark.parametrize("letters", range(1, 60, 7))
def test_a_file_truncated_anywhere_is_read_up_to_its_last_whole_line(letters: int) -> None:
    lines = ours()
    torn = "".join(lines)[: -len(lines[-1])] + lines[-1][:letters]

    assert len(read_import("jsonl", torn).facts) == len(lines) - 3


def test_a_bad_last_line_with_a_newline_is_refused() -> None:
    lines = ours()

    with pytest.raises(ImportFailed, match=f"line {len(lines)}: it is not JSON"):
        read_import("jsonl", [*lines[:-1], lines[-1][:40] + "\n"])


def test_blank_lines_and_a_byte_order_mark_are_skipped() -> None:
    lines = ours()

    imported = read_import("jsonl", ["\ufeff" + lines[0], "\n", *lines[1:], "\n", "  "])

    assert len(imported.facts) == len(lines) - 2
    assert imported.warnings == ()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


BODY = '{"text":%s,"part":null}'
RECORD = '{"seq":2,"at":1.5,"turn_id":null,"kind":"user_text","body":%s}\n'
BAD_LINES = {
    "no JSON": "{nonsense}\n",
    "cut off, with its end": '{"seq": 2,\n',
    "no object": "[1, 2]\n",
    "not a number": RECORD % '{"text":"x","part":NaN}',
    "infinity": RECORD % '{"text":"x","part":-Infinity}',
    "too large": RECORD % '{"text":"x","part":1e999}',
    "too many digits": RECORD % f'{{"text":"x","part":{"9" * 5000}}}',
    "a bit too large": RECORD % f'{{"text":"x","part":{2**64}}}',
    "half a character": RECORD % (BODY % r'"\ud800"'),
    "half a character in a name": RECORD % r'{"text":"x","part":{"\udfff":1}}',
    "bytes that are no text": RECORD % (BODY % '"\udcff"'),
    "deep": RECORD % f'{{"text":"x","part":{nested(MAX_DEPTH)}}}',
    "very deep": nested(100_000) + "\n",
    "a name twice": RECORD % '{"text":"x","text":"y","part":null}',
    "text that is none": RECORD % (BODY % "5"),
    "a field missing": RECORD % '{"text":"x"}',
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_refused_with_its_number_and_a_hint(bad: str) -> None:
    lines = ours()

    with pytest.raises(ImportFailed, match="line 3: ") as caught:
        read_import("jsonl", [*lines[:2], bad, *lines[3:]])

    assert caught.value.code == "import_failed"
    assert caught.value.line == 3
    assert caught.value.hint


def test_an_error_does_not_show_the_content_of_the_line() -> None:
    lines = ours()

    with pytest.raises(ImportFailed) as caught:
        read_import("jsonl", [*lines[:2], '{"token": "hunter2", nonsense\n', *lines[3:]])

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 3},
        {"seq": 1},
        {"seq": "2"},
        {"seq": True},
        {"seq": 2.0},
        {"at": "now"},
        {"at": None},
        {"at": True},
        {"turn_id": 5},
        {"kind": "session_created"},
        {"kind": "whatever"},
        {"kind": ["user_text"]},
        {"body": None},
        {"body": []},
        {"more": 1},
        {"kind": "session_changed", "body": {"limits": {"nonsense": 1}}},
        {"kind": "session_changed", "body": {"stopping": 5}},
        {"kind": "turn_ended", "body": {}},
        {"kind": "usage", "body": {"input_tokens": "many", "output_tokens": 0, "cost": 0}},
    ],
)
def test_an_invalid_record_is_refused_with_its_line(changes: dict[str, Any]) -> None:
    with pytest.raises(ImportFailed, match="line 3: "):
        read_import("jsonl", changed(ours(), 3, **changes))


CHILD = {"child": "s_kid", "agent": "echo", "name": None, "role": None, "text": "go"}


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "session_changed", "body": {"tags": [1, 2]}},
        {"kind": "session_changed", "body": {"tags": "abc"}},
        {"kind": "child_started", "body": {**CHILD, "child": {"a": 1}, "resumed": False}},
        {"kind": "child_started", "body": {**CHILD, "resumed": "yes"}},
        {"kind": "user_text", "body": {"text": "hello", "part": 5}},
        {"kind": "turn_started", "body": {"turn_id": "t", "input_id": "i", "source": "nobody"}},
        {"at": 1e300},
    ],
)
def test_a_record_that_a_repair_calls_an_error_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ImportFailed, match="line 3: "):
        read_import("jsonl", changed(ours()[:3], 3, **changes))


@pytest.mark.parametrize("gone", [2, 3, 4])
def test_a_missing_line_is_reported_with_its_number(gone: int) -> None:
    lines = ours()
    del lines[gone - 1]

    with pytest.raises(ImportFailed, match=f"line {gone}: ") as caught:
        read_import("jsonl", lines)

    assert caught.value.line == gone


@pytest.mark.parametrize("lines", [[], [""], ["\n", "\n"], ['{"understudy": 1, "ses']])
def test_an_empty_file_is_refused(lines: list[str]) -> None:
    with pytest.raises(ImportFailed, match="empty"):
        read_import("jsonl", lines)


def test_a_header_without_records_is_refused() -> None:
    with pytest.raises(ImportFailed, match="no record"):
        read_import("jsonl", ours()[:1])


def test_a_newer_format_is_refused_with_the_hint_to_upgrade() -> None:
    with pytest.raises(ImportFailed, match="version is 2") as caught:
        read_import("jsonl", changed(ours(), 1, understudy=2))

    assert "newer" in caught.value.hint


@pytest.mark.parametrize("version", [0, None, "1", True, 1.0])
def test_an_invalid_header_is_refused(version: object) -> None:
    with pytest.raises(ImportFailed, match="not the header"):
        read_import("jsonl", changed(ours(), 1, understudy=version))


def test_a_foreign_file_is_refused() -> None:
    with pytest.raises(ImportFailed, match="line 1: it is not the header"):
        read_import("jsonl", ['{"role": "user", "content": "hello"}\n'])


def test_a_line_of_a_megabyte_is_read_and_an_oversized_one_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = SampleHistory()
    history.begin("x" * 1_000_000)
    lines = exported("jsonl", records_of(history)).splitlines(keepends=True)

    assert len(read_import("jsonl", lines).facts[-1].body["text"]) == 1_000_000
    with pytest.raises(ImportFailed, match="line 2: it has more than 10 characters"):
        read_import("picoclaw", lines_that_are_too_long(monkeypatch))


def lines_that_are_too_long(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("supervisor.store.importing.picoclaw.MAX_FOREIGN_LINE_CHARS", 10)
    return ["\n", '{"role": "user"}\n']


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="no import format"):
        read_import("yaml", [])  # type: ignore[arg-type]


def test_the_page_lists_the_fields_of_each_kind() -> None:
    listed = {
        kind: frozenset(re.findall(r"`(\w+)`(?!\?)", fields))
        for kind, fields in ROW.findall(PAGE.read_text())
    }

    # Early versions did not record the request of a decision.
    needed = {kind: frozenset(shape.required) for kind, shape in BODY_FIELDS.items()}
    assert {kind: fields - {"request"} for kind, fields in listed.items()} == needed
    assert set(BODY_FIELDS) == set(KINDS)


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
async def test_an_export_of_an_earlier_version_is_imported(version: int, tmp_path: Path) -> None:
    load(version, tmp_path / "state.db")
    async with open_sqlite(tmp_path / "state.db") as store:
        records = await store.records(SESSIONS[0])

    imported = read_import("jsonl", exported("jsonl", records))

    assert [imported.created, *imported.facts] == as_imported(records)


def test_the_result_consists_of_facts() -> None:
    imported = read_import("jsonl", ours())

    assert isinstance(imported.created, Fact)
    assert imported.created.kind == "session_created"
    assert all(isinstance(fact, Fact) for fact in imported.facts)
