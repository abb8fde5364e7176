"""Import of ggcode sessions: one file, one JSON object a line, each with a `type`.

`meta` (the last one counts: `session_id`, `title`, `workspace`, `vendor`, `endpoint`, `model`,
`created_at`), `message` (with a `timestamp`, and a `message` of `role`, `content` and in newer
files `id`), `usage`, `checkpoint`, and `cost`, `metric`, `tunnel_event`, which are ignored. The
content of a message is a list of blocks: `text`, `image`, `tool_use`, `tool_result`. Tool results
are in messages of the user.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from supervisor.core.errors import ImportFailed, short_repr
from supervisor.core.text import one_line

from .builder import HistoryBuilder, ImportedSession
from .json_lines import (
    MAX_FOREIGN_LINE_CHARS,
    field,
    object_list,
    read_objects,
    time_field,
    without_empty,
)

_IGNORED_TYPES: Final = frozenset({"cost", "metric", "tunnel_event"})
_META_FIELDS: Final = ("title", "vendor", "endpoint", "model", "session_id")


def read_ggcode(lines: Iterable[str], at: float) -> ImportedSession:
    """Return the session with all messages, except those that summarize other messages."""
    warnings: list[str] = []
    entries = list(read_objects(lines, warnings, max_chars=MAX_FOREIGN_LINE_CHARS))
    meta, created_at = _meta(entries)
    builder = HistoryBuilder(at if created_at is None else created_at)
    summaries = {
        field(entry, "checkpoint_summary_msg_id", str, line=number) for number, entry in entries
    } - {""}
    seen: set[str] = set()
    for number, entry in entries:
        match field(entry, "type", str, line=number):
            case "message":
                builder.advance_to(time_field(entry, "timestamp", line=number))
                message = field(entry, "message", dict, line=number)
                message_id = field(message, "id", str, line=number)
                if message_id in summaries:
                    builder.skip("a summary of earlier messages")
                elif message_id in seen:
                    builder.skip("a repeated message")
                else:
                    _add_message(builder, message, number)
                seen |= {message_id} - {""}
            case "usage":
                _add_usage(builder, field(entry, "usage_entry", dict, line=number), number)
            case "meta" | "checkpoint":
                pass
            case kind if kind in _IGNORED_TYPES:
                builder.skip(f"a line of type {kind}")
            case _:
                raise ImportFailed(
                    "its type is not one of ggcode's",
                    hint="check that it is a file of ggcode, or name its format",
                    line=number,
                )
    if not builder.facts:
        raise ImportFailed("the file has no message", hint="check that it is the right file")
    builder.end_turn()
    return ImportedSession(
        format="ggcode",
        facts=tuple(builder.facts),
        title=one_line(meta["title"]) or None,
        workspace=meta["workspace"] or None,
        custom=without_empty(
            imported_from="ggcode",
            ggcode_session_id=meta["session_id"],
            ggcode_vendor=meta["vendor"],
            ggcode_endpoint=meta["endpoint"],
            ggcode_model=meta["model"],
        ),
        created_at=created_at,
        warnings=(*warnings, *builder.warnings),
    )


def _meta(entries: list[tuple[int, dict[str, Any]]]) -> tuple[dict[str, str], float | None]:
    """Return the fields of the last `meta` line, with an earlier workspace if it has none."""
    meta, created_at = dict.fromkeys((*_META_FIELDS, "workspace"), ""), None
    for number, entry in entries:
        if entry.get("type") == "meta":
            workspace = field(entry, "workspace", str, line=number) or meta["workspace"]
            meta = {name: field(entry, name, str, line=number) for name in _META_FIELDS}
            meta["workspace"] = workspace
            created_at = time_field(entry, "created_at", line=number) or created_at
    return meta, created_at


def _add_message(builder: HistoryBuilder, message: dict[str, Any], line: int) -> None:
    role = field(message, "role", str, line=line)
    blocks = object_list(message, "content", line=line)
    match role:
        case "user" | "tool":
            _add_user_blocks(builder, blocks, line)
        case "assistant":
            for block in blocks:
                _add_assistant_block(builder, block, line)
        case "system":
            builder.skip("a system message")
        case _:
            raise ImportFailed(
                "it is not a message of a user, an assistant or the system",
                hint="check that it is a file of ggcode, or name its format",
                line=line,
            )


def _add_user_blocks(builder: HistoryBuilder, blocks: list[dict[str, Any]], line: int) -> None:
    texts, answers = [], 0
    for block in blocks:
        match field(block, "type", str, line=line):
            case "text":
                texts.append(field(block, "text", str, line=line))
            case "tool_result":
                answers += 1
                _add_tool_result(builder, block, line)
            case kind:
                builder.skip(f"{_kind_name(kind)} block of a user's message")
    text = "\n".join(filter(None, texts))
    if answers and text:
        builder.add_steering(text)  # it came with results, so the turn continued
    elif not answers:
        builder.add_user_text(text)


def _add_tool_result(builder: HistoryBuilder, block: dict[str, Any], line: int) -> None:
    if field(block, "images", list, line=line):
        builder.skip("images of a tool's result")
    builder.end_call(
        field(block, "tool_id", str, line=line),
        field(block, "output", str, line=line),
        outcome="failed" if field(block, "is_error", bool, line=line) else "completed",
        name=field(block, "tool_name", str, line=line),
    )


def _add_assistant_block(builder: HistoryBuilder, block: dict[str, Any], line: int) -> None:
    kind, text = field(block, "type", str, line=line), field(block, "text", str, line=line)
    thought = field(block, "reasoning_content", str, line=line)
    if thought:
        builder.add_thought(thought)
    match kind:
        case "text" if text:
            builder.add_agent_text(text)
        case "thinking" | "reasoning" if text:
            builder.add_thought(text)
        case "tool_use":
            name = field(block, "tool_name", str, line=line) or "unknown"
            builder.start_call(field(block, "tool_id", str, line=line), name, block.get("input"))
        case "tool_result":
            _add_tool_result(builder, block, line)
        case "text" | "thinking" | "reasoning":
            pass
        case _:
            builder.skip(f"{_kind_name(kind)} block of an assistant's message")


def _kind_name(kind: str) -> str:
    """Return the kind, which may be any text, in a form that is safe to log."""
    if not kind:
        return "unnamed"
    return kind if kind.isidentifier() and kind.isascii() else short_repr(kind)


def _add_usage(builder: HistoryBuilder, entry: dict[str, Any], line: int) -> None:
    builder.advance_to(time_field(entry, "timestamp", line=line))
    usage = field(entry, "usage", dict, line=line)
    # Only the total includes tokens read from a cache.
    total = field(usage, "prompt_tokens_total", int, line=line)
    uncached = field(usage, "input_tokens", int, line=line)
    builder.add_usage(
        max(0, total, uncached), max(0, field(usage, "output_tokens", int, line=line))
    )
