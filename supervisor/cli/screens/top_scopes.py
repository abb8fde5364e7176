"""What an interrupt or a stop of a session would hit, said before it acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.cli.text_format import counted, format_age, truncate
from supervisor.core.records import Record
from supervisor.core.scopes import Scope, ToolCall, TurnScope
from supervisor.core.text import one_line

from .top_order import Entry

if TYPE_CHECKING:
    from supervisor.core.receipts import InterruptReport

_MAX_CALLS: Final = 5
_MAX_TITLE_WIDTH: Final = 24


@attrs.frozen
class RunningCall:
    """A tool call that has not ended."""

    id: str
    name: str
    is_cancellable: bool
    started_at: float


class OpenCalls:
    """The open tool calls of one session, from its records."""

    def __init__(self) -> None:
        self._open: dict[str, RunningCall] = {}

    def apply(self, item: object) -> None:
        """Take one item of the session's feed."""
        if not isinstance(item, Record):
            return
        body: Mapping[str, Any] = item.body
        if item.kind == "tool_call":
            call_id = str(body.get("call_id"))
            self._open[call_id] = RunningCall(
                call_id,
                one_line(str(body.get("name"))),
                bool(body.get("cancellable", True)),
                item.at,
            )
        elif item.kind == "tool_ended":
            self._open.pop(str(body.get("call_id")), None)
        elif item.kind in ("turn_started", "turn_ended"):
            self._open.clear()

    def clear(self) -> None:
        """Forget all calls, because another session follows."""
        self._open.clear()

    def __iter__(self) -> Iterator[RunningCall]:
        return iter(tuple(self._open.values()))


@attrs.frozen
class ScopeChoice:
    """One scope, what an interrupt of it would hit, and whether it can hit anything."""

    scope: Scope
    title: str
    hits: str
    is_possible: bool = True
    # The question to confirm first; None if none is asked.
    confirm: str | None = None


def target_name(entry: Entry) -> str:
    """Return the name and the id, or the id and the title, as a confirmation shows them."""
    row = entry.row
    if row.name is not None:
        return f"{one_line(row.name)} ({row.id})"
    return f"{row.id} ({truncate(one_line(row.title), _MAX_TITLE_WIDTH)})" if row.title else row.id


def scope_choices(
    entry: Entry, calls: Sequence[RunningCall] | None, entries: Mapping[str, Entry], *, now: float
) -> list[ScopeChoice]:
    """Return the scopes of an interrupt, the smallest first; `calls` is None if not known."""
    row = entry.row
    choices = [_call_choice(call, now) for call in (calls or ())[:_MAX_CALLS]]
    if not choices:
        none = "its calls are not read yet" if calls is None else "no tool call is running"
        choices.append(ScopeChoice("turn", "tool call", none, is_possible=False))
    if row.turn_id is None:
        turn = ScopeChoice("turn", "turn", "no turn is running", is_possible=False)
    else:
        age = "" if row.turn_started_at is None else f", {format_age(now - row.turn_started_at)}"
        queued = f"; {counted(row.queued, 'queued input')} will run next" if row.queued else ""
        turn = ScopeChoice(TurnScope(row.turn_id), "turn", f"the running turn{age}{queued}")
    whole = "the turn, and work its agent left behind" if row.turn_id else "all work of its agent"
    below = descendants(entry, entries)
    running = sum(one.row.turn_id is not None for one in (entry, *below))
    hits = f"{counted(1 + len(below), 'session')}, {running} with a running turn"
    return [
        *choices,
        turn,
        ScopeChoice("session", "session", whole),
        ScopeChoice(
            "tree", "tree", hits, confirm=f"Interrupt the tree of {target_name(entry)}: {hits}?"
        ),
    ]


def _call_choice(call: RunningCall, now: float) -> ScopeChoice:
    can = "" if call.is_cancellable else "; its agent may not be able to cancel it"
    age = format_age(now - call.started_at)
    return ScopeChoice(ToolCall(call.id), "tool call", f"{call.name}, {age}{can}")


def descendants(entry: Entry, entries: Mapping[str, Entry]) -> list[Entry]:
    """Return all sessions below this one that are on the list."""
    children: dict[str, list[Entry]] = {}
    for one in entries.values():
        if one.row.parent is not None and not one.is_deleted and one.row.phase != "stopped":
            children.setdefault(one.row.parent, []).append(one)
    found: list[Entry] = []
    waiting = [entry.id]
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += [one.id for one in below]
    return found


def stop_question(entry: Entry, entries: Mapping[str, Entry]) -> str:
    """Return the question before a stop, with what else it would hit."""
    below = descendants(entry, entries)
    turn = " Its turn is interrupted." if entry.row.turn_id else ""
    queued = f" {counted(entry.row.queued, 'queued input')} will wait." if entry.row.queued else ""
    # A row does not say which of its descendants are detached and live on.
    children = f" With it up to {counted(len(below), 'session')} below it." if below else ""
    return f"Stop {target_name(entry)}?{turn}{queued}{children}"


def report_text(report: InterruptReport, title: str, name: str) -> str:
    """Return what an interrupt did."""
    if not report.matched:
        return f"interrupt of the {title} of {name}: nothing was running"
    parts = [f"{report.stopped} of {report.matched} interrupted"]
    for count, words in (
        (report.already_over, "already over"),
        (report.stale, "replaced by newer ones"),
        (report.unreachable, "cannot be reached"),
        (report.unknown, "unknown"),
    ):
        if count:
            parts.append(f"{count} {words}")
    step = f" by {report.ladder_step}" if report.ladder_step else ""
    return f"interrupt of the {title} of {name}: {', '.join(parts)}{step}, {report.seconds:.1f} s"
