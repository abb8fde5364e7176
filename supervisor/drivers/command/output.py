"""What a command writes, as what the agent says: text as it comes, or texts in lines of JSON.

Rule 1: how the bytes were cut into pieces makes no difference.
Rule 2: a line that is too long, or no JSON object, is counted and passed over.
"""

from __future__ import annotations

import codecs
from typing import Final, Protocol

import orjson

from supervisor.drivers.plain import plain_text
from supervisor.drivers.process.lines import Line, Lines, TooLong
from supervisor.drivers.process.text import readable

from .places import Place

MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_NAME_LETTERS: Final = 256
_SHOWN_BYTES: Final = 2000


class Output(Protocol):
    """One turn's output, being read."""

    # Under which name the agent knows the conversation, if it has said so.
    session_id: str | None

    def feed(self, data: bytes) -> list[str]:
        """What is said by this piece; each is a message of its own, unless it `is_stream`."""

    def finish(self) -> list[str]:
        """What is said when it is known that nothing more will come."""

    @property
    def is_stream(self) -> bool:
        """Whether each text goes on where the one before has ended."""

    def complaint(self) -> str | None:
        """What was passed over, for people; None if nothing was."""

    def last_words(self) -> str:
        """What it wrote that was no output, in case it says why the command failed."""


class TextOutput:
    """All of it is text, in UTF-8; what is not is marked."""

    is_stream = True

    def __init__(self) -> None:
        self.session_id: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """See `Output`."""
        text = self._decoder.decode(data)
        return [text] if text else []

    def finish(self) -> list[str]:
        """See `Output`."""
        text = self._decoder.decode(b"", final=True)
        return [text] if text else []

    def complaint(self) -> str | None:
        """See `Output`."""
        return None

    def last_words(self) -> str:
        """See `Output`."""
        return ""


class JsonLinesOutput:
    """Objects, one a line, with text in some of them, and perhaps the conversation's name."""

    is_stream = False

    def __init__(self, text: Place, session_id_at: Place | None) -> None:
        self.session_id: str | None = None
        self._text = text
        self._session_id_at = session_id_at
        self._lines = Lines(max_line_bytes=MAX_LINE_BYTES)
        self._too_long = self._odd = 0
        self._last_odd = b""

    def feed(self, data: bytes) -> list[str]:
        """See `Output`."""
        return self._read(self._lines.feed(data))

    def finish(self) -> list[str]:
        """See `Output`."""
        return self._read(self._lines.finish())

    def complaint(self) -> str | None:
        """See `Output`."""
        if self._too_long:
            return f"{self._too_long} lines of its output were longer than {MAX_LINE_BYTES} bytes"
        if self._odd:
            return f"{self._odd} lines of its output were no JSON objects"
        return None

    def last_words(self) -> str:
        """See `Output`."""
        return readable(self._last_odd[-_SHOWN_BYTES:])

    def _read(self, lines: list[Line]) -> list[str]:
        return [text for line in lines for text in self._texts_in(line)]

    def _texts_in(self, line: Line) -> list[str]:
        if isinstance(line, TooLong):
            self._too_long += 1
            return []
        try:
            parsed = orjson.loads(line)
        except orjson.JSONDecodeError:
            parsed = None
        if not isinstance(parsed, dict):
            self._odd += 1
            self._last_odd = line
            return []
        self._note_session(parsed)
        return [plain_text(text) for text in self._text.find(parsed) if text]

    def _note_session(self, parsed: object) -> None:
        if self._session_id_at is None:
            return
        for name in self._session_id_at.find(parsed):
            if 0 < len(name) <= _MAX_NAME_LETTERS and name.isprintable():
                self.session_id = plain_text(name)
