"""Find and kill the processes of a containment whose guardian is dead.

A recorded process is an orphan only if its supervisor is dead. A copied store names processes of
the supervisor that it was copied from, so the record alone proves nothing. An agent is a child of
its guardian, and a guardian a child of its supervisor, for as long as these are alive; the kernel's
parent pids are checked, because they cannot be wrong.

Rule 1: a process belongs to a containment if it has the containment's marker, is in the agent's
        session, or is a child of a process that belongs to it. A reused pid does not count.
Rule 2: /proc is scanned in a thread; processes are killed through `identity`, by handle.
Rule 3: a marked process has a guardian or must be dead. So the orphans of any supervisor of the
        same user may be killed.
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
    KillResult,
    ProcessIdentity,
    identify,
    is_alive,
    kill_processes,
    parse_stat,
    read_stat,
)

from .environment import MARKER_VARIABLE, Marker, marker_in_environ, parse_marker, pid_namespace
from .fork_server import supervisor_pid

_PROC: Final = Path("/proc")
_MAX_ENVIRON_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 14
_POLL_SECONDS: Final = 0.01


@attrs.frozen
class ObservedProcess:
    """A live process, as it was when /proc was scanned."""

    identity: ProcessIdentity
    parent: int
    session: int
    is_same_user: bool
    marker: Marker | None


def has_live_supervisor(process: ProcessIdentity) -> bool:
    """Return True if the process, alive or zombie, has a guardian whose supervisor is alive."""
    stat = read_stat(process.pid)
    if stat is None or stat.start_time != process.start_time:
        return False
    supervisor, guardian = supervisor_pid(stat.parent), read_stat(stat.parent)
    # A process whose parent has died gets another parent.
    return supervisor is not None and guardian is not None and guardian.parent == supervisor


async def kill_containment(
    marker: Marker,
    agent: ProcessIdentity,
    *,
    within_seconds: float,
    on_kill: Callable[[ProcessIdentity], None],
) -> tuple[ProcessIdentity, ...]:
    """Kill all processes of a containment; return those still alive after `within_seconds`."""
    left: list[ProcessIdentity] = []
    limiter = trio.CapacityLimiter(1)
    with trio.move_on_after(within_seconds):
        while True:
            seen = await trio.to_thread.run_sync(list_processes, limiter=limiter)
            left = containment_members(seen, {marker}, [agent])
            if not left:
                break
            for process in left:
                on_kill(process)
            await kill_processes(left)
            # A process that was forked meanwhile is found in the next round.
            await trio.sleep(_POLL_SECONDS)
    return tuple(process for process in left if is_alive(process))


async def kill_orphans(
    recorded: Iterable[ProcessIdentity], *, wait_seconds: float = WAIT_SECONDS
) -> list[KillResult]:
    """Kill the orphans of dead supervisors: the recorded processes and all of their containments.

    Return the outcomes of the recorded processes, then those of the others. A process of a live
    supervisor is not killed. A live guardian is left `wait_seconds / 2` to kill its own processes,
    then it is killed too.
    """
    everything = tuple(recorded)
    recorded = [process for process in everything if not has_live_supervisor(process)]
    owned = [KillResult(process, "owned") for process in everything if process not in recorded]
    limiter = trio.CapacityLimiter(1)
    seen = await trio.to_thread.run_sync(list_processes, limiter=limiter)
    markers = (
        _markers_of_recorded(seen, recorded)
        | orphaned_markers(seen)
        | _markers_of_stopped_guardians(seen, recorded)
    )
    results = await kill_processes(recorded, wait_seconds=wait_seconds)
    others: dict[ProcessIdentity, KillResult] = {}
    started_at = trio.current_time()
    while trio.current_time() < started_at + wait_seconds:
        seen = await trio.to_thread.run_sync(list_processes, limiter=limiter)
        left = containment_members(seen, markers, recorded)
        guardians = live_guardians(seen, markers)
        if not left and not guardians:
            break
        if trio.current_time() > started_at + wait_seconds / 2:
            left += guardians
        elif guardians:
            guarded = {marker for marker in markers if any(map(marker.is_guardian, guardians))}
            left = containment_members(seen, markers - guarded, recorded)
        for result in await kill_processes(left):
            others[result.identity] = result
        await trio.sleep(_POLL_SECONDS)
    return [*owned, *results, *others.values()]


# Scanning /proc --------------------------------------------------------------------------


def list_processes() -> list[ObservedProcess]:
    """Return all visible live processes; empty without /proc."""
    us = identify(os.getpid())
    if us is None:
        return []
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    found = (_observe_process(pid, us.boot_id) for pid in pids)
    return [seen for seen in found if seen is not None]


def _observe_process(pid: int, boot_id: str) -> ObservedProcess | None:
    try:
        text, owner = _read_proc_file(f"/proc/{pid}/stat")
    except OSError:
        return None
    stat = parse_stat(text)
    if stat is None or stat.is_dead:
        return None
    return ObservedProcess(
        ProcessIdentity(pid, stat.start_time, boot_id),
        parent=stat.parent,
        session=stat.session,
        is_same_user=owner == os.geteuid(),
        marker=_read_marker(pid),
    )


def _read_marker(pid: int) -> Marker | None:
    try:
        return marker_in_environ(_read_proc_file(f"/proc/{pid}/environ")[0])
    except OSError:
        return None  # it died meanwhile, or belongs to another user


def _read_proc_file(path: str) -> tuple[bytes, int]:
    """Return contents and owner of the file.

    It uses `os` alone, which is faster for many small files.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        chunks = []
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            chunks.append(chunk)
            if len(chunks) * _CHUNK_BYTES >= _MAX_ENVIRON_BYTES:
                break
        return b"".join(chunks), os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)


