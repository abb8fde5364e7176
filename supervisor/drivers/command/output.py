"""Parsers of the output of a command: plain text, or texts in lines of JSON.

A `JsonPath` selects texts in a line of JSON. It is a list of names separated by dots:
`message.text`. A list on the way stands for each of its items. After a name, or instead of the
first one, `[key=value]` keeps only objects with that value:
`[type=assistant].message.content[type=text].text`.

Rule 1: the result does not depend on how the bytes were cut into chunks.
Rule 2: a line that is too long or not a JSON object is counted and skipped.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final, Protocol

import attrs
import orjson

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.text import decode_printable, plain_text
from supervisor.json_rpc.lines import Line, LineSplitter, OverlongLine

_NAME: Final = r"[^.\[\]=]+"
_FILTER: Final = rf"\[(?:{_NAME})=[^\[\]]*\]"
_PATH: Final = re.compile(rf"(?:{_FILTER}|{_NAME}(?:{_FILTER})?)(?:\.{_NAME}(?:{_FILTER})?)*")
_STEPS: Final = re.compile(rf"(?:^|\.)({_NAME})?(?:\[({_NAME})=([^\[\]]*)\])?")
# The maximum number of values that a path selects in one line.
_MAX_FOUND: Final = 10_000
MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_SESSION_ID_CHARS: Final = 256
_SHOWN_BYTES: Final = 2000


@attrs.frozen
class _PathStep:
    name: str | None
    key: str | None
    value: str | None


@attrs.frozen
class JsonPath:
    """A parsed path into a line of JSON; the module's docstring defines its form."""

    text: str
    _steps: tuple[_PathStep, ...]

    def find(self, line: object) -> list[str]:
        """Return the selected texts, in order; integers count as text, other values do not."""
        values = [line]
        for step in self._steps:
            values = [found for value in values for found in _follow(value, step)][:_MAX_FOUND]
        return [
            str(value)
            for value in values
            if isinstance(value, str | int) and not isinstance(value, bool)
        ]


def parse_json_path(what: str, text: object) -> JsonPath:
    """Return the parsed path; raise `ConfigError` if the text is malformed."""
    if not isinstance(text, str) or not _PATH.fullmatch(text):
        raise ConfigError(
            f"{what} is {short_repr(text)}, which is not a path in a line of JSON",
            hint="write names separated by dots, like message.text",
        )
    return JsonPath(text, tuple(_PathStep(*found.groups()) for found in _STEPS.finditer(text)))


def _follow(value: object, step: _PathStep) -> Iterator[object]:
    """Yield the values selected by one step of a path."""
    if step.name is not None:
        if not isinstance(value, dict) or step.name not in value:
            return
        value = value[step.name]
    for item in value if isinstance(value, list) else [value]:
        if step.key is None or (isinstance(item, dict) and item.get(step.key) == step.value):
            yield item


class CommandOutput(Protocol):
    """Parser of the output of one turn."""

    # The agent's id of the conversation, once it was found in the output.
    session_id: str | None

    def feed(self, data: bytes) -> list[str]:
        """Return the texts in this chunk; each is a separate message, unless `is_stream`."""

    def finish(self) -> list[str]:
        """Return the remaining texts, at the end of the output."""

    @property
    def is_stream(self) -> bool:
        """True if each text continues the text before it."""

    def skipped_lines_warning(self) -> str | None:
        """Return a warning about skipped lines, for people; None if none were skipped."""

    def unparsed_tail(self) -> str:
        """Return the last output that could not be parsed; it may say why the command failed."""


class TextOutput:
    """Parser of plain text in UTF-8; invalid bytes become replacement characters."""

    is_stream = True

    def __init__(self) -> None:
        self.session_id: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Return the text in this chunk; an incomplete character is kept for the next chunk."""
        text = self._decoder.decode(data)
        return [text] if text else []

    def finish(self) -> list[str]:
        """Return the text of an incomplete last character, with a replacement character."""
        text = self._decoder.decode(b"", final=True)
        return [text] if text else []

    def skipped_lines_warning(self) -> str | None:
        """Return None: no line of plain text is skipped."""
        return None

    def unparsed_tail(self) -> str:
        """Return an empty text: all plain text is output."""
        return ""


class JsonLinesOutput:
    """Parser of JSON objects, one per line, some with text or the conversation id."""

    is_stream = False

    def __init__(self, text: JsonPath, session_id_at: JsonPath | None) -> None:
        self.session_id: str | None = None
        self._text = text
        self._session_id_at = session_id_at
        self._lines = LineSplitter(max_line_bytes=MAX_LINE_BYTES)
        self._too_long = self._unparsed = 0
        self._last_unparsed = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the texts in the lines that this chunk completes."""
        return self._read(self._lines.feed(data))

    def finish(self) -> list[str]:
        """Return the texts in the last line, which has no newline."""
        return self._read(self._lines.finish())

    def skipped_lines_warning(self) -> str | None:
        """Return a warning with the number of skipped lines; None if none were skipped."""
        if self._too_long:
            return f"{self._too_long} lines of the output are longer than {MAX_LINE_BYTES} bytes"
        if self._unparsed:
            return f"{self._unparsed} lines of the output are not JSON objects"
        return None

    def unparsed_tail(self) -> str:
        """Return the last skipped line, which may say why the command failed."""
        return decode_printable(self._last_unparsed[-_SHOWN_BYTES:])

    def _read(self, lines: list[Line]) -> list[str]:
        return [text for line in lines for text in self._texts_in(line)]

    def _texts_in(self, line: Line) -> list[str]:
        if isinstance(line, OverlongLine):
            self._too_long += 1
            return []
        try:
            parsed = orjson.loads(line)
        except orjson.JSONDecodeError:
            parsed = None
        if not isinstance(parsed, dict):
            self._unparsed += 1
            self._last_unparsed = line
            return []
        self._set_session_id(parsed)
        return [plain_text(text) for text in self._text.find(parsed) if text]

    def _set_session_id(self, parsed: object) -> None:
        if self._session_id_at is None:
            return
        for session_id in self._session_id_at.find(parsed):
            if 0 < len(session_id) <= _MAX_SESSION_ID_CHARS and session_id.isprintable():
                self.session_id = plain_text(session_id)
