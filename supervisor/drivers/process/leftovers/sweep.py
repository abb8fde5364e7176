"""Finding what is left of a containment whose guardian is dead, and killing that.

Rule 1: who is found bears the containment's mark, is of the agent's own session, or is a child of
        one who was found; whoever only looks like that because a pid was used again is not.
Rule 2: everyone is looked at in a thread; killing goes through `identity`, by handle.
Rule 3: a marked process has a guardian or should be dead. So what is left behind by anybody's
        supervisor may be killed by anyone who finds it, if it is his user's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from supervisor.drivers.identity import (
    WAIT_SECONDS,
    Leftover,
    ProcessIdentity,
    identify,
    is_alive,
    kill_leftovers,
    parse_stat,
)

from .marker import VARIABLE, Marker, current_namespace, find_marker, parse_marker
from .owner import has_owner

_PROC: Final = Path("/proc")
# Behind the name in /proc/PID/stat.
_PARENT: Final = 1
_SESSION: Final = 3
_START_TIME: Final = 19
_MAX_ENVIRON_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 14
_LOOK_AGAIN_SECONDS: Final = 0.01


@attrs.frozen
class Seen:
    """A living process, as it was seen."""

    identity: ProcessIdentity
    parent: int
    session: int
    is_own: bool  # of our user
    marker: Marker | None


async def kill_marked(
    marker: Marker,
    agent: ProcessIdentity,
    *,
    within_seconds: float,
    on_kill: Callable[[ProcessIdentity], None],
) -> tuple[ProcessIdentity, ...]:
    """Kill all that is left of a containment; gives who is still alive when the time is over."""
    left: list[ProcessIdentity] = []
    limiter = trio.CapacityLimiter(1)
    with trio.move_on_after(within_seconds):
        while True:
            seen = await trio.to_thread.run_sync(look_around, limiter=limiter)
            left = members(seen, {marker}, [agent])
            if not left:
                break
            for one in left:
                on_kill(one)
            await kill_leftovers(left)
            # Dead, or a moment from it; who was born meanwhile is seen in the next round.
            await trio.sleep(_LOOK_AGAIN_SECONDS)
    return tuple(one for one in left if is_alive(one))


async def kill_left_behind(
    noted: Iterable[ProcessIdentity], *, wait_seconds: float = WAIT_SECONDS
) -> list[Leftover]:
    """Kill what dead supervisors have left: those noted, and all that can be found around them.

    Gives what became of those noted, then of the others. Who belongs to a supervisor that lives is
    not touched. A guardian that is at work gets the time to do it; one that is still there after
    half of it is killed with the rest.
    """
    everyone = tuple(noted)
    noted = [one for one in everyone if not has_owner(one)]
    owned = [Leftover(one, "owned") for one in everyone if one not in noted]
    limiter = trio.CapacityLimiter(1)
    seen = await trio.to_thread.run_sync(look_around, limiter=limiter)
    markers = _markers_of(seen, noted) | orphaned(seen) | _left_with_zombies(seen, noted)
    found = await kill_leftovers(noted, wait_seconds=wait_seconds)
    others: dict[ProcessIdentity, Leftover] = {}
    began = trio.current_time()
    while trio.current_time() < began + wait_seconds:
        seen = await trio.to_thread.run_sync(look_around, limiter=limiter)
        left = members(seen, markers, noted)
        guardians = guardians_of(seen, markers)
        if not left and not guardians:
            break
        if trio.current_time() > began + wait_seconds / 2:
            left += guardians
        elif guardians:
            guarded = {one for one in markers if any(map(one.is_guardian, guardians))}
            left = members(seen, markers - guarded, noted)
        for leftover in await kill_leftovers(left):
            others[leftover.identity] = leftover
        await trio.sleep(_LOOK_AGAIN_SECONDS)
    return [*owned, *found, *others.values()]


# Looking ---------------------------------------------------------------------------------


def look_around() -> list[Seen]:
    """Everyone who lives, as far as we may look; nobody where there is no /proc."""
    us = identify(os.getpid())
    if us is None:
        return []
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    found = (_look_at(pid, us.boot_id) for pid in pids)
    return [seen for seen in found if seen is not None]


def _look_at(pid: int, boot_id: str) -> Seen | None:
    try:
        stat, owner = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    start_time = parse_stat(stat)
    if start_time is None:
        return None
    fields = stat.rpartition(b")")[2].split()
    return Seen(
        ProcessIdentity(pid, start_time, boot_id),
        parent=int(fields[_PARENT]),
        session=int(fields[_SESSION]),
        is_own=owner == os.geteuid(),
        marker=_read_marker(pid),
    )


def _read_marker(pid: int) -> Marker | None:
    try:
        return find_marker(_read(f"/proc/{pid}/environ")[0])
    except OSError:
        return None  # dead meanwhile, or somebody's whom we may not look at


def _read(path: str) -> tuple[bytes, int]:
    """What is in it, and whose it is; by hand, for there are many, and each is small."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        pieces = []
        while piece := os.read(descriptor, _PIECE_BYTES):
            pieces.append(piece)
            if len(pieces) * _PIECE_BYTES >= _MAX_ENVIRON_BYTES:
                break
        return b"".join(pieces), os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)


