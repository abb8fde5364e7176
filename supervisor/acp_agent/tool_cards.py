"""Tool calls, and children as tool calls, in the protocol's form. Pure.

A record has what an agent reported, in the form in which it is stored: without bytes of files, and
with the output of terminals. Rule 1: what is sent is valid, whatever is stored; a field that does
not fit is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from supervisor.core.text import plain_data
from supervisor.drivers.acp.content import as_integer, as_list, as_mapping, as_text, content_text
from supervisor.handles.session_rows import SessionRow

Update = dict[str, Any]

TOOL_KINDS: Final = frozenset(
    {
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    }
)
_STATUSES: Final = frozenset({"pending", "in_progress", "completed", "failed"})
_MAX_TITLE_LETTERS: Final = 200
_MAX_NEWS_LETTERS: Final = 2_000


def call_started(body: Mapping[str, Any]) -> Update:
    """Return the update for a `tool_call` record."""
    update: Update = {
        "sessionUpdate": "tool_call",
        "toolCallId": str(body["call_id"]),
        "title": one_line(body.get("name")) or "tool",
        "kind": "other",
        "status": "in_progress",
    }
    if body.get("input") is not None:
        update["rawInput"] = body["input"]
    return update


def call_changed(body: Mapping[str, Any]) -> Update | None:
    """Return the update for a `tool_update` record; None if it says nothing."""
    stored = as_mapping(body.get("update"))
    found = _described(stored)
    if not found and body.get("update") and not stored:
        found = {"content": [text_content(_as_text(body["update"]))]}
    if not found:
        found = _told(stored)
    if not found:
        return None
    return {"sessionUpdate": "tool_call_update", "toolCallId": str(body["call_id"]), **found}


def call_ended(body: Mapping[str, Any]) -> Update:
    """Return the update for a `tool_ended` record."""
    update: Update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": str(body["call_id"]),
        "status": "completed" if body.get("outcome") == "completed" else "failed",
    }
    result = body.get("result")
    if isinstance(result, list):
        update["content"] = _contents(result)
    elif result is not None:
        update["content"] = [text_content(_as_text(result))]
        update["rawOutput"] = result
    elif body.get("outcome") == "interrupted":
        update["content"] = [text_content("interrupted")]
    return update


def _described(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored report that the protocol has."""
    found: dict[str, Any] = {}
    title = one_line(stored.get("title"))
    if title:
        found["title"] = title
    for name, known in (("kind", TOOL_KINDS), ("status", _STATUSES)):
        word = as_text(stored.get(name))
        if word in known:
            found[name] = word
    locations = [_location(one) for one in as_list(stored.get("locations"))]
    if any(locations):
        found["locations"] = [one for one in locations if one]
    if isinstance(stored.get("content"), list):
        found["content"] = _contents(stored["content"])
    for name in ("rawInput", "rawOutput"):
        if stored.get(name) is not None:
            found[name] = stored[name]
    return found


def _told(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a Python agent said of its call, which may have any form."""
    return {"content": [text_content(_as_text(dict(stored)))]} if stored else {}


def _location(value: object) -> dict[str, Any] | None:
    fields = as_mapping(value)
    path, line = as_text(fields.get("path")), as_integer(fields.get("line"))
    if not path:
        return None
    return {"path": path} if line is None else {"path": path, "line": line}


def _contents(items: list[Any]) -> list[dict[str, Any]]:
    return [_content(item) for item in items]


def _content(item: object) -> dict[str, Any]:
    """Return one item of a call's content; terminals are ours, so only their output is shown."""
    fields = as_mapping(item)
    kind = fields.get("type")
    path, new = as_text(fields.get("path")), as_text(fields.get("newText"))
    if kind == "diff" and path is not None and new is not None:
        old = as_text(fields.get("oldText"))
        return {"type": "diff", "path": path, "newText": new, "oldText": old}
    if kind == "terminal":
        return text_content(as_text(fields.get("output")) or "")
    if isinstance(item, str) or kind is not None:
        return text_content(content_text(item))
    return text_content(_as_text(item))


def text_content(text: str) -> dict[str, Any]:
    """Return text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(plain_data(value)).decode()


def one_line(value: object) -> str:
    """Return text on one line, short enough for a title; empty for other values."""
    text = as_text(value)
    words = " ".join(text[: 2 * _MAX_TITLE_LETTERS].split()) if text else ""
    return words if len(words) <= _MAX_TITLE_LETTERS else f"{words[: _MAX_TITLE_LETTERS - 1]}…"


# Children ---------------------------------------------------------------------------------


def card_id(child: str) -> str:
    """Return the id of the card of a child."""
    return f"child:{child}"


def child_started(body: Mapping[str, Any]) -> Update:
    """Return the card of a child that has started (`child_started` of its parent)."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": card_id(str(body["child"])),
        "title": _child_title(body),
        "kind": "other",
        "status": "in_progress",
        "rawInput": {"agent": body.get("agent"), "text": body.get("text"), "id": body["child"]},
    }


def _child_title(body: Mapping[str, Any]) -> str:
    name = one_line(body.get("name")) or one_line(body.get("role")) or "child"
    return one_line(f"{name} ({body.get('agent')}): {body.get('text') or ''}")


def child_changed(row: SessionRow) -> Update:
    """Return the card of a child as it is now."""
    lines = [_state_line(row)]
    if row.last_text:
        lines.append(row.last_text)
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": card_id(row.id),
        "status": "in_progress",
        "content": [text_content("\n".join(lines))],
    }


def _state_line(row: SessionRow) -> str:
    words: list[str] = [row.badge]
    if row.waiting_for is not None:
        words.append(f"waits for {row.waiting_for}")
    if row.children:
        words.append(f"{row.children} of its own")
    if row.queued:
        words.append(f"{row.queued} queued")
    return ", ".join(words)


def child_ended(body: Mapping[str, Any]) -> Update:
    """Return the card of a child that has answered, or has stopped (`child_ended`)."""
    outcome, reason = body.get("outcome"), body.get("reason")
    is_good = outcome == "completed" or (outcome is None and reason in _GOOD_REASONS)
    update: Update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": card_id(str(body["child"])),
        "status": "completed" if is_good else "failed",
    }
    text = (as_text(body.get("text")) or "")[:_MAX_NEWS_LETTERS]
    if text:
        update["content"] = [text_content(text)]
    elif not is_good:  # a good end without text leaves the child's answer on the card
        said = [str(one) for one in (reason or outcome or "over", body.get("detail")) if one]
        update["content"] = [text_content(": ".join(said))]
    return update


_GOOD_REASONS: Final = frozenset({"completed", "user_cancelled", "parent_stopped", "ttl_expired"})
