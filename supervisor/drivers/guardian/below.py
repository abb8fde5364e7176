"""Who lives below a process, whatever group or session he is in."""

import os

# Where these stand in /proc/PID/stat, behind the name.
_STATE, _PARENT, _THREADS = 0, 1, 17


def descendants(ancestor: int) -> dict[int, int]:
    """Who lives below it, and under which parent, from the top; nobody where there is no /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib is too much
    except OSError:
        return {}
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, names)):
        parent = parent_of(pid)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    above = [ancestor]
    for one in above:  # it grows while we go through it
        for pid in children.get(one, ()):
            found[pid] = one
            above.append(pid)
    return found


def parent_of(pid: int) -> int | None:
    """Its parent; None if it is gone, or only waits to be waited for."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # Its name stands before that, in parentheses, and may have anything in it.
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
        # One whose first thread has ended and others have not is said to be a zombie, and lives.
        is_dead = fields[_STATE] in (b"Z", b"X") and fields[_THREADS] in (b"0", b"1")
        return None if is_dead else int(fields[_PARENT])
    except (OSError, IndexError, ValueError):
        return None
    finally:
        os.close(descriptor)
