"""The process at the other end of a unix socket, as the kernel reports it.

Rule 1: a pid is taken for a process only together with its start time. Where the kernel gives a
        handle of the peer, the handle says whether the pid is still that of the peer.
Rule 2: the credentials are those of the process that has connected, at that time. It may have
        passed the connection on; so a peer that has ended has no place that could be trusted.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from typing import Final

from supervisor.drivers.identity import ProcessIdentity, identify
from supervisor.drivers.process.containment import foreign_guardians_above

# Keys in the state of the scope. The user id of the peer:
PEER_UID: Final = "peer_uid"
# The guardians above the peer, None if it has ended; absent where the system does not report peers.
PEER_GUARDIANS: Final = "peer_guardians"

_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid
# The name is in no version of Python yet; kernels have it since 6.5.
_SO_PEERPIDFD: Final = 77


def has_peer_credentials() -> bool:
    """Return True if the system reports peer credentials."""
    return sys.platform == "linux"


def peer_uid(connection: socket.socket) -> int | None:
    """Return the uid of the peer of a unix socket; None where the system does not report it."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[1]


def peer_pid(connection: socket.socket) -> int | None:
    """Return the pid of the peer or listener; None where the system does not report it."""
    credentials = _credentials(connection)
    return None if credentials is None else credentials[0]


def peer_guardians(connection: socket.socket) -> frozenset[ProcessIdentity] | None:
    """Return the guardians above the peer that are not above us; None if the peer has ended.

    A peer outside of our pid namespace is in no containment of ours.
    """
    pid = peer_pid(connection)
    if not pid:
        return frozenset()
    handle = _peer_handle(connection)
    try:
        process = identify(pid)
        if process is None or (handle is not None and _has_ended(handle)):
            return None
        return foreign_guardians_above(process)
    finally:
        if handle is not None:
            os.close(handle)


def _peer_handle(connection: socket.socket) -> int | None:
    """Return a handle of the peer; None if the kernel has none, or the peer has ended."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return None


def _has_ended(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not has_peer_credentials():
        return None
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    return pid, uid, gid
