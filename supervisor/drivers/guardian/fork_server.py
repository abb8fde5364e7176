"""The fork server: fork a guardian for each request of the supervisor.

A guardian that is forked shares the memory of the interpreter with all others, and does not pay for
its start. The fork is a clone with CLONE_PARENT: the guardian is a child of the supervisor, not of
this process. So the supervisor alone waits for it, and the death of a fork server changes nothing
for the guardians that it has forked.
"""

import _socket
import gc
import os
import select
import sys

from .guard import report
from .launch import call_libc, ignore_signals, open_pidfd, run_guardian

# signal would take six milliseconds more than the module that it wraps.
TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

# The requests: fork a guardian, or become one, for a system on which the clone does not work.
FORK, BECOME = b"f", b"b"
# Commands, reports, and the three standard streams of the agent.
DESCRIPTORS = 5
_INT_BYTES = 4
CLONE_PARENT = 0x8000
# The number of the system call, for architectures on which its first argument is the flags.
_CLONE_NUMBERS = {
    "x86_64": 56,
    "aarch64": 220,
    "riscv64": 220,
    "loongarch64": 220,
    "ppc64le": 120,
    "armv7l": 120,
    "i686": 120,
}


def main() -> None:
    """Serve until the supervisor has ended, then exit; a forked guardian runs here as well."""
    try:
        parent = int(sys.argv[1])
        ignore_signals()
        supervisor = open_pidfd(parent)
        descriptors = serve(parent, supervisor)
        if descriptors:
            run_guardian(parent, supervisor, descriptors)
    except Exception as error:  # noqa: BLE001 - reported; the supervisor then kills the rest
        report(f"broken {error!r}")  # nothing reads the standard output of the fork server
    finally:
        os._exit(0)  # without cleanup: there is none to do


def serve(parent: int, supervisor: int | None) -> list[int]:
    """Fork a guardian for each request, which arrive on standard input, a socket.

    Return the descriptors of the request in the guardian, and none when the supervisor has ended.
    """
    connection = _socket.socket(fileno=0)
    poll = select.poll()
    for descriptor in (0, supervisor):
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    # The collector of a guardian must not write to what exists now, or the memory is not shared.
    gc.freeze()
    while os.getppid() == parent:
        if any(descriptor == supervisor for descriptor, _ in poll.poll()):
            break
        request, descriptors = receive_request(connection)
        if not request:
            break
        if request == BECOME or clone_sibling() == 0:
            connection.detach()  # its number is reused for the commands
            return descriptors
        for descriptor in descriptors:
            os.close(descriptor)  # without a guardian, the supervisor now sees the end of its pipes
    return []


def receive_request(connection: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the next request and the descriptors that came with it; empty at the end."""
    space = _socket.CMSG_SPACE(DESCRIPTORS * _INT_BYTES)
    request, ancillary, _, _ = connection.recvmsg(1, space, _socket.MSG_CMSG_CLOEXEC)
    numbers = b"".join(data for _, _, data in ancillary)
    starts = range(0, len(numbers), _INT_BYTES)
    return request, [
        int.from_bytes(numbers[start : start + _INT_BYTES], sys.byteorder) for start in starts
    ]


def clone_sibling() -> int:
    """Fork a child of our parent; return its pid, 0 in the child, and -1 if that is impossible.

    `os.fork` cannot do this. What it does besides is for programs with several threads.
    """
    number = _CLONE_NUMBERS.get(os.uname().machine)
    if number is None:
        return -1
    return call_libc("syscall", number, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
