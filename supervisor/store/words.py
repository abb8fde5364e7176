"""Words, as a search understands them: all of them, in any order, without case or accents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final

import orjson

# The kinds of records that a search looks into: what people and agents have said.
SAID: Final = ("user_text", "agent_text")

_WORD: Final = re.compile(r"\w+")
# So many letters are shown before and after the first word that was found.
_AROUND: Final = 60


def words_of(text: str) -> frozenset[str]:
    """What somebody looks for."""
    return frozenset(words_of_text(text))


def words_of_text(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    if text.isascii():  # the usual case: there are no accents, and only letters have a case
        return _WORD.findall(text.lower())
    return [plain(word) for word in _WORD.findall(text)]


def indexed(body: str | bytes) -> str:
    """What of a record's body goes into an index; nothing, if it is no body.

    The same for the same body for ever: what was put in is taken out again by it. Whoever changes
    how words are compared has the index made anew.
    """
    text = text_in(body)
    return "" if text is None else " ".join(words_of_text(text))


def text_in(body: str | bytes) -> str | None:
    """The text that a record's body says; None if it is no such body."""
    try:
        text = orjson.loads(body)["text"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return text if isinstance(text, str) else None


def plain(word: str) -> str:
    """The word without case and accents."""
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def snippet(text: str, wanted: Collection[str]) -> str:
    """What is around the first of these words, each of them marked."""
    found = next((one for one in _WORD.finditer(text) if plain(one[0]) in wanted), None)
    if found is None:  # nobody asks for the snippet of a text in which nothing was found
        return text[: 2 * _AROUND]
    start = max(0, found.start() - _AROUND)
    end = min(len(text), found.end() + _AROUND)
    shown = _WORD.sub(
        lambda one: f"[{one[0]}]" if plain(one[0]) in wanted else one[0], text[start:end]
    )
    return ("..." if start else "") + shown + ("..." if end < len(text) else "")
