"""Session tokens: the credential of the agent of one session for the tools.

A token names the session, the epoch and the scope, and ends with their HMAC-SHA256.

Rule 1: the key is made at start and held in memory only, so no token outlives its supervisor.
Rule 2: a token counts while the session has the epoch of the token and has not stopped.
Rule 3: every token that does not count gets the same answer.

`core/redaction.py` finds tokens in texts by their form.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from starlette.types import Scope

from supervisor.core.ids import SessionId
from supervisor.http_server.problems import RequestRefused

from .caller import Caller, ToolScope

# Known by `core/redaction.py`; the number is the version of the form.
TOKEN_PREFIX: Final = "ust-1"  # noqa: S105 - the first word of each token
_KEY_BYTES: Final = 32
_FIELDS: Final = 5
# In the token as words of letters, which redaction finds.
_SCOPE_WORDS: Final[dict[ToolScope, str]] = {"self": "self", "self,look": "look", "all": "all"}
_SCOPES: Final = {word: scope for scope, word in _SCOPE_WORDS.items()}


class SessionTokens:
    """Issues the session tokens of one supervisor, and checks them.

    `epoch_of` returns the epoch of a session, and None for one that has stopped or has no actor.
    """

    def __init__(self, epoch_of: Callable[[SessionId], int | None]) -> None:
        self._epoch_of = epoch_of
        self._key = secrets.token_bytes(_KEY_BYTES)

    def issue(self, session_id: SessionId, epoch: int, scope: ToolScope) -> str:
        """Return the token of a session for this epoch."""
        fields = f"{TOKEN_PREFIX}.{session_id}.{epoch}.{_SCOPE_WORDS[scope]}"
        return f"{fields}.{self._signature(fields)}"

    def check(self, text: str) -> Caller:
        """Return the caller with this token; raise `RequestRefused` if the token does not count."""
        caller, epoch = self._verified(text)
        assert caller.session_id is not None
        if self._epoch_of(caller.session_id) != epoch:
            raise refused_token()
        return caller

    def _verified(self, text: str) -> tuple[Caller, int]:
        """Return what the token says; raise `RequestRefused` unless we have issued it."""
        fields, _, signature = text.rpartition(".")
        # Compared first, and in constant time; other texts are not read at all.
        if not hmac.compare_digest(_encode(signature), _encode(self._signature(fields))):
            raise refused_token()
        words = text.split(".")
        if len(words) != _FIELDS:
            raise refused_token()
        _, session_id, epoch, scope, _ = words
        known = SessionId(session_id)
        return Caller(name=session_id, scope=_SCOPES[scope], session_id=known), int(epoch)

    def _signature(self, fields: str) -> str:
        digest = hmac.digest(self._key, _encode(fields), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def bearer_token(scope: Scope) -> str | None:
    """Return the token in the request's authorization header; None if there is none, or two."""
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(sent) != 1:
        return None
    kind, _, token = sent[0].decode("latin-1").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def looks_like_session_token(text: str) -> bool:
    """Return True if the text begins as a session token does."""
    return text.startswith(f"{TOKEN_PREFIX}.")


def refused_token() -> RequestRefused:
    """Return the refusal of a token that does not count."""
    return RequestRefused(
        "unauthorized",
        "the session token is missing, wrong or no longer valid",
        hint="a session token ends with the agent that it was given to",
    )


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
