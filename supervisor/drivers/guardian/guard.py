"""The guardian's loop: handle commands and exits, and kill all descendants when requested."""

import os
import select
import time

# signal would take six milliseconds more than the module that it wraps.
TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

GO, INTERRUPT, TERMINATE, KILL = b"gitk"
# Survivors are reported after this time; a guardian without a supervisor then exits.
KILL_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.1
# With these limits all reports fit into the smallest pipe, of one page, even if they are not read.
MAX_SIGNALS_REPORTED = 250
MAX_SURVIVORS_REPORTED = 100
# Positions in /proc/PID/stat, after the process name.
_STATE, _PARENT, _THREADS = 0, 1, 17


def report(line: str) -> None:
    """Write a report to the supervisor; ignore a closed pipe."""
    try:  # noqa: SIM105 - contextlib takes too long to import
        os.write(1, line.encode() + b"\n")
    except OSError:
        pass  # the supervisor has closed the pipe, or does not read it


def read_available(descriptor: int) -> bytes:
    """Return the available data; empty at the end of the stream."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def descendants(ancestor: int) -> dict[int, int]:
    """Return the parents of all live descendants by pid, parents first; empty without /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib takes too long to import
    except OSError:
        return {}
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, names)):
        parent = parent_of(pid)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    parents = [ancestor]
    for parent in parents:  # grows during the loop
        for pid in children.get(parent, ()):
            found[pid] = parent
            parents.append(pid)
    return found


