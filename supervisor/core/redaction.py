"""Redaction of secrets in text and in plain data.

Rule 1: redaction takes linear time in the text, for any text. A shape begins where a run of
        its letters begins, or looks ahead by a fixed number of them; nothing is read again for
        each beginning.
Rule 2: ordinary prose stays as it is. A word that only looks like a beginning ("sk-learn",
        "bearer of news", "password: none") is not a secret; most secrets contain a digit.
Rule 3: redacting a redacted text changes nothing.
Rule 4: a covered secret is redacted whatever its shape. `cover_secret` adds one for the whole
        process, because the environment that it comes from belongs to the whole process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

REDACTED: Final = "[redacted]"

_TOKEN_START: Final = r"(?<![A-Za-z0-9_-])"  # noqa: S105 - the start of a run of letters, not a token

_DIGIT_AHEAD: Final = r"(?=[A-Za-z_-]{0,64}+[0-9])"

_NAMES: Final = r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|token|secret|passw(?:or)?d)"

_ASSIGNS: Final = r"""\\?["']?[ \t]{0,8}[:=][ \t]{0,8}"""

_VALUE: Final = r"A-Za-z_./+=~!@#$%^&*-"  # and digits

_HEADER_VALUE: Final = r"A-Za-z._~+/=-"  # and digits

# A reference to a variable that has the secret, as configuration files have it: "$API_KEY".
_REFERENCE: Final = r"\$[A-Z]{1,32}+(?:_[A-Z]{1,32}+){1,8}+\\?[\"']"

_KEY: Final = r"((?:[^-]++|-(?!----))*+(?=-----END )|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,}+)++)"

_NAME_WORDS: Final = ("key", "token", "secret", "passw")

# The substrings, in lower case, one of which a text must contain for the shape to be searched;
# and the shape. Its one group is redacted, the rest shows the reader what was there.
_SHAPES: Final = tuple(
    (words, re.compile(shape))
    for words, shape in (
        # Keys of the large providers, by their prefixes.
        (("sk-",), rf"{_TOKEN_START}(sk-{_DIGIT_AHEAD}[A-Za-z0-9_-]{{16,}}+)"),
        (("k_live_", "k_test_"), rf"{_TOKEN_START}([sr]k_(?:live|test)_[A-Za-z0-9]{{10,}}+)"),
        (("gh",), rf"{_TOKEN_START}(gh[pousr]_[A-Za-z0-9]{{20,}}+)"),
        (("github_pat_",), rf"{_TOKEN_START}(github_pat_[A-Za-z0-9_]{{20,}}+)"),
        (("glpat-",), rf"{_TOKEN_START}(glpat-[A-Za-z0-9_-]{{16,}}+)"),
        (("xox",), rf"{_TOKEN_START}(xox[abeoprs]-{_DIGIT_AHEAD}[A-Za-z0-9-]{{10,}}+)"),
        (("akia", "asia"), rf"{_TOKEN_START}((?:AKIA|ASIA)[A-Z0-9]{{16}})(?![A-Za-z0-9_-])"),
        (("aiza",), rf"{_TOKEN_START}(AIza[A-Za-z0-9_-]{{30,}}+)"),
        # A JSON web token: three runs, of which the first is an object in base64.
        (("eyj",), rf"{_TOKEN_START}(eyJ[A-Za-z0-9_-]{{8,}}+(?:\.[A-Za-z0-9_-]{{8,}}+){{2}})"),
        # A session token of ours, see `mcp_server/tokens.py`.
        (
            ("ust-",),
            (
                rf"{_TOKEN_START}(ust-[0-9]{{1,4}}+\.[a-z0-9_]{{3,64}}+\.[0-9]{{1,20}}+"
                rf"\.[a-z]{{1,8}}+\.[A-Za-z0-9_-]{{20,}}+)"
            ),
        ),
        # What goes into a header.
        (
            ("bearer",),
            (
                rf"(?i:\bbearer)[ \t]{{1,8}}+(?=[{_HEADER_VALUE}]{{0,64}}+[0-9])"
                rf"([0-9{_HEADER_VALUE}]{{8,}}+)"
            ),
        ),
        (
            ("authorization",),
            (
                rf"(?i:\bauthorization{_ASSIGNS}\\?[\"']?(?:basic|token)) ++"
                rf"([0-9{_HEADER_VALUE}]{{8,}}+)"
            ),
        ),
        # A whole key; or, if its end is missing, as many lines as look like one.
        (("private key",), r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" + _KEY),
        # scheme://user:password@host
        (("://",), r"://[^\s:/?#@]*+:([^\s/?#@]++)(?=@)"),
        # name = value: in quotes, with a digit in it, or as the environment has it.
        (
            _NAME_WORDS,
            rf"""(?i:{_NAMES}){_ASSIGNS}\\?["'](?!{_REFERENCE})([^"'\s\\]{{4,}}+)(?=\\?["'])""",
        ),
        (
            _NAME_WORDS,
            rf"(?i:{_NAMES}){_ASSIGNS}(?=[{_VALUE}]{{0,64}}+[0-9])([0-9{_VALUE}]{{6,}}+)",
        ),
        (_NAME_WORDS, rf"{_NAMES.upper()}=([0-9{_VALUE}]{{4,}}+)"),
    )
)

_WORDS: Final = tuple({word for words, _ in _SHAPES for word in words})


# A mapping key whose text value is always a secret.
_SECRET_NAME: Final = re.compile(rf"(?is:.*{_NAMES}|authorization)")


# A shorter text is likely to be a part of ordinary words.
_MIN_COVERED_CHARS: Final = 8
# Those covered last; each makes every redaction read the text once more.
_MAX_COVERED: Final = 64

_covered: tuple[str, ...] = ()


def cover_secret(secret: str) -> None:
    """Redact this text from now on, unless it is too short to be a secret."""
    global _covered  # noqa: PLW0603 - replaced as a whole, so that other threads can read it
    if len(secret) >= _MIN_COVERED_CHARS:
        kept = [one for one in _covered if one != secret]
        _covered = (*kept, secret)[-_MAX_COVERED:]


def cover_named_secret(name: str, value: str) -> None:
    """Redact this value from now on if its name says that it is a secret."""
    if _SECRET_NAME.fullmatch(name[-80:]):
        cover_secret(value)


def redact(text: str) -> str:
    """Return the text with everything redacted that looks like a secret."""
    return redact_pieces([text])[0]


def redact_pieces(pieces: Sequence[str]) -> list[str]:
    """Return the pieces such that together they are the redacted text of all together.

    A secret that lies across a seam is redacted where it begins, and removed from what follows.
    """
    whole = "".join(pieces)
    secrets = _secrets_in(whole)
    if not secrets:
        return list(pieces)
    left, place, number = [], 0, 0
    for piece in pieces:
        end, kept = place + len(piece), list[str]()
        while number < len(secrets) and secrets[number][0] < end:
            first, last = secrets[number]
            kept += (whole[place:first], REDACTED) if first >= place else ()
            place = min(last, end)
            if last > end:
                break  # the rest of it is in the next piece
            number += 1
        left.append("".join([*kept, whole[place:end]]))
        place = end
    return left


def _secrets_in(text: str) -> list[tuple[int, int]]:
    """Return the spans of the secrets, in order, merged where they touch."""
    small = text.lower()
    there = {word for word in _WORDS if word in small}
    found = [
        match.span()
        for secret in _covered
        if secret in text
        for match in re.finditer(re.escape(secret), text)
    ]
    if there:
        found += (
            match.span(1)
            for words, shape in _SHAPES
            if not there.isdisjoint(words)
            for match in shape.finditer(text)
        )
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def redact_value(value: Any) -> Any:  # noqa: ANN401 - any plain data, and the same type back
    """Return plain data with every text redacted; keys and other values stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _redact_item(name, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(item) for item in value]
    return value


def _redact_item(name: object, item: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(item, str) and isinstance(name, str) and _SECRET_NAME.fullmatch(name[-80:]):
        return REDACTED if item else item
    return redact_value(item)
