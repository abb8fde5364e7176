"""Free pages of the file, which are returned to the disk after deletions.

Rule 1: pages are returned in steps, by the one writer, with other writes in between.
Rule 2: a file that can shrink has a map of its pages from the beginning (`auto_vacuum`). An older
        file gets one only where it is rewritten anyway, when a backup is restored (decision 81).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from .files import open_reader

# 1 MB: some milliseconds. Fewer free pages than this are kept, because later writes use them.
STEP_PAGES: Final = 250
# When the store is closed, at most 64 MB are returned; the rest after the next deletion.
CLOSE_STEPS: Final = 64
_INCREMENTAL: Final = 2


def can_shrink(connection: sqlite3.Connection) -> bool:
    """Return True if the file can return free pages."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    return int(mode) == _INCREMENTAL


def return_pages(connection: sqlite3.Connection) -> bool:
    """Return some free pages to the disk; return True if there are more."""
    if not can_shrink(connection) or _free_pages(connection) < STEP_PAGES:
        return False
    # One transaction. `execute` would return one page only: it stops at the first step of a
    # statement without columns.
    connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
    if _free_pages(connection) >= STEP_PAGES:
        return True
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # it makes the file smaller
    return False


def return_pages_at_close(connection: sqlite3.Connection) -> None:
    """Return free pages to the disk before the file is closed, within a bound."""
    for _ in range(CLOSE_STEPS):
        if not return_pages(connection):
            return


def make_shrinkable(path: Path) -> None:
    """Rewrite a file that no connection has open, so that it can return free pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if not can_shrink(connection):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("VACUUM")


def stuck_bytes(path: Path) -> int:
    """Return the free bytes of a file that cannot shrink; 0 for one that can, or is damaged."""
    try:
        with closing(open_reader(path)) as connection:
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            return 0 if can_shrink(connection) else int(page_bytes) * _free_pages(connection)
    except sqlite3.Error:
        return 0


def _free_pages(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    return int(pages)
