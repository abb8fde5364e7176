"""Where in a line of JSON something stands."""

from __future__ import annotations

import pytest

from supervisor.core.errors import ConfigError
from supervisor.drivers.command.places import parse_place

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
def test_a_place_leads_to_the_texts_that_stand_there(place: str, found: list[str]) -> None:
    assert parse_place("text", place).find(LINE) == found


@pytest.mark.parametrize("line", [None, 1, "text", [], {}, {"text": {}}])
def test_a_line_without_the_place_has_no_text(line: object) -> None:
    assert parse_place("text", "text").find(line) == []


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a[b]", "a[=b]", "a[b=c]d", "a.[b=c]", "[a=b]c", None, 5]
)
def test_what_is_no_place_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="no place"):
        parse_place("text", text)
