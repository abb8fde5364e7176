"""Descriptions of arguments: one sentence for each name, wherever it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    # Identity.
    "id": "Id of the session.",
    "input": "Id of the input: the `input_id` of its receipt.",
    "request": "Id of the permission request.",
    "rule": "Id of the permission rule.",
    "agent": "Name of the agent; for an import, of the agent that continues the session.",
    "key": "Your name for the session: `agent:channel:peer[:thread]`, or an object of those parts.",
    "name": "Name of the session, for people.",
    "title": "Title; made from the first text if not given.",
    "tags": "Tags to find the session by.",
    "custom": "Your own data, text by name, stored with the session.",
    "workspace": "Folder that the agent works in, as an absolute path.",
    "role": "Role of a child for its parent; for a message, its author: `user` or `agent`.",
    # Limits and behaviour of a session.
    "limits": "Limits on the descendants, and budgets of the session with its descendants.",
    "permissions": "Rights: sets of exact names, and a mode that answers permission requests.",
    "restart": "Restart policy for a crashed agent.",
    "ladder": "Seconds that each step of an interrupt may take before the next step.",
    "queue_cap": "Maximum number of queued inputs.",
    "max_text_bytes": "Maximum size of a text, in bytes.",
    "max_turn_bytes": "Maximum output of a turn, in bytes.",
    "steer_fallback": "Treatment of steering if the agent does not support it.",
    "permission_timeout_seconds": "Seconds after which an unanswered request is rejected.",
    "suspend_after_seconds": "Seconds after which an idle session is suspended.",
    "quiet_after_seconds": "Seconds without progress after which a `quiet` record is written.",
    "stalled_after_seconds": "Seconds without progress after which the session counts as stalled.",
    "tool_stalled_after_seconds": "The same as `stalled_after_seconds`, while a tool call runs.",
    "on_stall": "Action on a stalled session.",
    "turn_deadline_seconds": "Maximum duration of a turn, in seconds.",
    "answers_for_children": "True: the agent may answer permission requests of its descendants.",
    "lifetime": "`with_parent`: the child stops with its parent; `detached`: it does not.",
    "on_end": "`tell`: notify the parent of the child's end; `wake`: also start a turn for it.",
    # Inputs and requests.
    "text": "Text for the agent; in a list, a part of the name, the title or the key.",
    "attachments": "JSON data that is sent with the text.",
    "when_busy": "Treatment of the input while a turn runs.",
    "if_stopped": "Treatment of the input if the session is stopped.",
    "queued": "Treatment of the queued inputs.",
    "ttl_seconds": "Seconds after which an input that has not started, or a child, expires.",
    "idempotency_key": "A repeated request with the same key runs once and has the same answer.",
    "position": "Position in the queue, from 0.",
    "scope": "Target of the interrupt.",
    "turn_id": "Id of the turn; if it has ended, nothing is interrupted.",
    "call_id": "Id of the tool call, with the scope `tool_call`.",
    "reason": "Reason, for the record.",
    "replace_with": "Text that runs next, before all queued inputs.",
    "when": "Stop `now`, or `after_turn`: when the running turn has ended.",
    "at_turn": "Id of the last turn to copy; without it, the last turn that has ended.",
    "decision": "Decision: one of the options of the request.",
    # Reading.
    "after": "Number after which to start.",
    "follow": "True: keep the stream open after a stop, in case the session is resumed.",
    "limit": "Maximum number of items.",
    "cursor": "The `next` of the previous page.",
    "wait": "Maximum number of seconds to wait for the result.",
    "at": "Number of a record.",
    "q": "Words that a message must contain, all of them.",
    "session": "Only messages of this session.",
    "root": "Only the tree of this session; in a list, only sessions with this root.",
    "parent": "Only children of this session.",
    "phase": "Only sessions in this phase.",
    "badge": "Only sessions with this badge.",
    "tag": "Only sessions with this tag.",
    "channel": "Only sessions with this channel in their key.",
    "peer": "Only sessions with this peer in their key.",
    "archived": "Only archived sessions, or only others.",
    "created_after": "Only sessions created after this time, in seconds since 1970.",
    "created_before": "Only sessions created before this time.",
    "updated_after": "Only sessions changed after this time.",
    "updated_before": "Only sessions changed before this time.",
    # Maintenance.
    "path": "Absolute path of a file on the server.",
    "format": "Format of the file or the text.",
    "redact": "True: mask text that looks like a secret.",
    "dry_run": "True: report only, and change nothing.",
    "force": "True: repair even if records cannot be verified.",
    "older_than_seconds": "Delete trees without a change for this number of seconds.",
    "keep_last": "Number of newest trees to keep.",
    "max_bytes": "Total size to keep, in bytes.",
}


def description_of(name: str) -> str:
    """Return the description of an argument; a test checks that each name has one."""
    return _DESCRIPTIONS[name]