def parent_of(pid: int) -> int | None:
    """Return the parent of a live process; None if the process is dead or a zombie."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The process name before that stands in parentheses and may contain anything.
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
        # A process whose first thread has ended while others run is shown as a zombie, and lives.
        is_dead = fields[_STATE] in (b"Z", b"X") and fields[_THREADS] in (b"0", b"1")
        return None if is_dead else int(fields[_PARENT])
    except (OSError, IndexError, ValueError):
        return None
    finally:
        os.close(descriptor)


class Guardian:
    """The guardian of one agent and all its descendants."""

    def __init__(self, agent: int, go: int, failure: int) -> None:
        self._agent = agent
        self._go = go
        # The pipe that reports a failed exec; None once its result is known.
        self._failure: int | None = failure
        self._child_signals = -1
        self._supervisor: int | None = None
        self._poll = select.poll()
        # Invariant: False until we have waited for the agent; until then no other process group
        # can have its pid.
        self._agent_is_reaped = False
        self._supervisor_is_gone = False
        # When killing started; None before.
        self._killing_since: float | None = None
        # True when the agent's group was killed, usually all that there is.
        self._group_is_killed = False
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._survivors_reported = False
        self._signals_reported = 0

    def watch(self, child_signals: int, supervisor: int | None) -> None:
        """Watch two more descriptors, for exits of children and for the exit of the supervisor."""
        self._child_signals, self._supervisor = child_signals, supervisor
        for descriptor in (0, self._failure, child_signals, supervisor):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Run until all processes have ended, or the survivors are given up."""
        report(f"agent {self._agent}")
        while True:
            if self._reap():
                report("gone")
                return
            if self._killing_since is not None and self._kill_round():
                return
            pause = None if self._killing_since is None else self._pause_seconds * 1000
            for descriptor, _ in self._poll.poll(pause):
                self._on_readable(descriptor)

    def kill(self) -> None:
        """Start to kill the agent and all descendants."""
        if self._killing_since is None:
            self._killing_since = time.monotonic()

    def on_supervisor_exit(self) -> None:
        """Kill everything, because the supervisor has died or closed its pipe."""
        if self._supervisor_is_gone:
            return
        self._supervisor_is_gone = True
        self.kill()
        for descriptor in (0, self._supervisor):
            if descriptor is not None:
                self._poll.unregister(descriptor)
        self._supervisor = None

    def _on_readable(self, descriptor: int) -> None:
        if descriptor == 0:
            self._handle_commands(read_available(0))
        elif descriptor == self._failure:
            self._report_exec_result()
        elif descriptor == self._child_signals:
            read_available(descriptor)
        elif descriptor == self._supervisor:
            self.on_supervisor_exit()

    def _report_exec_result(self) -> None:
        """Report whether the program was executed, which closes the agent's end of the pipe."""
        if self._failure is not None:
            self._poll.unregister(self._failure)
            failure = read_available(self._failure)
            report(f"failed {failure.decode()}" if failure else "running")
            self._failure = None

    def _handle_commands(self, commands: bytes) -> None:
        if not commands:
            self.on_supervisor_exit()
        for command in commands:
            if command == GO:
                self._release_agent()
            elif command == INTERRUPT:
                self._signal_group(signal.SIGINT, signal.SIGCONT)
            elif command == TERMINATE:
                self._signal_group(signal.SIGTERM, signal.SIGCONT)
            elif command == KILL:
                self.kill()

    def _release_agent(self) -> None:
        try:  # noqa: SIM105 - contextlib takes too long to import
            os.write(self._go, b"g")
        except OSError:
            pass  # it is dead, which SIGCHLD reports

    def _reap(self) -> bool:
        """Wait for all dead children; return True if no child is left."""
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if dead is None:
                return False
            if dead.si_pid == self._agent:
                self._report_exec_result()
                # Before the wait, because its pid, and so its group, may be reused afterwards.
                self._signal_group(signal.SIGKILL)
                self._agent_is_reaped = self._group_is_killed = True
                self.kill()
            _, status = os.waitpid(dead.si_pid, 0)
            if dead.si_pid == self._agent:
                report(f"exited {os.waitstatus_to_exitcode(status)}")

    # Killing ---------------------------------------------------------------------------

    def _kill_round(self) -> bool:
        """Kill all current descendants; return True if the survivors are given up.

        A process forked meanwhile is found in the next round. A signal to a group reaches all of it
        at once, so no process is forked in the agent's group after that. The first round kills only
        the group: usually no process is left then, and to find others all of /proc is read.
        """
        assert self._killing_since is not None
        self._signal_group(signal.SIGKILL)
        if not self._group_is_killed:
            self._group_is_killed = True
            return False
        living = self._kill_descendants()
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        if time.monotonic() < self._killing_since + KILL_SECONDS:
            return False
        if living and not self._survivors_reported:
            self._survivors_reported = True
            report("left " + " ".join(map(str, living[:MAX_SURVIVORS_REPORTED])))
        return self._supervisor_is_gone

    def _kill_descendants(self) -> list[int]:
        """Kill all descendants, parents first; return their pids."""
        us = os.getpid()
        parents = descendants(us)
        contained = {us, *parents}
        signalled: list[int] = []
        for pid, parent in parents.items():
            try:
                if parent == us:
                    os.kill(
                        pid, signal.SIGKILL
                    )  # only we can wait for it, so its pid is not reused
                else:
                    kill_descendant(pid, contained)
                signalled.append(pid)
            except (OSError, AttributeError):
                pass  # it died meanwhile, or we may not signal it and it survives
        self._report_signals(signal.SIGKILL, signalled)
        return list(parents)

    def _signal_group(self, *numbers: int) -> None:
        if self._agent_is_reaped:
            return
        for number in numbers:
            try:
                os.killpg(self._agent, number)
                self._report_signals(number, [-self._agent])
            except OSError:
                pass  # its group does not exist yet, or we may not signal it

    def _report_signals(self, number: int, pids: list[int]) -> None:
        pids = pids[: MAX_SIGNALS_REPORTED - self._signals_reported]
        self._signals_reported += len(pids)
        if pids:
            report(f"signal {number:d} {' '.join(map(str, pids))}")


def kill_descendant(pid: int, contained: set[int]) -> None:
    """Kill a process through a handle; raise `ProcessLookupError` if its parent is not contained.

    The parent is checked after the handle was opened, so a reused pid is never signalled. Without
    handles this raises `AttributeError` or `OSError`: the process is killed once its parent is dead
    and it has become our child.
    """
    handle = os.pidfd_open(pid)
    try:
        if parent_of(pid) not in contained:
            raise ProcessLookupError
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
