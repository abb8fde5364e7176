"""Placeholders of a command for the prompt and the conversation id.

Rule 1: only `{prompt}` and `{session_id}` are replaced, anywhere in a word; other braces belong to
        the command. The replacement text itself is not searched for placeholders.
Rule 2: a prompt never becomes an option. A word that would start with a dash because of the prompt
        gets a space before it, unless a word `--` before it ends the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

PROMPT: Final = "{prompt}"
SESSION_ID: Final = "{session_id}"
_PLACEHOLDER: Final = re.compile(r"\{(?:prompt|session_id)\}")


def has_placeholder(command: Iterable[str], placeholder: str) -> bool:
    """Return True if a word of the command contains the placeholder."""
    return any(placeholder in word for word in command)


def fill_placeholders(command: Iterable[str], *, prompt: str, session_id: str) -> tuple[str, ...]:
    """Return the words of the command for one turn."""
    values = {PROMPT: prompt, SESSION_ID: session_id}
    words: list[str] = []
    for word in command:
        filled = _PLACEHOLDER.sub(lambda found: values[found[0]], word)
        if word.startswith(PROMPT) and filled.startswith("-") and "--" not in words:
            filled = f" {filled}"
        words.append(filled)
    return tuple(words)
