"""Ids that this program creates, and keys that callers choose.

Rule 1: an id is created outside the core, which has no randomness; this module checks its form.
Rule 2: a key's text form and its parts are exact inverses: `parse(str(key)) == key` for every
        key, and `str(parse(text)) == text` for every text that parses.
"""

from __future__ import annotations

import re
from typing import Final, NewType

import attrs

from .errors import InvalidKey, SessionNotFound, short_repr

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
InputId = NewType("InputId", str)
CallId = NewType("CallId", str)
RequestId = NewType("RequestId", str)

_SESSION_ID: Final = re.compile(r"[a-z0-9_]{3,64}")


def parse_session_id(text: str) -> SessionId:
    """Return `text` as a session id; raise `SessionNotFound` if its form is not that of an id.

    Callers check an id with this function before it becomes part of a path or query.
    """
    if not isinstance(text, str) or _SESSION_ID.fullmatch(text) is None:
        raise SessionNotFound(
            f"{short_repr(text)} is not a session id",
            hint="an id is 3 to 64 of a-z, 0-9 and _; list the sessions to find it",
        )
    return SessionId(text)


@attrs.frozen(str=False, eq=False)
class SessionKey:
    """A caller's name for a session: agent, channel, peer, and optionally thread.

    The text form is `agent:channel:peer` or `agent:channel:peer:thread`, with `%` and `:`
    inside a part written `%25` and `%3A`. A key equals its text form, so that either finds the
    other.
    """

    agent: str
    channel: str
    peer: str
    thread: str | None = None

    def __attrs_post_init__(self) -> None:
        for name, part in zip(_PARTS, self._parts(), strict=False):
            _refuse_unless_part(name, part)

    def __str__(self) -> str:
        return ":".join(_escaped(part) for part in self._parts())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SessionKey):
            return self._parts() == other._parts()
        return str(self) == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        """Return the key with this text form.

        Raise `InvalidKey` if a part is missing, empty or malformed.
        """
        if not isinstance(text, str):
            raise InvalidKey(f"{short_repr(text)} is not text", hint=_FORM)
        parts = text.split(":")
        if not _MIN_PARTS <= len(parts) <= len(_PARTS):
            raise InvalidKey(f"{short_repr(text)} is not a key", hint=_FORM)
        return cls(*(_unescaped(part, text) for part in parts))

    def _parts(self) -> tuple[str, ...]:
        parts = (self.agent, self.channel, self.peer)
        return parts if self.thread is None else (*parts, self.thread)


_PARTS: Final = tuple(field.name for field in attrs.fields(SessionKey))
_MIN_PARTS: Final = 3
MAX_PART_BYTES: Final = 1024
_FORM: Final = "a key is agent:channel:peer or agent:channel:peer:thread, no part empty"
_ESCAPES: Final = {"%25": "%", "%3A": ":"}


def _refuse_unless_part(name: str, part: str) -> None:
    if not isinstance(part, str) or not part:
        raise InvalidKey(f"the {name} of a key is {short_repr(part)}", hint=_FORM)
    if len(part.encode(errors="replace")) > MAX_PART_BYTES:
        raise InvalidKey(
            f"the {name} of a key has more than {MAX_PART_BYTES} bytes", hint="make it shorter"
        )
    if not part.isascii() and any("\ud800" <= letter <= "\udfff" for letter in part):
        raise InvalidKey(
            f"the {name} of a key contains a lone surrogate",
            hint="a lone surrogate cannot be stored: decode the text correctly first",
        )


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")


def _unescaped(part: str, text: str) -> str:
    pieces = re.split("(%.{0,2})", part, flags=re.DOTALL)
    for index in range(1, len(pieces), 2):
        if pieces[index] not in _ESCAPES:
            raise InvalidKey(
                f"{short_repr(text)} contains {pieces[index]!r}, which is not a valid escape",
                hint="write % as %25 and : as %3A, nothing else is escaped",
            )
        pieces[index] = _ESCAPES[pieces[index]]
    return "".join(pieces)
