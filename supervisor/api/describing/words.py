"""What each argument is, in words: one sentence for one name, wherever it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, str]] = {
    # Who it is.
    "id": "Which session: its id.",
    "input": "Which input: the `input_id` of its receipt.",
    "request": "Which permission request: its id.",
    "rule": "Which rule: its id.",
    "agent": "The name of its agent; for an import, of the one who is to go on with it.",
    "key": "A name of your own for it: `agent:channel:peer[:thread]`, or an object of those parts.",
    "name": "What you call it.",
    "title": "What it is about; made from the first text if nobody says.",
    "tags": "Words to find it by.",
    "custom": "Data of yours, text by name, kept with it.",
    "workspace": "The folder that it works in, as an absolute path.",
    "role": "What it is to its parent.",
    # What it may do.
    "limits": "What it may have below it, and what it and all below it may spend.",
    "permissions": "What it may touch: sets of exact names, and a mode that answers for people.",
    "restart": "What happens when its agent dies.",
    "ladder": "How long each step of an interrupt may take before the next, harder one.",
    "queue_cap": "How many inputs may wait.",
    "max_text_bytes": "How long a text may be.",
    "max_turn_bytes": "How much a turn may put out.",
    "steer_fallback": "What is done with guidance for an agent that cannot take any.",
    "permission_timeout_seconds": "After how long a request that nobody answers is rejected.",
    "suspend_after_seconds": "After how long an idle session is put to rest.",
    "quiet_after_seconds": "After how long without progress the feed says so.",
    "stalled_after_seconds": "After how long without progress it counts as stalled.",
    "tool_stalled_after_seconds": "The same, while a tool call runs.",
    "on_stall": "What is done then.",
    "turn_deadline_seconds": "How long a turn may take at all.",
    "answers_for_children": "Whether its agent may answer the requests of those below it.",
    "lifetime": "Whether it ends with its parent.",
    "on_end": "Whether its end only shows up at its parent, or wakes it.",
    # What it is given.
    "text": "What the agent is to get; in a list, part of the name, the title or the key.",
    "attachments": "Plain data that goes with the text.",
    "when_busy": "What to do if a turn is running.",
    "if_stopped": "Whether a stopped session is resumed by it.",
    "queued": "What becomes of the inputs that wait.",
    "ttl_seconds": "After how long an input that has not begun, or a child, expires.",
    "idempotency_key": "With the same key, the same request is done once and answered alike.",
    "position": "Its place in the queue, from 0.",
    "scope": "What is interrupted.",
    "turn_id": "The turn that is meant; if it is over, nothing is interrupted.",
    "call_id": "The tool call that is meant, with scope `tool_call`.",
    "reason": "Why, for the record.",
    "replace_with": "A text that runs next, before all that waits.",
    "when": "Whether it stops now, or after the turn that runs.",
    "at_turn": "The turn up to whose end; the last, if none is named.",
    "decision": "What is decided: one of the request's options.",
    # What is asked for.
    "after": "The number after which to begin.",
    "follow": "Whether to stay when the session has stopped, for it may be resumed.",
    "limit": "How many at most.",
    "cursor": "The `next` of the page before.",
    "wait": "How many seconds to wait for it.",
    "at": "The number of a record.",
    "q": "Words that must all be in it.",
    "session": "Only what was said in that session.",
    "root": "Only what is below that session; in a list, of which root it is.",
    "parent": "Of which session it is a child.",
    "phase": "In which phase it is.",
    "badge": "Which badge it has.",
    "tag": "Which tag it has.",
    "channel": "The channel in its key.",
    "peer": "The peer in its key.",
    "archived": "Whether it is archived.",
    "created_after": "Made after that time, in seconds since 1970.",
    "created_before": "Made before that time.",
    "updated_after": "Changed after that time.",
    "updated_before": "Changed before that time.",
    # What is kept.
    "path": "The absolute path of a file of the server's.",
    "format": "In which form.",
    "redact": "Whether what looks like a secret is covered.",
    "dry_run": "Whether it is only said what would be done.",
    "force": "Whether to go on where nobody can vouch for the records.",
    "older_than_seconds": "What nothing has happened in for so long goes.",
    "keep_last": "So many trees stay.",
    "max_bytes": "So much stays in all.",
}


def word_for(name: str) -> str:
    """What an argument of that name is. A name without words is a defect, and a test finds it."""
    return _WORDS[name]
