"""Paths that select texts in lines of JSON."""

from __future__ import annotations

import pytest

from supervisor.core.errors import ConfigError
from supervisor.drivers.command.output import parse_json_path

LINE = {
    "type": "assistant",
    "text": "top",
    "number": 7,
    "yes": True,
    "message": {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "tool.use", "text": "no"},
            {"type": "text", "text": "two"},
            "three",
        ]
    },
}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("text", ["top"]),
        ("number", ["7"]),
        ("yes", []),
        ("message", []),
        ("nowhere.text", []),
        ("text.text", []),
        ("message.content", ["three"]),
        ("message.content.text", ["one", "no", "two"]),
        ("message.content[type=text].text", ["one", "two"]),
        ("message.content[type=tool.use].text", ["no"]),
        ("[type=assistant].text", ["top"]),
        ("[type=user].text", []),
        ("message[type=none].content", []),
    ],
)
def test_a_json_path_selects_texts(place: str, found: list[str]) -> None:
    assert parse_json_path("text", place).find(LINE) == found


@pytest.mark.parametrize("line", [None, 1, "text", [], {}, {"text": {}}])
def test_a_json_path_without_a_match_selects_nothing(line: object) -> None:
    assert parse_json_path("text", "text").find(line) == []


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a[b]", "a[=b]", "a[b=c]d", "a.[b=c]", "[a=b]c", None, 5]
)
def test_an_invalid_json_path_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="not a path"):
        parse_json_path("text", text)
