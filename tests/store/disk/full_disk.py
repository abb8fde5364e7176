"""A disk that is really full, for one process and without root: its files may grow no further.

The limit is the kernel's (RLIMIT_FSIZE) and holds for each file by itself. A write that meets it
is short, and the next fails with EFBIG, which SQLite reports as SQLITE_IOERR_WRITE, not as
SQLITE_FULL: see `faults` for that one. The signal that comes with it, SIGXFSZ, is ignored by every
Python program from its start.
"""

from __future__ import annotations

import resource


def fill_disk(process_id: int, *, max_file_bytes: int) -> None:
    """Let no file of that process, which must be ours, grow beyond this size."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (max_file_bytes, hard))


def free_disk(process_id: int) -> None:
    """Let them grow again."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (hard, hard))
