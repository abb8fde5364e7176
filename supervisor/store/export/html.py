"""Export of a session as one self-contained page of HTML: no script, image or external address.

The style supports light and dark mode, small screens and print.

Rule 1: text of users and agents passes `_escape` or `_escape_line` and is only placed in text;
        it never becomes a tag name, an address or a style. A content security policy also forbids
        everything but the page's own style.
"""

from __future__ import annotations

import base64
import hashlib
import html
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
    Tone,
    TranscriptItem,
    TurnEndItem,
    TurnStartItem,
)
from .values import (
    duration,
    excerpt,
    plan_entry,
    readable_value,
    session_fields,
    session_title,
    time_of_day,
    timestamp,
    usage_text,
)

STYLE: Final = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --sheet: #ffffff; --ink: #1f2328; --faint: #656d76; --line: #e2e0dc;
  --user: #0f5fb8; --user-sheet: #eef5fd; --agent: #3b7a2a; --good: #2c7a3f; --bad: #b42318;
  --bad-sheet: #fdf1ef; --code: #f5f3f0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14161a; --sheet: #1b1e23; --ink: #e4e6ea; --faint: #969ea8; --line: #2f343b;
    --user: #7cb8ff; --user-sheet: #182434; --agent: #8fd07d; --good: #77c98b; --bad: #ff9a8d;
    --bad-sheet: #2b1c1b; --code: #23272d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 52rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0; }
h2 a { color: inherit; text-decoration: none; }
h2 a:hover { text-decoration: underline; }
h2.chapter { font-size: 1.3rem; margin: 3rem 0 1rem; padding-top: 1rem;
  border-top: 3px double var(--line); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 2rem;
  padding: .9rem 1.1rem; background: var(--sheet); border: 1px solid var(--line);
  border-radius: .6rem; font-size: .9rem; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.turn { margin: 2.25rem 0; }
.turn > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem .75rem;
  padding-bottom: .4rem; margin-bottom: .9rem; border-bottom: 1px solid var(--line); }
.faint, time { color: var(--faint); font-size: .82rem; }
.text, .fine { white-space: pre-wrap; overflow-wrap: anywhere; }
.said { margin: .8rem 0; padding: .7rem 1rem; background: var(--sheet);
  border: 1px solid var(--line); border-left: 4px solid var(--agent); border-radius: .5rem; }
.said.user { background: var(--user-sheet); border-left-color: var(--user); }
.said > header { display: flex; gap: .6rem; align-items: baseline; margin-bottom: .2rem; }
.who { font-weight: 600; font-size: .88rem; color: var(--agent); }
.user > header .who { color: var(--user); }
details, .note, .plan { margin: .6rem 0; padding: .45rem .8rem; border: 1px solid var(--line);
  border-radius: .5rem; font-size: .9rem; background: var(--sheet); }
summary { cursor: pointer; display: flex; flex-wrap: wrap; gap: .15rem .6rem;
  align-items: baseline; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary::before { content: "\\25b8"; color: var(--faint); }
details[open] > summary::before { content: "\\25be"; }
summary .gist { color: var(--faint); overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; flex: 1 1 5rem; min-width: 0; }
.thought summary, .thought .text { color: var(--faint); font-style: italic; }
.name, .gist, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono",
  monospace; font-size: .84rem; }
.name { font-weight: 600; }
pre { margin: .3rem 0 .6rem; padding: .6rem .8rem; background: var(--code); border-radius: .4rem;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 32rem; overflow-y: auto; }
.label { color: var(--faint); font-size: .78rem; margin: .5rem 0 0; }
.note { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline;
  border-style: dashed; background: none; }
.note .fine { flex: 1 1 100%; color: var(--faint); }
.note.bad { border-color: var(--bad); background: var(--bad-sheet); }
.badge { font-size: .75rem; font-weight: 600; padding: 0 .5rem; border-radius: 1rem;
  border: 1px solid currentColor; white-space: nowrap; }
.good > .badge, .badge.good { color: var(--good); }
.bad > .badge, .badge.bad { color: var(--bad); }
.badge.plain { color: var(--faint); }
.turn > footer { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: baseline;
  margin-top: .8rem; }
