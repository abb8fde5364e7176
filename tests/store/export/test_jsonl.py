"""Export as JSON lines: one verbatim record a line, redacted on request."""

import json
from typing import Any

import pytest

from supervisor.core.errors import ConfigError
from supervisor.core.redaction import REDACTED
from supervisor.store.export import export
from tests.support.export_samples import SampleHistory, exported, info_for, records_of, rich

SECRET = "sk-" + "a1B2c3D4e5F6g7H8i9J0"


def objects_of(history: SampleHistory, *, redact: bool = False) -> list[dict[str, Any]]:
    lines = exported("jsonl", records_of(history), redact=redact).split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]


def test_the_first_line_describes_the_session() -> None:
    header = objects_of(SampleHistory())[0]

    assert header["understudy"] == 1
    assert "redacted" not in header
    session = header["session"]
    assert session["id"] == "s_one"
    assert (session["agent"], session["name"], session["key"]) == ("coder", "nightly", None)
    assert session["tags"] == ["parser", "urgent"]
    assert session["custom"] == {"ticket": "PR-12"}
    assert session["workspace"] == "/srv/project"
    assert session["created_at"] == 1_790_000_000.0


def test_every_record_is_one_line_with_its_stored_body() -> None:
    records = rich()

    lines = exported("jsonl", records).splitlines()[1:]

    assert [json.loads(line) for line in lines] == [
        {
            "seq": record.seq,
            "at": record.at,
            "turn_id": record.turn_id,
            "kind": record.kind,
            "body": record.body,
        }
        for record in records
    ]


def test_texts_are_not_stripped() -> None:
    said = "\x1b[31mred\x00 \u202eevil\u2028 <b> ```"
    history = SampleHistory()
    history.begin(said)

    assert objects_of(history)[-1]["body"]["text"] == said


def test_secrets_are_redacted_at_any_depth() -> None:
    history = SampleHistory()
    history.begin(f"use {SECRET}")
    history.call("curl", {"headers": [f"Bearer {SECRET}"], "password": "pw"}, {"a": {"b": SECRET}})

    header, *records = objects_of(history, redact=True)

    assert header["redacted"] is True
    assert SECRET not in json.dumps(records)
    assert records[-3]["body"]["input"] == {"headers": [f"Bearer {REDACTED}"], "password": REDACTED}
    assert [record["kind"] for record in records] == [
        record["kind"] for record in objects_of(history)[1:]
    ]


@pytest.mark.parametrize("seam", range(1, len(SECRET)))
def test_a_secret_across_two_parts_of_a_text_is_redacted(seam: int) -> None:
    history = SampleHistory()
    history.begin("go")
    history.say(f"use {SECRET[:seam]}", f"{SECRET[seam:]} now")
    history.finish()

    texts = [
        o["body"]["text"] for o in objects_of(history, redact=True) if o.get("kind") == "agent_text"
    ]

    assert "".join(texts) == f"use {REDACTED} now"


def test_a_record_between_two_parts_of_a_text_stays_there() -> None:
    history = SampleHistory()
    history.begin("go")
    history.say(SECRET[:8])
    history.note("steered", input_id=SECRET, how="native")
    history.note("agent_text", text=SECRET[8:], part="p", continues=True)

    records = objects_of(history, redact=True)[-3:]

    assert [record["kind"] for record in records] == ["agent_text", "steered", "agent_text"]
    assert [record["body"].get("text") for record in records] == [REDACTED, None, ""]
    assert [record["seq"] for record in records] == [4, 5, 6]


def test_the_header_is_redacted() -> None:
    history = SampleHistory()
    history.begin(f"use {SECRET}")

    header = objects_of(history, redact=True)[0]

    assert SECRET not in json.dumps(header)


@pytest.mark.parametrize("letters", range(30, 60, 3))
def test_half_a_secret_at_the_end_of_a_title_is_redacted(letters: int) -> None:
    history = SampleHistory()
    history.begin("x" * letters + f" {SECRET} " + "y" * 40)

    title = objects_of(history, redact=True)[0]["session"]["title"]

    assert SECRET[:3] not in title
    assert title.startswith("xxx")


def test_an_unknown_format_is_refused_at_once() -> None:
    records = rich()

    with pytest.raises(ConfigError, match="no export format") as caught:
        export("pdf", info_for(records), records)  # type: ignore[arg-type]

    assert "markdown" in caught.value.hint


@pytest.mark.parametrize("format", ["markdown", "jsonl", "html"])
def test_pieces_are_computed_when_requested(format: Any) -> None:  # noqa: A002, ANN401 - as in `export`
    history = SampleHistory()
    for number in range(100):
        history.begin(str(number))
        history.finish()
    records = records_of(history)
    taken = iter(records)
    pieces = export(format, info_for(records), taken)

    while "42" not in next(pieces):
        pass

    assert len(list(taken)) > 200
