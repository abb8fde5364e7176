"""A session as markdown.

Rule 1: whatever somebody said stands between fences that are longer than any in it, or in a code
        span of which the same is true; so nothing in it is a heading, a list or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, assert_never

from supervisor.core.info import Info
from supervisor.core.printable import one_line, printable

from .items import Call, ChapterBegan, Item, Note, Plan, Question, Text, TurnBegan, TurnOver
from .plain import clock, duration, entry, stamp, words
from .summary import facts_of, spent, title_of

_MARKS: Final = re.compile(r"([\\`*_\[\]<>&|~#!$])")
_TICKS: Final = re.compile("`+")
_WHO: Final = {"user": "User", "agent": "Agent"}


def write_markdown(info: Info, items: Iterable[Item]) -> Iterator[str]:
    """The page, a few lines at a time."""
    yield f"# {escaped(title_of(info))}\n\n"
    for name, value in facts_of(info):
        yield f"- {escaped(name)}: {span(value)}\n"
    yield "\n"
    for item in items:
        yield from _written(item)


def fenced(text: str, language: str = "text") -> str:
    """The text as a block of its own, out of which it cannot get."""
    text = printable(text)
    fence = "`" * max(3, _longest(text) + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}\n\n"


def span(text: str) -> str:
    """The text inside a line, out of which it cannot get."""
    line = one_line(text)
    if not line:
        return "(empty)"
    ticks = "`" * (_longest(line) + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{room}{line}{room}{ticks}"


def escaped(text: str) -> str:
    """The text on one line, in which no letter means anything but itself."""
    return _MARKS.sub(r"\\\1", one_line(text))


def _longest(text: str) -> int:
    return max((len(ticks) for ticks in _TICKS.findall(text)), default=0)


def _block(label: str, value: Any) -> str:  # noqa: ANN401 - any plain data
    if value is None or value == "":
        return ""
    return f"{label}:\n\n" + fenced(words(value), "text" if isinstance(value, str) else "json")


def _written(item: Item) -> Iterator[str]:
    match item:
        case ChapterBegan():
            yield f"---\n\n# Chapter {item.number}\n\n*since {stamp(item.at)}*\n\n"
        case TurnBegan():
            yield f"## Turn {item.number}\n\n"
            yield f"*{stamp(item.at)}, from {escaped(item.source)}*, {span(item.turn_id)}\n\n"
        case TurnOver():
            yield from _turn_over(item)
        case Text():
            yield from _text(item)
        case Call():
            yield from _call(item)
        case Question():
            yield f"**Asked for permission**: {span(item.tool)} *{clock(item.at)}*\n\n"
            yield fenced(item.question)
            yield _block("Input", item.input)
            by = f", by {span(item.by)}" if item.by else ""
            yield f"Answer: {span(item.decision or 'none yet')}{by}\n\n"
        case Plan():
            yield f"**Plan** *{clock(item.at)}*\n\n"
            yield "".join(f"- {span(entry(planned))}\n" for planned in item.entries) + "\n"
        case Note():
            yield f"*{clock(item.at)}* {escaped(item.what)}\n\n"
            if item.detail is not None:
                yield fenced(item.detail)
        case _:
            assert_never(item)


def _text(item: Text) -> Iterator[str]:
    if item.who == "thought":
        yield f"<details><summary>Thought, {clock(item.at)}</summary>\n\n"
        yield fenced(item.text)
        yield "</details>\n\n"
        return
    steered = ", steered into the turn" if item.steered else ""
    yield f"**{_WHO[item.who]}**{steered} *{clock(item.at)}*\n\n"
    yield fenced(item.text)


def _call(item: Call) -> Iterator[str]:
    took = "" if item.ended_at is None else f", {duration(item.ended_at - item.at)}"
    outcome = escaped(item.outcome or "not ended")
    yield f"**Tool** {span(item.name)}: {outcome}{took} *{clock(item.at)}*\n\n"
    yield _block("Input", item.input)
    for update in item.updates:
        yield _block("Update", update)
    yield _block("Result", item.result)


def _turn_over(item: TurnOver) -> Iterator[str]:
    parts = [escaped(item.outcome or "still open")]
    parts += [escaped(item.stop_reason)] if item.stop_reason else []
    parts += [duration(item.seconds)] if item.seconds else []
    parts += [used] if (used := spent(item.usage)) else []
    yield f"*Turn over: {', '.join(parts)}*\n\n"
    if item.error is not None:
        yield fenced(item.error)
