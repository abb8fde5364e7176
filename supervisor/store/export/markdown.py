"""Export of a session as markdown.

Rule 1: text of users and agents is in a fenced block whose fence is longer than any in the text,
        or in a code span delimited likewise; so it cannot become a heading, a list or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, assert_never

from supervisor.core.info import Info
from supervisor.core.text import one_line, printable

from .items import (
    CallItem,
    ChapterItem,
    NoteItem,
    PermissionItem,
    PlanItem,
    TextItem,
    TranscriptItem,
    TurnEndItem,
    TurnStartItem,
)
from .values import (
    duration,
    plan_entry,
    readable_value,
    session_fields,
    session_title,
    time_of_day,
    timestamp,
    usage_text,
)

_SPECIAL_CHARS: Final = re.compile(r"([\\`*_\[\]<>&|~#!$])")
_BACKTICKS: Final = re.compile("`+")
_ROLES: Final = {"user": "User", "agent": "Agent"}


def write_markdown(info: Info, items: Iterable[TranscriptItem]) -> Iterator[str]:
    """Yield the page, a few lines at a time."""
    yield f"# {escaped(session_title(info))}\n\n"
    for name, value in session_fields(info):
        yield f"- {escaped(name)}: {span(value)}\n"
    yield "\n"
    for item in items:
        yield from _render(item)


def fenced(text: str, language: str = "text") -> str:
    """Return the text as a fenced block that it cannot close."""
    text = printable(text)
    fence = "`" * max(3, _longest_backticks(text) + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}\n\n"


def span(text: str) -> str:
    """Return the text as a code span that it cannot close."""
    line = one_line(text)
    if not line:
        return "(empty)"
    ticks = "`" * (_longest_backticks(line) + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{room}{line}{room}{ticks}"


def escaped(text: str) -> str:
    """Return the text on one line, with all special characters escaped."""
    return _SPECIAL_CHARS.sub(r"\\\1", one_line(text))


def _longest_backticks(text: str) -> int:
    return max((len(ticks) for ticks in _BACKTICKS.findall(text)), default=0)


def _block(label: str, value: Any) -> str:  # noqa: ANN401 - any plain data
    if value is None or value == "":
        return ""
    return f"{label}:\n\n" + fenced(
        readable_value(value), "text" if isinstance(value, str) else "json"
    )


def _render(item: TranscriptItem) -> Iterator[str]:
    match item:
        case ChapterItem():
            yield f"---\n\n# Chapter {item.number}\n\n*since {timestamp(item.at)}*\n\n"
        case TurnStartItem():
            yield f"## Turn {item.number}\n\n"
            yield f"*{timestamp(item.at)}, from {escaped(item.source)}*, {span(item.turn_id)}\n\n"
        case TurnEndItem():
            yield from _turn_end(item)
        case TextItem():
            yield from _text(item)
        case CallItem():
            yield from _call(item)
        case PermissionItem():
            yield f"**{item.title}**: {span(item.tool)} *{time_of_day(item.at)}*\n\n"
            yield fenced(item.question)
            yield _block("Input", item.input)
            yield _block("Text", item.answer)
            by = f", by {span(item.by)}" if item.by else ""
            yield f"Answer: {span(item.decision or 'none yet')}{by}\n\n"
        case PlanItem():
            yield f"**Plan** *{time_of_day(item.at)}*\n\n"
            yield "".join(f"- {span(plan_entry(planned))}\n" for planned in item.entries) + "\n"
        case NoteItem():
            yield f"*{time_of_day(item.at)}* {escaped(item.text)}\n\n"
            if item.detail is not None:
                yield fenced(item.detail)
        case _:
            assert_never(item)


def _text(item: TextItem) -> Iterator[str]:
    if item.role == "thought":
        yield f"<details><summary>Thought, {time_of_day(item.at)}</summary>\n\n"
        yield fenced(item.text)
        yield "</details>\n\n"
        return
    steered = ", steered into the turn" if item.steered else ""
    yield f"**{_ROLES[item.role]}**{steered} *{time_of_day(item.at)}*\n\n"
    yield fenced(item.text)


def _call(item: CallItem) -> Iterator[str]:
    took = "" if item.ended_at is None else f", {duration(item.ended_at - item.at)}"
    outcome = escaped(item.outcome or "not ended")
    yield f"**Tool** {span(item.name)}: {outcome}{took} *{time_of_day(item.at)}*\n\n"
    yield _block("Input", item.input)
    for update in item.updates:
        yield _block("Update", update)
    yield _block("Result", item.result)


def _turn_end(item: TurnEndItem) -> Iterator[str]:
    parts = [escaped(item.outcome or "still open")]
    parts += [escaped(item.stop_reason)] if item.stop_reason else []
    parts += [duration(item.seconds)] if item.seconds else []
    parts += [used] if (used := usage_text(item.usage)) else []
    yield f"*Turn over: {', '.join(parts)}*\n\n"
    if item.error is not None:
        yield fenced(item.error)
