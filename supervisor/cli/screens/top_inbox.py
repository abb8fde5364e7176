"""The inbox of `top`: the questions that wait, one of them in full, and the keys that answer it.

Rule 1: the shown question changes only when the user moves. One that is answered elsewhere, or
        whose turn ended, stays and says so; so a key never answers another question than the one
        that was read.
Rule 2: only the decisions that the request offers have keys; one that lasts asks for a second key.
        A question has digits for the answers to choose from, and takes any other text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from supervisor.cli.text_format import Cell, format_age, format_ago, format_duration
from supervisor.core.session_values import Decision
from supervisor.core.text import one_line, printable

from .top_order import Entry, display_name

if TYPE_CHECKING:
    from supervisor.sessions.inbox import PermissionRequest

# The same keys as in `attach`.
DECISION_KEYS: Final[Mapping[str, Decision]] = {
    "y": "allow_once",
    "a": "allow_always",
    "n": "reject_once",
    "d": "reject_always",
}
# For the answers that a question suggests, in order.
CHOICE_KEYS: Final = "123456789"
ANSWER_KEYS: Final = frozenset({*DECISION_KEYS, *CHOICE_KEYS})
_DECISION_WORDS: Final[Mapping[Decision, str]] = {
    "allow_once": "allow once",
    "allow_always": "allow always",
    "reject_once": "reject once",
    "reject_always": "reject always",
}
_MAX_INPUT_CHARACTERS: Final = 20_000
_SHORT_SECONDS: Final = 60.0


@attrs.define(eq=False)
class InboxModel:
    """The request that is shown, and what became of it."""

    shown: PermissionRequest | None = None
    # What happened to the shown request; None while it waits.
    outcome: str | None = None

    def update(self, requests: Mapping[str, PermissionRequest]) -> bool:
        """Compare with the requests that wait; return whether the shown one has changed."""
        if self.shown is None:
            first = next(iter(in_order(requests)), None)
            self.shown = first
            return first is not None
        if self.shown.id not in requests and self.outcome is None:
            self.outcome = "it waits no longer: it was answered elsewhere, or its turn ended"
            return True
        return False

    def move(self, requests: Mapping[str, PermissionRequest], by: int) -> None:
        """Show the next or the previous request that waits."""
        waiting = in_order(requests)
        if self.shown is None or not waiting:
            self.shown, self.outcome = next(iter(waiting), None), None
            return
        ids = [one.id for one in waiting]
        if self.shown.id in ids:
            place = ids.index(self.shown.id) + by
        else:
            at = (self.shown.asked_at, self.shown.id)
            before = sum((one.asked_at, one.id) < at for one in waiting)
            place = before if by > 0 else before - 1
        self.shown, self.outcome = waiting[min(max(place, 0), len(waiting) - 1)], None

    def show_request_of(self, requests: Mapping[str, PermissionRequest], session: str) -> None:
        """Show the oldest request of a session, if it has one: the user opened the inbox on it."""
        for one in in_order(requests):
            if one.session_id == session:
                self.shown, self.outcome = one, None
                return

    def decision_for(self, key: str) -> Decision | None:
        """Return the decision of a key if the shown request waits and offers it."""
        decision = DECISION_KEYS.get(key)
        is_offered = self.shown is not None and decision in self.shown.options
        return decision if is_offered and self.outcome is None else None

    def choice_for(self, key: str) -> str | None:
        """Return the suggested answer of a key if the shown question waits and has it."""
        place = CHOICE_KEYS.find(key)
        if self.question is None or place < 0 or place >= len(self.question.choices):
            return None
        return self.question.choices[place]

    @property
    def question(self) -> PermissionRequest | None:
        """The shown request if it is a question that waits."""
        shown = self.shown
        is_question = shown is not None and shown.asks == "question" and self.outcome is None
        return shown if is_question else None


def in_order(requests: Mapping[str, PermissionRequest]) -> list[PermissionRequest]:
    """Return the requests, the oldest first."""
    return sorted(requests.values(), key=lambda one: (one.asked_at, one.id))


def inbox_lines(
    inbox: InboxModel,
    requests: Mapping[str, PermissionRequest],
    entries: Mapping[str, Entry],
    *,
    now: float,
) -> list[list[Cell | str]]:
    """Return the shown question in full, its keys, and one line for each other request."""
    shown = inbox.shown
    if shown is None:
        return [[Cell("No question waits for you.", "dim")]]
    ids = [one.id for one in in_order(requests)]
    place = f"{ids.index(shown.id) + 1} of {len(ids)}" if shown.id in ids else f"{len(ids)} wait"
    lines: list[list[Cell | str]] = [
        [
            Cell(_name_of(shown.session_id, entries), "bold magenta"),
            " asks" if shown.asks == "question" else f" asks for {one_line(shown.tool)}",
            Cell(f"  {format_ago(now - shown.asked_at)}, {place}", "dim"),
            *_time_left(shown, now),
        ]
    ]
    lines.append(_answer_line(inbox, shown))
    lines += [[Cell(line)] for line in printable(shown.question).split("\n")]
    lines += [[Cell(line, "yellow")] for line in _input_lines(shown)]
    for key, choice in zip(CHOICE_KEYS, shown.choices, strict=False):
        lines.append([Cell(f"{key} ", "bold cyan"), one_line(choice)])
    others = [one for one in in_order(requests) if one.id != shown.id]
    if others:
        lines.append([])
    for one in others:
        who, what = _name_of(one.session_id, entries), one_line(one.title)
        age = format_age(now - one.asked_at)
        lines.append([Cell(f"{who}  ", "magenta"), Cell(f"{age}  {what}", "dim")])
    return lines


def _answer_line(inbox: InboxModel, shown: PermissionRequest) -> list[Cell | str]:
    if inbox.outcome is not None:
        return [Cell(one_line(inbox.outcome), "bold green"), Cell("  down: the next", "dim")]
    if shown.asks == "question":
        keys: list[Cell | str] = [Cell("m ", "bold cyan"), "type an answer  "]
        return [Cell("1-9 ", "bold cyan"), "choose  ", *keys] if shown.choices else keys
    cells: list[Cell | str] = []
    for key, decision in DECISION_KEYS.items():
        if decision in shown.options:
            cells += [Cell(f"{key} ", "bold cyan"), f"{_DECISION_WORDS[decision]}  "]
    return cells


def _time_left(request: PermissionRequest, now: float) -> list[Cell | str]:
    expires_at: float | None = getattr(request, "expires_at", None)
    if expires_at is None:
        return []
    left = max(0.0, expires_at - now)
    style = "bold red" if left < _SHORT_SECONDS else "yellow"
    end = "closed" if request.asks == "question" else "rejected"
    return [Cell(f"  {end} in {format_duration(left)}", style)]


def _input_lines(request: PermissionRequest) -> list[str]:
    """Return the input of the tool, one line for each argument, long text in its own lines."""
    lines = []
    for name, value in (request.input or {}).items():
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
        first, *rest = printable(text).split("\n")
        lines += [f"{one_line(name)}: {first}", *(f"    {line}" for line in rest)]
    text = "\n".join(lines)
    more = len(text) - _MAX_INPUT_CHARACTERS
    if more > 0:
        text = f"{text[:_MAX_INPUT_CHARACTERS]}… and {more} more characters"
    return text.split("\n") if text else []


def _name_of(session_id: str, entries: Mapping[str, Entry]) -> str:
    entry = entries.get(session_id)
    return session_id if entry is None else one_line(display_name(entry))
