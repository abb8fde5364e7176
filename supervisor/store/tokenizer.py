"""Words of a text in the form that a search compares: without case and accents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final

import orjson

# The kinds of records that are searched: the texts of users and agents.
INDEXED_KINDS: Final = ("user_text", "agent_text")

# Number of characters shown before and after the first match.
_SNIPPET_MARGIN: Final = 60

# Invisible characters inside a word: soft hyphen, zero-width non-joiner and joiner.
_INVISIBLE_CHARS: Final = frozenset("\u00ad\u200c\u200d")


class _CharFolding(dict[int, str]):
    """Maps a character to its folded form: empty for an accent, a blank for a separator.

    Vowels of some scripts are marks too, and belong to their word.
    """

    def __missing__(self, codepoint: int) -> str:
        char = chr(codepoint)
        if unicodedata.combining(char) or char in _INVISIBLE_CHARS:
            plain = ""
        else:
            plain = char if _is_word_char(char) else " "
        self[codepoint] = plain
        return plain


_CHAR_FOLDING: Final = _CharFolding()
_ASCII_WORD: Final = re.compile(r"\w+", re.ASCII)


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char).startswith("M")


def query_tokens(text: str) -> frozenset[str]:
    """Return the set of words of a query."""
    return frozenset(tokenize(text))


def tokenize(text: str) -> list[str]:
    """Return the words of a text in the form that is compared: without case and accents.

    An accent may be part of a character or a separate character after it, so accents are removed
    before the text is split.
    """
    if text.isascii():  # the usual case: no accents, and `lower` is enough
        return _ASCII_WORD.findall(text.lower())
    # Twice: some characters have a case only when decomposed, others decompose when case-folded.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return decomposed.translate(_CHAR_FOLDING).split()


def index_text(body: str | bytes) -> str:
    """Return the text of a record's body that is indexed; empty if the body has none.

    The result for a body must never change: the same text that was inserted is needed to delete it
    from the index. A change of the comparison needs a migration that rebuilds the index.
    """
    return index_tokens(body_text(body))


def index_tokens(text: object) -> str:
    """Return the words of the text of a record as they are indexed; empty if it is not a text.

    The index splits ASCII text into the same words by itself, so it is not split here.
    """
    if not isinstance(text, str):
        return ""
    return text if text.isascii() else " ".join(tokenize(text))


def body_text(body: str | bytes) -> str | None:
    """Return the text of a record's body; None if it has none."""
    try:
        text = orjson.loads(body)["text"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return text if isinstance(text, str) else None


def snippet(text: str, wanted: Collection[str]) -> str:
    """Return the text around the first of these words, with all of these words marked."""
    word = _word_pattern(text)
    found = next((match for match in word.finditer(text) if _matches_query(match[0], wanted)), None)
    if found is None:  # does not happen: callers pass texts that match
        return text[: 2 * _SNIPPET_MARGIN]
    start = max(0, found.start() - _SNIPPET_MARGIN)
    end = min(len(text), found.end() + _SNIPPET_MARGIN)
    shown = word.sub(
        lambda match: f"[{match[0]}]" if _matches_query(match[0], wanted) else match[0],
        text[start:end],
    )
    return ("..." if start else "") + shown + ("..." if end < len(text) else "")


def _word_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for the words of a text as written, with their accents and joiners."""
    if text.isascii():
        return _ASCII_WORD
    chars = {char for char in set(text) if not char.isascii() and _CHAR_FOLDING[ord(char)] != " "}
    return re.compile(rf"[\w{re.escape(''.join(sorted(chars)))}]+")


def _matches_query(written: str, wanted: Collection[str]) -> bool:
    return any(word in wanted for word in tokenize(written))
