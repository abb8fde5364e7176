"""A session as one page of HTML that needs nothing else: no script, no picture, no other place.

Rule 1: whatever somebody said goes through `_safe`, and only into text; no name, no address and
        no style is ever made of it. The page forbids itself everything but its own style, too.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator
from typing import Any, Final, assert_never

from supervisor.core.info import Info
from supervisor.core.printable import one_line, printable

from .items import (
    Call,
    ChapterBegan,
    Item,
    Note,
    Plan,
    Question,
    Text,
    Tone,
    TurnBegan,
    TurnOver,
)
from .plain import clock, duration, entry, gist, stamp, words
from .style import STYLE
from .summary import facts_of, spent, title_of

_DIGEST: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Without a script there is nothing to forbid; this is for the day on which something slips through.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
_WHO: Final = {"user": "User", "agent": "Agent"}
_TONES: Final[dict[str | None, Tone]] = {
    "completed": "good",
    "allow_once": "good",
    "allow_always": "good",
    None: "plain",
}


def write_page(info: Info, items: Iterable[Item]) -> Iterator[str]:
    """The page, a few tags at a time."""
    yield _head(title_of(info))
    yield from _facts(info)
    inside = False
    for item in items:
        if isinstance(item, TurnBegan | ChapterBegan) and inside:
            yield "</section>\n"
            inside = False
        yield from _written(item)
        inside = inside or isinstance(item, TurnBegan)
        if isinstance(item, TurnOver) and inside:
            yield "</section>\n"
            inside = False
    yield "</section>\n" if inside else ""
    yield "</main>\n<footer class='faint'>Exported by Understudy</footer>\n</body>\n</html>\n"


def _safe(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _safe_line(text: str) -> str:
    return html.escape(one_line(text), quote=True)


def _head(title: str) -> str:
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<meta name='referrer' content='no-referrer'>\n"
        f"<title>{_safe_line(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1 dir='auto'>{_safe_line(title)}</h1>\n"
    )


def _facts(info: Info) -> Iterator[str]:
    yield "<dl>\n"
    for name, value in facts_of(info):
        yield f"<dt>{_safe_line(name)}</dt><dd>{_safe_line(value)}</dd>\n"
    yield "</dl>\n"


def _time(at: float) -> str:
    return f"<time title='{_safe_line(stamp(at))}'>{_safe_line(clock(at))}</time>"


def _badge(word: str | None, otherwise: str) -> str:
    tone = _TONES.get(word, "bad")
    return f"<span class='badge {tone}'>{_safe_line(word or otherwise)}</span>"


def _block(label: str, value: Any) -> str:  # noqa: ANN401 - any plain data
    if value is None or value == "":
        return ""
    # The first newline of a `pre` is not shown, so there is always one that may be lost.
    return f"<p class='label'>{label}</p><pre dir='auto'>\n{_safe(words(value))}</pre>\n"


def _written(item: Item) -> Iterator[str]:
    match item:
        case ChapterBegan():
            yield f"<h2 class='chapter'>Chapter {item.number} {_time(item.at)}</h2>\n"
        case TurnBegan():
            yield f"<section class='turn' id='turn-{item.number}'>\n<header><h2>"
            yield f"<a href='#turn-{item.number}'>Turn {item.number}</a></h2>"
            yield f"<time>{_safe_line(stamp(item.at))}</time>"
            yield f"<span class='faint'>from {_safe_line(item.source)}</span></header>\n"
        case TurnOver():
            yield from _turn_over(item)
        case Text():
            yield from _text(item)
        case Call():
            yield from _call(item)
        case Question():
            yield from _question(item)
        case Plan():
            entries = "".join(
                f"<li dir='auto'>{_safe(entry(planned))}</li>" for planned in item.entries
            )
            yield f"<div class='plan'><span class='who'>Plan</span> {_time(item.at)}"
            yield f"<ol>{entries}</ol></div>\n"
        case Note():
            yield f"<div class='note {item.tone}'>{_time(item.at)}<span>{_safe(item.what)}</span>"
            if item.detail is not None:
                yield f"<div class='fine' dir='auto'>{_safe(item.detail)}</div>"
            yield "</div>\n"
        case _:
            assert_never(item)


def _text(item: Text) -> Iterator[str]:
    if item.who == "thought":
        yield f"<details class='thought'><summary><span>Thought</span>{_time(item.at)}"
        yield f"<span class='gist'>{html.escape(gist(item.text))}</span></summary>"
        yield f"<div class='text' dir='auto'>{_safe(item.text)}</div></details>\n"
        return
    steered = "<span class='badge plain'>steered in</span>" if item.steered else ""
    yield f"<article class='said {item.who}'><header><span class='who'>{_WHO[item.who]}</span>"
    yield f"{_time(item.at)}{steered}</header>"
    yield f"<div class='text' dir='auto'>{_safe(item.text)}</div></article>\n"


def _call(item: Call) -> Iterator[str]:
    took = "" if item.ended_at is None else duration(item.ended_at - item.at)
    yield f"<details class='call'><summary><span class='name'>{_safe_line(item.name)}</span>"
    yield f"<span class='gist'>{html.escape(gist(item.input)) if item.input else ''}</span>"
    yield f"{_badge(item.outcome, 'not ended')}<span class='faint'>{took}</span></summary>\n"
    yield _block("Input", item.input)
    for update in item.updates:
        yield _block("Update", update)
    yield _block("Result", item.result)
    yield "</details>\n"


def _question(item: Question) -> Iterator[str]:
    by = f"<span class='faint'>by {_safe_line(item.by)}</span>" if item.by else ""
    yield "<details class='question' open><summary><span>Asked for permission</span>"
    yield f"<span class='name'>{_safe_line(item.tool)}</span>{_time(item.at)}"
    yield f"{_badge(item.decision, 'no answer yet')}{by}</summary>\n"
    yield f"<div class='text' dir='auto'>{_safe(item.question)}</div>"
    yield _block("Input", item.input)
    yield "</details>\n"


def _turn_over(item: TurnOver) -> Iterator[str]:
    if item.error is not None:
        yield f"<div class='note bad'><div class='fine'>{_safe(item.error)}</div></div>\n"
    parts = [_safe_line(item.stop_reason)] if item.stop_reason else []
    parts += [duration(item.seconds)] if item.seconds else []
    parts += [used] if (used := spent(item.usage)) else []
    yield f"<footer>{_badge(item.outcome, 'still open')}"
    yield f"<span class='faint'>{' · '.join(parts)}</span></footer>\n"
