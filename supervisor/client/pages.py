"""Pages of lists, larger than one answer of the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from supervisor.core.validation import check_integer
from supervisor.handles.arguments import decode_cursor
from supervisor.handles.page import Page

from .transport import Transport

T = TypeVar("T")
# The daemon's limit for one page.
MAX_PAGE: Final = 1_000


async def get_page(
    transport: Transport, kind: type[Page[T]], path: str, arguments: Mapping[str, Any]
) -> Page[T]:
    """Return a page of the requested size.

    Send several requests if the size exceeds one answer.
    """
    wanted = check_integer("limit", arguments["limit"])
    decode_cursor(arguments["cursor"])
    if wanted <= MAX_PAGE:
        return await transport.request(kind, "GET", path, arguments)
    found: list[T] = []
    cursor = arguments["cursor"]
    while True:
        limit = min(wanted - len(found), MAX_PAGE)
        query = {**arguments, "limit": limit, "cursor": cursor}
        page = await transport.request(kind, "GET", path, query)
        found += page.items
        cursor = page.next
        if cursor is None or len(found) == wanted:
            return Page(tuple(found), cursor)
