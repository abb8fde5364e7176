"""Values as harmless, readable text.

Rule 1: nothing leaves here that a terminal, an editor or a browser would obey: no control
        characters but newline and tab, no escape sequences, nothing that turns the direction of
        writing, no half characters.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any, Final

# Sequences are taken out whole, so that nothing of them stays behind as text: control sequences,
# and strings (titles, links, clipboards) if they end. Then whatever is left of single controls.
_SEQUENCES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}+[ -/]{0,16}+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}+[0-~]"
)
_LINE_ENDS: Final = re.compile(r"\r\n?|[\u2028\u2029]")
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\ufeff]")
_HALVES: Final = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """The text without anything that is obeyed instead of being read."""
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    return _HALVES.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(printable(text).split())


def words(value: Any) -> str:  # noqa: ANN401 - any plain data
    """Plain data for people: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return printable(value)
    return printable(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def gist(value: Any, letters: int = 80) -> str:  # noqa: ANN401 - any plain data
    """The beginning of it, on one line; of a mapping with one text in it, that text."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = one_line(text[: 4 * letters])
    return line if len(line) <= letters else line[: letters - 1] + "…"


def entry(value: Any) -> str:  # noqa: ANN401 - any plain data
    """One thing that is planned: many agents say it as content, and how far it is."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        return words(value)
    status = value.get("status")
    return printable(f"{value['content']} ({status})" if status else value["content"])


def stamp(at: float) -> str:
    """An instant, to the second."""
    try:
        moment = dt.datetime.fromtimestamp(at, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at} s"  # no calendar goes that far
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: float) -> str:
    """Its time of day."""
    full = stamp(at).split()
    return full[1] if full[-1] == "UTC" else full[0]


def duration(seconds: float) -> str:
    """So many seconds, as one says it."""
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