# Selecting processes and markers ---------------------------------------------------------


def containment_members(
    seen: Sequence[ObservedProcess], markers: Collection[Marker], agents: Iterable[ProcessIdentity]
) -> list[ProcessIdentity]:
    """Return the processes of these containments: by marker, by the agent's session, by parent."""
    # A session id is the pid of its leader, and no other session has it while the leader is alive.
    sessions = {agent.pid for agent in agents if is_alive(agent)}
    found = {
        process.identity.pid: process.identity
        for process in seen
        if process.session in sessions or (process.marker is not None and process.marker in markers)
    }
    rest = [process for process in seen if process.identity.pid not in found]
    while children := [process for process in rest if process.parent in found]:
        rest = [process for process in rest if process.parent not in found]
        for process in children:
            # If the parent is alive now it was alive during the scan, so its pid was not reused.
            if is_alive(found[process.parent]):
                found[process.identity.pid] = process.identity
    return [*found.values()]


def orphaned_markers(seen: Iterable[ObservedProcess]) -> set[Marker]:
    """Return the markers of our user's processes whose guardians are dead."""
    ours = parse_marker(os.environ.get(MARKER_VARIABLE, ""))
    namespace = pid_namespace()
    markers = {
        process.marker for process in seen if process.is_same_user and process.marker is not None
    }
    return {
        marker
        for marker in markers - {ours}
        # Checked after the scan: a guardian exists before the processes that it guards.
        if marker.namespace == namespace and not _has_guardian(marker)
    }


def live_guardians(
    seen: Iterable[ObservedProcess], markers: Collection[Marker]
) -> list[ProcessIdentity]:
    """Return the guardians of these containments that are alive."""
    by_pid = {marker.guardian_pid: marker for marker in markers}
    identities = [process.identity for process in seen]
    return [
        identity
        for identity in identities
        if identity.pid in by_pid and by_pid[identity.pid].is_guardian(identity)
    ]


def _has_guardian(marker: Marker) -> bool:
    guardian = identify(marker.guardian_pid)
    return guardian is not None and marker.is_guardian(guardian)


def _markers_of_stopped_guardians(
    seen: Iterable[ObservedProcess], recorded: Iterable[ProcessIdentity]
) -> set[Marker]:
    """Return the markers of containments whose agent is a zombie.

    Such an agent has a guardian, its parent, that was stopped and therefore does not wait for it.
    """
    namespace = pid_namespace()
    guardians = {
        parent for process in recorded if (parent := _parent_of_zombie(process)) is not None
    }
    return {
        process.marker
        for process in seen
        if process.marker is not None
        and process.marker.guardian_pid in guardians
        and process.marker.namespace == namespace
    }


def _parent_of_zombie(identity: ProcessIdentity) -> int | None:
    stat = read_stat(identity.pid)
    if stat is None or stat.start_time != identity.start_time or stat.state != b"Z":
        return None
    return stat.parent


def _markers_of_recorded(
    seen: Iterable[ObservedProcess], recorded: Collection[ProcessIdentity]
) -> set[Marker]:
    namespace = pid_namespace()
    return {
        process.marker
        for process in seen
        if process.identity in recorded
        and process.marker is not None
        and process.marker.namespace == namespace
    }
