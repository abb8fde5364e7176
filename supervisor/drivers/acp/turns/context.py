"""What was said before an agent came, as text for it to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from supervisor.core.creation import Message

# The end of a conversation matters more than its beginning.
MAX_CONTEXT_BYTES: Final = 200_000

_BEFORE: Final = "What was said so far and you have not heard. Go on from there; do not repeat it."


def context_blocks(before: Sequence[Message]) -> list[dict[str, Any]]:
    """One block with the end of the conversation, as much as is reasonable; none if there is none.

    Whole messages only, the last ones; of the very last its end, if it is longer than that.
    """
    kept: list[str] = []
    size = 0
    for message in reversed(before):
        said = message.text if kept else _end_of(message.text)
        line = f"{message.role}: {said}"
        size += len(line.encode(errors="replace"))
        if kept and size > MAX_CONTEXT_BYTES:
            kept.append("(what was said before that is left out)")
            break
        kept.append(line)
    if not kept:
        return []
    told = "\n\n".join(reversed(kept))
    return [{"type": "text", "text": f"<conversation>\n{_BEFORE}\n\n{told}\n</conversation>"}]


def _end_of(text: str) -> str:
    """As much of it as there is room for, from its end."""
    written = text[-MAX_CONTEXT_BYTES:].encode(errors="replace")
    if len(text) <= MAX_CONTEXT_BYTES and len(written) <= MAX_CONTEXT_BYTES:
        return text
    # A character that is cut in half is left out.
    return "(...) " + written[-MAX_CONTEXT_BYTES:].decode(errors="ignore")
