"""Checkpoints: the WAL is moved into the file between commits, not inside one.

SQLite's own checkpoint runs inside the commit that makes the WAL long, and adds two fsyncs to it:
of 100 acknowledgements, the slowest took twice as long because of it. So the writer runs them when
no request waits. SQLite's own remains as the bound of a WAL that grows faster than it is counted.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Final

# A checkpoint copies the pages while other commits wait, so they are few: 1,000 pages are 4 MB.
DUE_PAGES: Final = 1_000
# Length of the WAL at which SQLite runs a checkpoint inside the commit.
MAX_PAGES: Final = 4_000
# Measured: a commit of one write has 7 to 12 pages, and one of 50 writes 60 to 90. Long texts are
# not counted.
_COMMIT_PAGES: Final = 8
_WRITE_PAGES: Final = 1


class WalLength:
    """Estimated number of pages in the WAL since the last checkpoint."""

    def __init__(self) -> None:
        self._pages = 0

    @property
    def needs_checkpoint(self) -> bool:
        """True if a checkpoint is due."""
        return self._pages >= DUE_PAGES

    def add_commit(self, writes: int) -> None:
        """Count the pages of a commit with this number of writes."""
        self._pages += _COMMIT_PAGES + writes * _WRITE_PAGES

    def reset(self) -> None:
        """Count from 0 again, after a checkpoint."""
        self._pages = 0


def move_wal(connection: sqlite3.Connection) -> None:
    """Move the WAL into the file, as far as no reader needs it.

    An error is ignored, as SQLite ignores one of its own checkpoint: the commits are in the WAL,
    and the next commit finds a file that cannot be written.
    """
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
