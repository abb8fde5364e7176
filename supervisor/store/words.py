"""Words, as a search understands them: all of them, in any order, without case or accents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final

import orjson

# The kinds of records that a search looks into: what people and agents have said.
SAID: Final = ("user_text", "agent_text")

# So many letters are shown before and after the first word that was found.
_AROUND: Final = 60


# Signs inside a word that nobody sees: a soft hyphen, and what joins letters or keeps them apart.
_UNSEEN: Final = frozenset("\u00ad\u200c\u200d")


class _Plain(dict[int, str]):
    """What a letter is compared as: itself, nothing if it is an accent, a blank between words.

    Vowels of some scripts are signs too, and belong to their word.
    """

    def __missing__(self, letter: int) -> str:
        sign = chr(letter)
        if unicodedata.combining(sign) or sign in _UNSEEN:
            plain = ""
        else:
            plain = sign if _is_of_a_word(sign) else " "
        self[letter] = plain
        return plain


_PLAIN: Final = _Plain()
_ASCII_WORD: Final = re.compile(r"\w+", re.ASCII)


def _is_of_a_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_" or unicodedata.category(sign).startswith("M")


def words_of(text: str) -> frozenset[str]:
    """What somebody looks for."""
    return frozenset(words_of_text(text))


def words_of_text(text: str) -> list[str]:
    """The words of a text, as they are compared: without case and accents.

    An accent may be a letter's own or a sign behind it, so it goes before words are told apart.
    """
    if text.isascii():  # the usual case: there are no accents, and only letters have a case
        return _ASCII_WORD.findall(text.lower())
    # Twice: some letters have a case only when they are taken apart, others come apart by it.
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return apart.translate(_PLAIN).split()


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


def snippet(text: str, wanted: Collection[str]) -> str:
    """What is around the first of these words, each of them marked."""
    word = _words_in(text)
    found = next((one for one in word.finditer(text) if _is_one_of(one[0], wanted)), None)
    if found is None:  # nobody asks for the snippet of a text in which nothing was found
        return text[: 2 * _AROUND]
    start = max(0, found.start() - _AROUND)
    end = min(len(text), found.end() + _AROUND)
    shown = word.sub(
        lambda one: f"[{one[0]}]" if _is_one_of(one[0], wanted) else one[0], text[start:end]
    )
    return ("..." if start else "") + shown + ("..." if end < len(text) else "")


def _words_in(text: str) -> re.Pattern[str]:
    """Finds the words in a text as it was written, with the signs that it has in them."""
    if text.isascii():
        return _ASCII_WORD
    signs = {sign for sign in set(text) if not sign.isascii() and _PLAIN[ord(sign)] != " "}
    return re.compile(rf"[\w{re.escape(''.join(sorted(signs)))}]+")


def _is_one_of(written: str, wanted: Collection[str]) -> bool:
    return any(word in wanted for word in words_of_text(written))
