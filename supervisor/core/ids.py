"""Names of things: ids that we make, and keys that callers choose.

Rule 1: an id is made elsewhere (the core has no dice) and only checked here.
Rule 2: a key's text form and its parts are exact inverses: `parse(str(key)) == key` for every key,
        and `str(parse(text)) == text` for every text that parses.
"""

from __future__ import annotations

import re
from typing import Final, NewType

import attrs

from .errors import InvalidKey, SessionNotFound, shown

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
InputId = NewType("InputId", str)
CallId = NewType("CallId", str)
RequestId = NewType("RequestId", str)

_SESSION_ID: Final = re.compile(r"[a-z0-9_]{3,64}")


def session_id(text: str) -> SessionId:
    """`text` as a session id, or `SessionNotFound`: what cannot be an id cannot be found.

    Checked before an id is joined into anything, so that no path or query ever sees another.
    """
    if not isinstance(text, str) or _SESSION_ID.fullmatch(text) is None:
        raise SessionNotFound(
            f"{shown(text)} is not a session id",
            hint="an id is 3 to 64 of a-z, 0-9 and _; list the sessions to find it",
        )
    return SessionId(text)


@attrs.frozen(str=False, eq=False)
class SessionKey:
    """A name that a caller chooses for a session: who speaks, where, with whom, about what.

    The text form is `agent:channel:peer` or `agent:channel:peer:thread`, with `%` and `:` inside
    a part written `%25` and `%3A`. A key equals its text form, so that either finds the other.
    """

    agent: str
    channel: str
    peer: str
    thread: str | None = None

    def __attrs_post_init__(self) -> None:
        for name, part in zip(_PARTS, self._given(), strict=False):
            _refuse_unless_part(name, part)

    def __str__(self) -> str:
        return ":".join(_escaped(part) for part in self._given())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SessionKey):
            return self._given() == other._given()
        return str(self) == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        """The key that `text` is the text form of; raises `InvalidKey`."""
        if not isinstance(text, str):
            raise InvalidKey(f"{shown(text)} is not text", hint=_FORM)
        parts = text.split(":")
        if not _FEWEST <= len(parts) <= len(_PARTS):
            raise InvalidKey(f"{shown(text)} has {len(parts)} parts", hint=_FORM)
        return cls(*(_unescaped(part, text) for part in parts))

    def _given(self) -> tuple[str, ...]:
        parts = (self.agent, self.channel, self.peer)
        return parts if self.thread is None else (*parts, self.thread)


_PARTS: Final = tuple(field.name for field in attrs.fields(SessionKey))
_FEWEST: Final = 3
MAX_PART_BYTES: Final = 1024
_FORM: Final = "a key is agent:channel:peer or agent:channel:peer:thread, no part empty"
_ESCAPES: Final = {"%25": "%", "%3A": ":"}


def as_key(key: SessionKey | str) -> SessionKey:
    """A key, also from its text form."""
    return key if isinstance(key, SessionKey) else SessionKey.parse(key)


def _refuse_unless_part(name: str, part: str) -> None:
    if not isinstance(part, str) or not part:
        raise InvalidKey(f"the {name} of a key is {shown(part)}", hint=_FORM)
    if len(part.encode(errors="replace")) > MAX_PART_BYTES:
        raise InvalidKey(
            f"the {name} of a key has more than {MAX_PART_BYTES} bytes", hint="make it shorter"
        )
    if not part.isascii() and any("\ud800" <= letter <= "\udfff" for letter in part):
        raise InvalidKey(
            f"the {name} of a key has half of a character in it",
            hint="a lone surrogate cannot be stored: decode the text properly first",
        )


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def _unescaped(part: str, text: str) -> str:
    pieces = re.split("(%.{0,2})", part, flags=re.DOTALL)
    for place in range(1, len(pieces), 2):
        if pieces[place] not in _ESCAPES:
            raise InvalidKey(
                f"{shown(text)} has {pieces[place]!r} in it, which stands for nothing",
                hint="write % as %25 and : as %3A, nothing else is escaped",
            )
        pieces[place] = _ESCAPES[pieces[place]]
    return "".join(pieces)
