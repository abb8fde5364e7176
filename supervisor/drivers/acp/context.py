"""What was said before an agent came, as text for it to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from supervisor.core.creation import Message

# The end of a conversation matters more than its beginning.
MAX_CONTEXT_BYTES: Final = 200_000

_BEFORE: Final = (
    "The conversation so far, from before you joined it. Go on from there; do not repeat it."
)


def context_blocks(before: Sequence[Message]) -> list[dict[str, Any]]:
    """One block with the end of the conversation, as much as is reasonable; none if there is none.

    Whole messages only, the last ones, but at least the last.
    """
    kept: list[str] = []
    size = 0
    for message in reversed(before):
        line = f"{message.role}: {message.text}"
        size += len(line.encode(errors="replace"))
        if kept and size > MAX_CONTEXT_BYTES:
            kept.append("(what was said before that is left out)")
            break
        kept.append(line)
    if not kept:
        return []
    told = "\n\n".join(reversed(kept))
    return [{"type": "text", "text": f"<conversation>\n{_BEFORE}\n\n{told}\n</conversation>"}]
