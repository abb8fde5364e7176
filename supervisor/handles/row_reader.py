"""Port of the readers of live rows."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from .session_rows import RequestClosed, RequestOpened, SessionGone, SessionRow, StoreChanged

RowItem: TypeAlias = SessionRow | SessionGone | RequestOpened | RequestClosed | StoreChanged


class RowReader(Protocol):
    """A reader of rows; a later item of the same key replaces an earlier one."""

    def push(self, key: str, item: RowItem) -> None:
        """Queue an item, without waiting."""
