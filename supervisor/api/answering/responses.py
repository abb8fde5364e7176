"""Answers on their way out: bytes with a status, and headers that keep browsers from mischief.

No header lets another origin read anything: there is no CORS here, on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs
import orjson
from starlette.types import Scope, Send

from supervisor.api.wire.problems import MEDIA_TYPE, ProblemDetails

Header: TypeAlias = tuple[bytes, bytes]

SAFE_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# A page that an agent has a part in: it may be looked at, and do nothing.
PAGE_POLICY: Final[Header] = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; sandbox",
)


@attrs.frozen
class Response:
    """All of an answer."""

    status: int
    content: bytes = b""
    media_type: str = "application/json"
    headers: tuple[Header, ...] = ()

    async def send(self, scope: Scope, send: Send) -> None:
        """Send it; a question about the headers alone is answered without the rest."""
        headers = [*SAFE_HEADERS, *self.headers]
        if self.content:
            headers.append((b"content-type", self.media_type.encode()))
        if self.status != _NOTHING:
            headers.append((b"content-length", str(len(self.content)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        content = b"" if scope["method"] == "HEAD" else self.content
        await send({"type": "http.response.body", "body": content, "more_body": False})


_NOTHING: Final = 204


def problem_response(problem: ProblemDetails, headers: Iterable[Header] = ()) -> Response:
    """A problem as an answer."""
    given = list(headers)
    if problem.retry_after_seconds is not None:
        given.append((b"retry-after", str(problem.retry_after_seconds).encode()))
    return Response(problem.status, orjson.dumps(problem.plain()), MEDIA_TYPE, tuple(given))
