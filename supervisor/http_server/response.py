"""Responses: status, bytes, and headers that restrict browsers.

No header allows another origin to read a response: there is no CORS, on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs
import orjson
from starlette.types import Scope, Send

from .problems import MEDIA_TYPE, ProblemDetails

Header: TypeAlias = tuple[bytes, bytes]

SAFE_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# A page with text of an agent: no scripts, no requests.
HTML_POLICY: Final[Header] = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; sandbox",
)


@attrs.frozen
class Response:
    """A complete response."""

    status: int
    content: bytes = b""
    media_type: str = "application/json"
    headers: tuple[Header, ...] = ()

    async def send(self, scope: Scope, send: Send) -> None:
        """Send the response; a HEAD request gets the headers only."""
        headers = [*SAFE_HEADERS, *self.headers]
        if self.content:
            headers.append((b"content-type", self.media_type.encode()))
        if self.status != _NO_CONTENT:
            headers.append((b"content-length", str(len(self.content)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        content = b"" if scope["method"] == "HEAD" else self.content
        await send({"type": "http.response.body", "body": content, "more_body": False})


_NO_CONTENT: Final = 204


def problem_response(problem: ProblemDetails, headers: Iterable[Header] = ()) -> Response:
    """Return the response for a problem."""
    all_headers = list(headers)
    if problem.retry_after_seconds is not None:
        all_headers.append((b"retry-after", str(problem.retry_after_seconds).encode()))
    return Response(problem.status, orjson.dumps(problem.to_json()), MEDIA_TYPE, tuple(all_headers))
