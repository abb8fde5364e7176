"""Import of picoclaw sessions: a file with one message a line, and a small meta file.

A message has `role` (user, assistant, tool, system) and `content`; an assistant's also
`reasoning_content` and `tool_calls` (each with `id` and `function`, whose `arguments` are JSON in
a text), a tool's `tool_call_id`. Newer ones have `created_at`. The meta file has `key`, `summary`,
`skip` (the number of messages that no longer go to the model), `created_at` and `updated_at`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from supervisor.core.errors import ImportFailed

from .builder import HistoryBuilder, ImportedSession
from .json_lines import (
    MAX_FOREIGN_LINE_CHARS,
    field,
    object_list,
    parse_object,
    parse_value,
    read_objects,
    time_field,
    without_empty,
)

# Fields of a message that are not text.
_ATTACHMENT_FIELDS: Final = ("media", "attachments")


def read_picoclaw(lines: Iterable[str], meta: str | None, at: float) -> ImportedSession:
    """Return the session with all messages, also those that were not sent to the model any more."""
    meta_fields = {} if meta is None or not meta.strip() else _read_meta(meta)
    created_at = time_field(meta_fields, "created_at", line=None)
    warnings: list[str] = []
    builder = HistoryBuilder(at if created_at is None else created_at)
    seen = 0
    for number, message in read_objects(lines, warnings, max_chars=MAX_FOREIGN_LINE_CHARS):
        seen += 1
        builder.advance_to(time_field(message, "created_at", line=number))
        _add_message(builder, message, number)
    if not seen:
        raise ImportFailed(
            "the file has no message", hint="name picoclaw's .jsonl file, not its .meta.json"
        )
    builder.end_turn()
    skipped = min(field(meta_fields, "skip", int, line=None), seen)
    if skipped > 0:
        warnings.append(
            f"{skipped} messages that picoclaw no longer sent to the model were imported"
        )
    return ImportedSession(
        format="picoclaw",
        facts=tuple(builder.facts),
        custom=without_empty(
            imported_from="picoclaw",
            picoclaw_key=field(meta_fields, "key", str, line=None),
            picoclaw_summary=field(meta_fields, "summary", str, line=None),
        ),
        created_at=created_at,
        warnings=(*warnings, *builder.warnings),
    )


def _read_meta(meta: str) -> dict[str, Any]:
    try:
        return parse_object(meta)
    except ImportFailed as error:
        raise ImportFailed(
            f"in the meta file: {error.args[0]}", hint="correct that file, or leave it out"
        ) from error


def _add_message(builder: HistoryBuilder, message: dict[str, Any], line: int) -> None:
    role = field(message, "role", str, line=line)
    text = field(message, "content", str, line=line) or _text_of_parts(message, line)
    for name in _ATTACHMENT_FIELDS:
        if field(message, name, list, line=line):
            builder.skip(f"{name} of a message")
    match role:
        case "user":
            builder.add_user_text(text)
        case "assistant":
            _add_assistant_message(builder, message, text, line)
        case "tool":
            foreign_id = field(message, "tool_call_id", str, line=line)
            builder.end_call(foreign_id, text, outcome="completed")
        case "system":
            builder.skip("a system message")
        case _:
            raise ImportFailed(
                "it is not a message of a user, an assistant, a tool or the system",
                hint="check that it is a file of picoclaw, or name its format",
                line=line,
            )


def _add_assistant_message(
    builder: HistoryBuilder, message: dict[str, Any], text: str, line: int
) -> None:
    thought = field(message, "reasoning_content", str, line=line)
    if thought:
        builder.add_thought(thought)
    if text:
        builder.add_agent_text(text)
    for call in object_list(message, "tool_calls", line=line):
        function = field(call, "function", dict, line=line)
        builder.start_call(
            field(call, "id", str, line=line),
            field(function, "name", str, line=line) or "unknown",
            _arguments(field(function, "arguments", str, line=line)),
        )


def _text_of_parts(message: dict[str, Any], line: int) -> str:
    """Return the text of a message that is stored in parts because it has images."""
    parts = object_list(message, "content_parts", line=line) or object_list(
        message, "parts", line=line
    )
    return "\n".join(text for part in parts if (text := field(part, "text", str, line=line)))


def _arguments(text: str) -> Any:  # noqa: ANN401 - plain data
    try:
        return parse_value(text) if text else None
    except ImportFailed:
        return text  # written by a model, so not always JSON
