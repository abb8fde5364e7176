"""A disk that is really full, for one process and without root: its files cannot grow.

The limit is the kernel's (RLIMIT_FSIZE) and holds for each file by itself. A write that reaches it
is short, and the next fails with EFBIG, which SQLite reports as SQLITE_IOERR_WRITE, not as
SQLITE_FULL; `faults` simulates SQLITE_FULL. Python ignores the signal SIGXFSZ from its start.
"""

from __future__ import annotations

import resource


def fill_disk(process_id: int, *, max_file_bytes: int) -> None:
    """Let no file of that process, which must be ours, grow beyond this size."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (max_file_bytes, hard))


def free_disk(process_id: int) -> None:
    """Remove the limit."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (hard, hard))
