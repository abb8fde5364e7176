"""A turn's prompt and the name of its conversation, put into the words of a command.

Rule 1: only `{prompt}` and `{session_id}` mean something, each wherever it stands in a word; other
        braces are the command's own. What is put in is not looked through again.
Rule 2: a prompt never becomes an option. Where one would begin with a dash, a space goes before it,
        unless the command has said by a word of `--` that there are no more options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

PROMPT: Final = "{prompt}"
SESSION_ID: Final = "{session_id}"
_EITHER: Final = re.compile(r"\{(?:prompt|session_id)\}")


def has(command: Iterable[str], placeholder: str) -> bool:
    """Whether it is there to be filled in."""
    return any(placeholder in word for word in command)


def fill_in(command: Iterable[str], *, prompt: str, session_id: str) -> tuple[str, ...]:
    """The command's words for one turn."""
    values = {PROMPT: prompt, SESSION_ID: session_id}
    words: list[str] = []
    for word in command:
        filled = _EITHER.sub(lambda found: values[found[0]], word)
        if word.startswith(PROMPT) and filled.startswith("-") and "--" not in words:
            filled = f" {filled}"
        words.append(filled)
    return tuple(words)