# Choosing --------------------------------------------------------------------------------


def members(
    seen: Sequence[Seen], markers: Collection[Marker], agents: Iterable[ProcessIdentity]
) -> list[ProcessIdentity]:
    """Who belongs to these containments: by mark, by the agent's session, or by his parent."""
    # The number of a session is its first process's, and nobody else's while that one lives.
    sessions = {agent.pid for agent in agents if is_alive(agent)}
    found = {
        one.identity.pid: one.identity
        for one in seen
        if one.session in sessions or (one.marker is not None and one.marker in markers)
    }
    rest = [one for one in seen if one.identity.pid not in found]
    while children := [one for one in rest if one.parent in found]:
        rest = [one for one in rest if one.parent not in found]
        for one in children:
            # A parent who lives now has lived since he was seen: it is he, and this is his child.
            if is_alive(found[one.parent]):
                found[one.identity.pid] = one.identity
    return [*found.values()]


def orphaned(seen: Iterable[Seen]) -> set[Marker]:
    """The marks of our user's processes whose guardians are dead."""
    ours = parse_marker(os.environ.get(VARIABLE, ""))
    namespace = current_namespace()
    markers = {one.marker for one in seen if one.is_own and one.marker is not None}
    return {
        marker
        for marker in markers - {ours}
        # Looked at now, after the processes: a guardian is there before those that it guards.
        if marker.namespace == namespace and not _has_guardian(marker)
    }


def guardians_of(seen: Iterable[Seen], markers: Collection[Marker]) -> list[ProcessIdentity]:
    """The guardians of these containments that are still there."""
    by_pid = {marker.guardian_pid: marker for marker in markers}
    return [
        one.identity
        for one in seen
        if one.identity.pid in by_pid and by_pid[one.identity.pid].is_guardian(one.identity)
    ]


def _has_guardian(marker: Marker) -> bool:
    guardian = identify(marker.guardian_pid)
    return guardian is not None and marker.is_guardian(guardian)


def _left_with_zombies(seen: Iterable[Seen], noted: Iterable[ProcessIdentity]) -> set[Marker]:
    """The marks of containments whose agent is dead, and whose guardian has not seen to that.

    Somebody has stopped that guardian: it is the parent of the agent that it does not bury.
    """
    namespace = current_namespace()
    guardians = {parent for one in noted if (parent := _parent_of_zombie(one)) is not None}
    return {
        one.marker
        for one in seen
        if one.marker is not None
        and one.marker.guardian_pid in guardians
        and one.marker.namespace == namespace
    }


def _parent_of_zombie(identity: ProcessIdentity) -> int | None:
    try:
        stat, _ = _read(f"/proc/{identity.pid}/stat")
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    is_it = len(fields) > _START_TIME and fields[_START_TIME] == str(identity.start_time).encode()
    return int(fields[_PARENT]) if is_it and fields[0] == b"Z" else None


def _markers_of(seen: Iterable[Seen], noted: Collection[ProcessIdentity]) -> set[Marker]:
    namespace = current_namespace()
    return {
        one.marker
        for one in seen
        if one.identity in noted and one.marker is not None and one.marker.namespace == namespace
    }
