"""The tool `read`: the result, the transcript, the tool calls or the plan of a session."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.handles.subtree import SessionSnapshot, Subtree
from supervisor.mcp_server.session_text import (
    MAX_READ_RECORDS,
    PAGE_RECORDS,
    ShowRecord,
    TextPortion,
    TextPosition,
    parse_position,
    show_call,
    show_message,
    show_plan,
)
from supervisor.mcp_server.session_tool import (
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
)

_SHOWN_CHARS: Final = 2_000


@attrs.frozen(kw_only=True)
class ReadArguments:
    """The arguments of `read`."""

    session: str = described("id, name or role of a session below yours, or your own id")
    what: Literal["result", "transcript", "tools", "plan"] = described(
        "the text of its last turn, its messages, its tool calls, or its plan", "result"
    )
    after: str | None = described("the next of the answer before; default: the start", None)
    limit: int = described("messages or calls at most", 100, minimum=1, maximum=1_000)
    max_chars: int = described("characters at most", 16_000, minimum=1, maximum=100_000)


@attrs.frozen(kw_only=True)
class ReadAnswer:
    """The answer of `read`."""

    session: str = described("the session that was read")
    what: str = described("what was read")
    text: str = described("the text, or this portion of it")
    next: str | None = described("there is more: give it as after", None)
    position: str | None = described(
        "give it as after, later, to get only what came since; of transcript and tools", None
    )
    turn: str | None = described("of a result: the turn", None)
    outcome: str | None = described("of a result: the outcome of that turn", None)
    error: str | None = described("of a result: why that turn failed", None)


async def _run(context: ToolContext, given: ReadArguments) -> Answered:
    target = await context.find(given.session)
    start = parse_position(given.after)
    portion = TextPortion(start, limit=given.limit, max_chars=given.max_chars)
    found = await context.subtree.snapshot(target)
    answer = ReadAnswer(session=target, what=given.what, text="")
    match given.what:
        case "result":
            answer = await _read_result(context.subtree, found, answer, portion)
        case "plan":
            plan = await _last_plan(context.subtree, target, found.info.last_seq)
            _add_one(portion, plan, _plan_of)
            answer = _finish(answer, portion, has_position=False)
        case "transcript" | "tools":
            show = show_message if given.what == "transcript" else show_call
            if given.what == "transcript" and given.after is None:
                cleared_at = await _chapter_start(context.subtree, found)
                portion.end = TextPosition(cleared_at)
            await _fill(context.subtree, found, portion, show)
            answer = _finish(answer, portion, has_position=True)
    more = "" if answer.next is None else f"\n[more: after={answer.next}]"
    return answer, (clip(answer.text, _SHOWN_CHARS) or f"no {given.what}") + more


def _finish(answer: ReadAnswer, portion: TextPortion, *, has_position: bool) -> ReadAnswer:
    end = str(portion.end)
    return attrs.evolve(
        answer,
        text=portion.text,
        next=end if portion.is_full else None,
        position=end if has_position else None,
    )


async def _read_result(
    subtree: Subtree, found: SessionSnapshot, answer: ReadAnswer, portion: TextPortion
) -> ReadAnswer:
    last = found.state.last_turn
    record = None if last is None else await subtree.find_record(found.info.id, last[-1])
    if record is None:
        return answer
    _add_one(portion, record, _text_of)
    body = record.body
    return attrs.evolve(
        _finish(answer, portion, has_position=False),
        turn=body["turn_id"],
        outcome=body["outcome"],
        error=body["error"],
    )


def _add_one(portion: TextPortion, record: Record | None, show: ShowRecord) -> None:
    """Add the one record that is read; from its start, if the position is of an earlier one."""
    if record is not None:
        if portion.end.seq != record.seq - 1:
            portion.end = TextPosition(record.seq - 1)
        portion.add([record], show)


def _text_of(record: Record) -> str:
    return str(record.body["text"])


def _plan_of(record: Record) -> str:
    return show_plan(record.body.get("entries"))


async def _fill(
    subtree: Subtree, found: SessionSnapshot, portion: TextPortion, show: ShowRecord
) -> None:
    """Add records up to the last one; what is not full by then is complete."""
    first, last = portion.end.seq, found.info.last_seq
    while portion.end.seq < last and not portion.is_full:
        if portion.end.seq - first >= MAX_READ_RECORDS:
            portion.is_full = True
            return
        page = await subtree.records(found.info.id, after=portion.end.seq, limit=PAGE_RECORDS)
        if not page:
            return
        portion.add(page, show)


async def _chapter_start(subtree: Subtree, found: SessionSnapshot) -> int:
    """Return the number of the record that began the current chapter, 0 for the first."""
    if not found.state.chapter:
        return 0
    start = last = 0
    while page := await subtree.records(found.info.id, after=last, limit=PAGE_RECORDS):
        last = page[-1].seq
        start = max([start, *(one.seq for one in page if one.kind == "session_cleared")])
    return start


async def _last_plan(subtree: Subtree, session_id: SessionId, last_seq: int) -> Record | None:
    """Return the last record of a plan, searched from the end, a bounded number of records."""
    least = max(0, last_seq - MAX_READ_RECORDS)
    before = last_seq
    while before > least:
        after = max(least, before - PAGE_RECORDS)
        page = await subtree.records(session_id, after=after, limit=before - after)
        for record in reversed(page):
            if record.kind == "plan":
                return record
        before = after
    return None


TOOL: Final = SessionTool(
    name="read",
    title="Read a session",
    description=(
        "Read a session below yours or your own: the whole text of its last turn, its transcript,"
        " its tool calls with their results, or its plan. Long texts come in portions."
    ),
    arguments=ReadArguments,
    answer=ReadAnswer,
    run=_run,
    is_read_only=True,
)
