"""The program: make ready, start the agent, stand guard."""

import os
import sys

from .agent import become_agent, read_launch
from .guard import Guardian
from .talk import say

# What this wraps would cost six milliseconds more.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Guard one agent, to its end or ours, and leave."""
    try:
        stand_guard()
    except Exception as error:  # noqa: BLE001 - ours: it is said, and who hears it sees to the rest
        say(f"broken {error!r}")
    finally:
        os._exit(0)  # at once: there is nothing to tidy


def stand_guard() -> None:
    """Start the agent, and return when nothing of it is left."""
    parent, *streams = map(int, sys.argv[1:5])
    os.set_blocking(1, False)
    alarm = keep_calm()
    become_subreaper()
    supervisor = open_handle(parent)
    launch = read_launch()
    gate, go = os.pipe()
    failure, failed = os.pipe()
    try:
        agent = os.fork()
    except OSError as error:
        say(f"failed {error.errno} fork")
        return
    if agent == 0:
        os.close(go)
        become_agent(launch, streams, gate, failed)
    # Not one of the agent's descriptors stays here: its pipes end when it lets go of them.
    for descriptor in (*streams, gate, failed):
        os.close(descriptor)
    guardian = Guardian(agent, go, failure)
    guardian.watch(alarm, supervisor)
    if os.getppid() != parent:
        guardian.lose_supervisor()
    guardian.run()


def keep_calm() -> int:
    """Hear of no signal but the deaths of children; gives what becomes readable with each."""
    alarm, ring = os.pipe()
    os.set_blocking(alarm, False)
    os.set_blocking(ring, False)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    return alarm


def become_subreaper() -> None:
    """Have everyone below us who loses his parent become our child; only Linux has this."""
    if sys.platform != "linux":
        return
    try:
        import _ctypes  # noqa: PLC0415 - see above

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type] # None is us
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        import ctypes  # noqa: PLC0415 - only an interpreter that has no such part

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def open_handle(pid: int) -> int | None:
    """A descriptor for whoever bears that pid, readable at his death; None if there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
