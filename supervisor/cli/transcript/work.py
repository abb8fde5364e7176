"""Blocks of what an agent does beside talking: tool calls, plans, children; and notes.

Each is returned with a key, under which a later block takes its place; None for blocks that stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from supervisor.core.records import Record

from .blocks import Block, CallBlock, ChildBlock, PlanBlock
from .brief_text import brief, call_about, first_line, plan_entries
from .notes import NOTE_KINDS, record_note

# Records of one step have the same time.
_SAME_STEP_SECONDS: Final = 0.05

Keyed: TypeAlias = tuple[str | None, Block]


class WorkBlocks:
    """The open calls, children and the plan of one session."""

    def __init__(self) -> None:
        self._calls: dict[str, CallBlock] = {}
        self._children: dict[str, tuple[str, ChildBlock]] = {}
        self._plan: dict[str, str] = {}
        # Calls of this turn that were interrupted, with the time of their end.
        self._interrupted: list[tuple[CallBlock, float]] = []

    def apply(self, record: Record, *, input_text: str = "") -> Iterator[Keyed]:
        """Yield the blocks of the record; `input_text` is the text of the input it settles."""
        match record.kind:
            case "tool_call" | "tool_update" | "tool_ended":
                yield from self._apply_call(record)
            case "plan":
                yield from self._change_plan(record)
            case "child_started":
                yield self._start_child(record)
            case "child_ended":
                yield self._end_child(record)
            case _:
                note = record_note(record, input_text=input_text)
                if note is not None:
                    yield _interrupt_key(record), note

    def end_turn(self, outcome: str, at: float) -> Iterator[Keyed]:
        """Yield the calls that have no end, because their turn is over, or that were lost with it.

        The end of a call that was lost is recorded with the end of its turn, as an interrupt: when
        it really ended is not known.
        """
        for call_id, call in self._calls.items():
            yield call_id, attrs.evolve(call, outcome="unfinished")
        for call, ended_at in self._interrupted if outcome == "lost" else ():
            if at - ended_at < _SAME_STEP_SECONDS:
                yield call.call_id, attrs.evolve(call, outcome="lost", seconds=None)
        self._calls.clear()
        self._plan.clear()
        self._interrupted.clear()

    # Tool calls -----------------------------------------------------------------------------

    def _apply_call(self, record: Record) -> Iterator[Keyed]:
        if record.kind == "tool_call":
            yield self._start_call(record)
        elif record.kind == "tool_update":
            yield from self._update_call(record)
        else:
            yield self._end_call(record)

    def _start_call(self, record: Record) -> Keyed:
        body = record.body
        call_id, name = str(body.get("call_id")), brief(body.get("name"))
        call = CallBlock(record.turn_id, record.at, call_id, name, call_about(body.get("input")))
        self._calls[call_id] = call
        return call_id, call

    def _update_call(self, record: Record) -> Iterator[Keyed]:
        call = self._calls.get(str(record.body.get("call_id")))
        if call is None:
            return
        update = record.body.get("update")
        name, about, result = call.name, call.about, first_line(update)
        if isinstance(update, Mapping):  # of ACP: the fields of the call that have changed
            name = brief(update.get("name")) or name
            given = update.get("rawInput")
            about = call_about(given) if given else about or brief(update.get("title"))
            output = update.get("content") or update.get("rawOutput")
            result = first_line(output) if output else call.result
        changed = attrs.evolve(call, name=name, about=about, result=result)
        if (name, about, result) != (call.name, call.about, call.result):
            self._calls[call.call_id] = changed
            yield call.call_id, changed

    def _end_call(self, record: Record) -> Keyed:
        body = record.body
        call_id = str(body.get("call_id"))
        call = self._calls.pop(call_id, None)
        seconds = None if call is None else max(0.0, record.at - call.at)
        if call is None:  # its start is not shown
            call = CallBlock(record.turn_id, record.at, call_id, brief(body.get("name")), "")
        ended = attrs.evolve(
            call,
            outcome=brief(body.get("outcome")) or "ended",
            seconds=seconds,
            result=first_line(body.get("result")),
        )
        if ended.outcome == "interrupted":
            self._interrupted.append((ended, record.at))
        return call_id, ended

    # The plan -------------------------------------------------------------------------------

    def _change_plan(self, record: Record) -> Iterator[Keyed]:
        """Yield the plan; only its changed entries if it was shown before in this turn."""
        entries = plan_entries(record.body.get("entries"))
        changed = tuple(entry for entry in entries if self._plan.get(entry[1]) != entry[0])
        self._plan = {text: status for status, text in entries}
        if changed:
            yield None, PlanBlock(record.turn_id, record.at, changed)

    # Children -------------------------------------------------------------------------------

    def _start_child(self, record: Record) -> Keyed:
        body = record.body
        child = brief(body.get("child"))
        is_resumed = body.get("resumed") is True
        text = brief(body.get("text"))
        block = ChildBlock(
            record.turn_id, record.at, child, _child_label(body), is_resumed=is_resumed, text=text
        )
        # Not the child alone: it is shown again each time it is resumed.
        self._children[child] = f"{child} {record.seq}", block
        return self._children[child]

    def _end_child(self, record: Record) -> Keyed:
        body = record.body
        child = brief(body.get("child"))
        key, block = self._children.pop(child, (None, None))
        if block is None:  # its start is not shown
            block = ChildBlock(
                record.turn_id, record.at, child, _child_label(body), is_resumed=False, text=""
            )
        said = " ".join(filter(None, (brief(body.get("detail")), first_line(body.get("text")))))
        outcome = brief(body.get("reason") or body.get("outcome")) or "ended"
        return key, attrs.evolve(block, outcome=outcome, result=said)


def _child_label(body: Mapping[str, Any]) -> str:
    name, agent = brief(body.get("name"), 60), brief(body.get("agent"), 60)
    return f"{name} ({agent})" if name else agent


def _interrupt_key(record: Record) -> str | None:
    """Return the key of an interrupt, whose next step takes the place of the one before."""
    if record.kind != "interrupted":
        return None
    body = record.body
    return f"interrupt {body.get('scope')} {record.turn_id} {body.get('call_id')}"


# Kinds of records that are shown as such blocks.
WORK_KINDS: Final = (
    "tool_call",
    "tool_update",
    "tool_ended",
    "plan",
    "child_started",
    "child_ended",
    *NOTE_KINDS,
)