ol { margin: .3rem 0; padding-left: 1.5rem; }
body > footer { text-align: center; padding: 0 1rem 3rem; }
@media (max-width: 34rem) {
  main { padding: 1.25rem .8rem 3rem; }
  h1 { font-size: 1.35rem; }
  dl { grid-template-columns: minmax(4.5rem, max-content) 1fr; gap: .15rem .7rem; }
  .said { padding: .6rem .75rem; }
}
@media print { body { background: none; } pre { max-height: none; } .said { break-inside: avoid; } }
"""

_STYLE_DIGEST: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# A second line of defence: it blocks scripts and requests if an escape is ever missed.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; base-uri 'none'; form-action 'none'"
)

_ROLES: Final = {"user": "User", "agent": "Agent"}

_TONES: Final[dict[str | None, Tone]] = {
    "completed": "good",
    "allow_once": "good",
    "allow_always": "good",
    None: "plain",
}


def write_html(info: Info, items: Iterable[TranscriptItem]) -> Iterator[str]:
    """Yield the page, a few tags at a time."""
    yield _head(session_title(info))
    yield from _header_fields(info)
    inside = False
    for item in items:
        if isinstance(item, TurnStartItem | ChapterItem) and inside:
            yield "</section>\n"
            inside = False
        yield from _render(item)
        inside = inside or isinstance(item, TurnStartItem)
        if isinstance(item, TurnEndItem) and inside:
            yield "</section>\n"
            inside = False
    yield "</section>\n" if inside else ""
    yield "</main>\n<footer class='faint'>Exported by Understudy</footer>\n</body>\n</html>\n"


def _escape(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _escape_line(text: str) -> str:
    return html.escape(one_line(text), quote=True)


def _head(title: str) -> str:
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<meta name='referrer' content='no-referrer'>\n"
        f"<title>{_escape_line(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1 dir='auto'>{_escape_line(title)}</h1>\n"
    )


def _header_fields(info: Info) -> Iterator[str]:
    yield "<dl>\n"
    for name, value in session_fields(info):
        yield f"<dt>{_escape_line(name)}</dt><dd>{_escape_line(value)}</dd>\n"
    yield "</dl>\n"


def _time(at: float) -> str:
    return f"<time title='{_escape_line(timestamp(at))}'>{_escape_line(time_of_day(at))}</time>"


def _badge(word: str | None, default: str) -> str:
    tone = _TONES.get(word, "bad")
    return f"<span class='badge {tone}'>{_escape_line(word or default)}</span>"


def _block(label: str, value: Any) -> str:  # noqa: ANN401 - any plain data
    if value is None or value == "":
        return ""
    # Browsers drop the first newline of a `pre`, so one is added.
    return f"<p class='label'>{label}</p><pre dir='auto'>\n{_escape(readable_value(value))}</pre>\n"


def _render(item: TranscriptItem) -> Iterator[str]:
    match item:
        case ChapterItem():
            yield f"<h2 class='chapter'>Chapter {item.number} {_time(item.at)}</h2>\n"
        case TurnStartItem():
            yield f"<section class='turn' id='turn-{item.number}'>\n<header><h2>"
            yield f"<a href='#turn-{item.number}'>Turn {item.number}</a></h2>"
            yield f"<time>{_escape_line(timestamp(item.at))}</time>"
            yield f"<span class='faint'>from {_escape_line(item.source)}</span></header>\n"
        case TurnEndItem():
            yield from _turn_end(item)
        case TextItem():
            yield from _text(item)
        case CallItem():
            yield from _call(item)
        case PermissionItem():
            yield from _permission(item)
        case PlanItem():
            entries = "".join(
                f"<li dir='auto'>{_escape(plan_entry(planned))}</li>" for planned in item.entries
            )
            yield f"<div class='plan'><span class='who'>Plan</span> {_time(item.at)}"
            yield f"<ol>{entries}</ol></div>\n"
        case NoteItem():
            yield f"<div class='note {item.tone}'>{_time(item.at)}<span>{_escape(item.text)}</span>"
            if item.detail is not None:
                yield f"<div class='fine' dir='auto'>{_escape(item.detail)}</div>"
            yield "</div>\n"
        case _:
            assert_never(item)


def _text(item: TextItem) -> Iterator[str]:
    if item.role == "thought":
        yield f"<details class='thought'><summary><span>Thought</span>{_time(item.at)}"
        yield f"<span class='gist'>{html.escape(excerpt(item.text))}</span></summary>"
        yield f"<div class='text' dir='auto'>{_escape(item.text)}</div></details>\n"
        return
    steered = "<span class='badge plain'>steered in</span>" if item.steered else ""
    yield f"<article class='said {item.role}'><header><span class='who'>{_ROLES[item.role]}</span>"
    yield f"{_time(item.at)}{steered}</header>"
    yield f"<div class='text' dir='auto'>{_escape(item.text)}</div></article>\n"


def _call(item: CallItem) -> Iterator[str]:
    took = "" if item.ended_at is None else duration(item.ended_at - item.at)
    yield f"<details class='call'><summary><span class='name'>{_escape_line(item.name)}</span>"
    yield f"<span class='gist'>{html.escape(excerpt(item.input)) if item.input else ''}</span>"
    yield f"{_badge(item.outcome, 'not ended')}<span class='faint'>{took}</span></summary>\n"
    yield _block("Input", item.input)
    for update in item.updates:
        yield _block("Update", update)
    yield _block("Result", item.result)
    yield "</details>\n"


def _permission(item: PermissionItem) -> Iterator[str]:
    by = f"<span class='faint'>by {_escape_line(item.by)}</span>" if item.by else ""
    yield f"<details class='question' open><summary><span>{item.title}</span>"
    yield f"<span class='name'>{_escape_line(item.tool)}</span>{_time(item.at)}"
    yield f"{_badge(item.decision, 'no answer yet')}{by}</summary>\n"
    yield f"<div class='text' dir='auto'>{_escape(item.question)}</div>"
    yield _block("Input", item.input)
    yield _block("Answer", item.answer)
    yield "</details>\n"


def _turn_end(item: TurnEndItem) -> Iterator[str]:
    if item.error is not None:
        yield f"<div class='note bad'><div class='fine'>{_escape(item.error)}</div></div>\n"
    parts = [_escape_line(item.stop_reason)] if item.stop_reason else []
    parts += [duration(item.seconds)] if item.seconds else []
    parts += [used] if (used := usage_text(item.usage)) else []
    yield f"<footer>{_badge(item.outcome, 'still open')}"
    yield f"<span class='faint'>{' · '.join(parts)}</span></footer>\n"
