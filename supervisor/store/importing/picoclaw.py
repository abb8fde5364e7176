"""picoclaw's session: a file with one message a line, and a small one beside it.

A message has `role` (user, assistant, tool, system) and `content`; an assistant's also
`reasoning_content` and `tool_calls` (each with `id` and `function`, whose `arguments` are JSON in
a text), a tool's `tool_call_id`. Newer ones have `created_at`. The file beside it has `key`,
`summary`, `skip` (so many messages no longer go to the model), `created_at` and `updated_at`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from supervisor.core.errors import ImportFailed

from .foreign import LONGEST_LINE, field, instant, objects, told
from .imported import Imported
from .retelling import Retelling
from .strict import object_of, objects_in, value_of

# What a message can have besides text.
_ATTACHED: Final = ("media", "attachments")


def read_picoclaw(lines: Iterable[str], meta: str | None, at: float) -> Imported:
    """The session; all messages, also those that no longer went to the model."""
    beside = {} if meta is None or not meta.strip() else _beside(meta)
    created_at = instant(beside, "created_at", line=None)
    warnings: list[str] = []
    retelling = Retelling(at if created_at is None else created_at)
    seen = 0
    for number, message in objects_in(lines, warnings, longest=LONGEST_LINE):
        seen += 1
        retelling.now(instant(message, "created_at", line=number))
        _retell(retelling, message, number)
    if not seen:
        raise ImportFailed(
            "there is no message in it", hint="give picoclaw's .jsonl file, not its .meta.json"
        )
    retelling.end_turn()
    skipped = min(field(beside, "skip", int, line=None), seen)
    if skipped > 0:
        warnings.append(f"{skipped} messages that picoclaw had cut off its context are here again")
    return Imported(
        format="picoclaw",
        facts=tuple(retelling.facts),
        custom=told(
            imported_from="picoclaw",
            picoclaw_key=field(beside, "key", str, line=None),
            picoclaw_summary=field(beside, "summary", str, line=None),
        ),
        created_at=created_at,
        warnings=(*warnings, *retelling.warnings),
    )


def _beside(meta: str) -> dict[str, Any]:
    try:
        return object_of(meta)
    except ImportFailed as error:
        raise ImportFailed(
            f"in the file beside it: {error.args[0]}", hint="leave that file out, or mend it"
        ) from error


def _retell(retelling: Retelling, message: dict[str, Any], line: int) -> None:
    role = field(message, "role", str, line=line)
    text = field(message, "content", str, line=line) or _text_of_parts(message, line)
    for name in _ATTACHED:
        if field(message, name, list, line=line):
            retelling.leave_out(f"{name} of a message")
    match role:
        case "user":
            retelling.hear(text)
        case "assistant":
            _retell_agent(retelling, message, text, line)
        case "tool":
            their_id = field(message, "tool_call_id", str, line=line)
            retelling.end_call(their_id, text, outcome="completed")
        case "system":
            retelling.leave_out("a message of the system")
        case _:
            raise ImportFailed(
                "it is no message of a user, an assistant, a tool or the system",
                hint="is it picoclaw's file? Name the format that it has",
                line=line,
            )


def _retell_agent(retelling: Retelling, message: dict[str, Any], text: str, line: int) -> None:
    thought = field(message, "reasoning_content", str, line=line)
    if thought:
        retelling.think(thought)
    if text:
        retelling.say(text)
    for call in objects(message, "tool_calls", line=line):
        function = field(call, "function", dict, line=line)
        retelling.call(
            field(call, "id", str, line=line),
            field(function, "name", str, line=line) or "unknown",
            _arguments(field(function, "arguments", str, line=line)),
        )


def _text_of_parts(message: dict[str, Any], line: int) -> str:
    """The text of a message that has pictures too, and therefore parts."""
    parts = objects(message, "content_parts", line=line) or objects(message, "parts", line=line)
    return "\n".join(text for part in parts if (text := field(part, "text", str, line=line)))


def _arguments(text: str) -> Any:  # noqa: ANN401 - plain data
    try:
        return value_of(text) if text else None
    except ImportFailed:
        return text  # a model wrote it, and it is not always JSON
