"""ggcode's session: one file, one thing a line, of the `type` that it says.

`meta` (the last one counts: `session_id`, `title`, `workspace`, `vendor`, `endpoint`, `model`,
`created_at`), `message` (with a `timestamp`, and a `message` of `role`, `content` and in newer
files `id`), `usage`, `checkpoint`, and `cost`, `metric`, `tunnel_event`, which are nothing to us.
The content of a message is a list of blocks: `text`, `image`, `tool_use`, `tool_result`. Results
come in messages of the user.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from supervisor.core.errors import ImportFailed, shown

from .foreign import LONGEST_LINE, field, instant, objects, told
from .imported import Imported
from .retelling import Retelling
from .strict import objects_in

_OF_NO_USE: Final = frozenset({"cost", "metric", "tunnel_event"})
_NAMED: Final = ("title", "vendor", "endpoint", "model", "session_id")


def read_ggcode(lines: Iterable[str], at: float) -> Imported:
    """The session, with all messages; those that only sum up others are left out."""
    warnings: list[str] = []
    things = list(objects_in(lines, warnings, longest=LONGEST_LINE))
    meta, created_at = _meta(things)
    retelling = Retelling(at if created_at is None else created_at)
    summaries = {
        field(thing, "checkpoint_summary_msg_id", str, line=number) for number, thing in things
    } - {""}
    seen: set[str] = set()
    for number, thing in things:
        match field(thing, "type", str, line=number):
            case "message":
                retelling.now(instant(thing, "timestamp", line=number))
                message = field(thing, "message", dict, line=number)
                message_id = field(message, "id", str, line=number)
                if message_id in summaries:
                    retelling.leave_out("a summary of earlier messages")
                elif message_id in seen:
                    retelling.leave_out("a message that was there before")
                else:
                    _retell(retelling, message, number)
                seen |= {message_id} - {""}
            case "usage":
                _retell_usage(retelling, field(thing, "usage_entry", dict, line=number), number)
            case "meta" | "checkpoint":
                pass
            case kind if kind in _OF_NO_USE:
                retelling.leave_out(f"a line of type {kind}")
            case _:
                raise ImportFailed(
                    "it is of no type that ggcode has",
                    hint="is it ggcode's file? Name the format that it has",
                    line=number,
                )
    if not retelling.facts:
        raise ImportFailed("there is no message in it", hint="is it the right file?")
    retelling.end_turn()
    return Imported(
        format="ggcode",
        facts=tuple(retelling.facts),
        title=meta["title"] or None,
        workspace=meta["workspace"] or None,
        custom=told(
            imported_from="ggcode",
            ggcode_session_id=meta["session_id"],
            ggcode_vendor=meta["vendor"],
            ggcode_endpoint=meta["endpoint"],
            ggcode_model=meta["model"],
        ),
        created_at=created_at,
        warnings=(*warnings, *retelling.warnings),
    )


def _meta(things: list[tuple[int, dict[str, Any]]]) -> tuple[dict[str, str], float | None]:
    """What the last of them says; a workspace, once said, stays."""
    meta, created_at = dict.fromkeys((*_NAMED, "workspace"), ""), None
    for number, thing in things:
        if thing.get("type") == "meta":
            workspace = field(thing, "workspace", str, line=number) or meta["workspace"]
            meta = {name: field(thing, name, str, line=number) for name in _NAMED}
            meta["workspace"] = workspace
            created_at = instant(thing, "created_at", line=number) or created_at
    return meta, created_at


def _retell(retelling: Retelling, message: dict[str, Any], line: int) -> None:
    role = field(message, "role", str, line=line)
    blocks = objects(message, "content", line=line)
    match role:
        case "user" | "tool":
            _retell_user(retelling, blocks, line)
        case "assistant":
            for block in blocks:
                _retell_agent(retelling, block, line)
        case "system":
            retelling.leave_out("a message of the system")
        case _:
            raise ImportFailed(
                "it is no message of a user, an assistant or the system",
                hint="is it ggcode's file? Name the format that it has",
                line=line,
            )


def _retell_user(retelling: Retelling, blocks: list[dict[str, Any]], line: int) -> None:
    texts, answers = [], 0
    for block in blocks:
        match field(block, "type", str, line=line):
            case "text":
                texts.append(field(block, "text", str, line=line))
            case "tool_result":
                answers += 1
                _retell_result(retelling, block, line)
            case kind:
                retelling.leave_out(f"{_named(kind)} block of a user's message")
    text = "\n".join(filter(None, texts))
    if answers and text:
        retelling.steer(text)  # it came along with results, so the turn went on
    elif not answers:
        retelling.hear(text)


def _retell_result(retelling: Retelling, block: dict[str, Any], line: int) -> None:
    if field(block, "images", list, line=line):
        retelling.leave_out("images of a tool's result")
    retelling.end_call(
        field(block, "tool_id", str, line=line),
        field(block, "output", str, line=line),
        outcome="failed" if field(block, "is_error", bool, line=line) else "completed",
        name=field(block, "tool_name", str, line=line),
    )


def _retell_agent(retelling: Retelling, block: dict[str, Any], line: int) -> None:
    kind, text = field(block, "type", str, line=line), field(block, "text", str, line=line)
    thought = field(block, "reasoning_content", str, line=line)
    if thought:
        retelling.think(thought)
    match kind:
        case "text" if text:
            retelling.say(text)
        case "thinking" | "reasoning" if text:
            retelling.think(text)
        case "tool_use":
            name = field(block, "tool_name", str, line=line) or "unknown"
            retelling.call(field(block, "tool_id", str, line=line), name, block.get("input"))
        case "tool_result":
            _retell_result(retelling, block, line)
        case "text" | "thinking" | "reasoning":
            pass
        case _:
            retelling.leave_out(f"{_named(kind)} block of an assistant's message")


def _named(kind: str) -> str:
    """The kind as the log may have it: it is whatever the file says."""
    if not kind:
        return "nameless"
    return kind if kind.isidentifier() and kind.isascii() else shown(kind)


def _retell_usage(retelling: Retelling, entry: dict[str, Any], line: int) -> None:
    retelling.now(instant(entry, "timestamp", line=line))
    usage = field(entry, "usage", dict, line=line)
    # What was read from a cache is in the total, and not in the other.
    total = field(usage, "prompt_tokens_total", int, line=line)
    given = field(usage, "input_tokens", int, line=line)
    retelling.spend(max(0, total, given), max(0, field(usage, "output_tokens", int, line=line)))
