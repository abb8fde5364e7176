"""Values as harmless, readable text."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from supervisor.core.printable import one_line, printable


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
