"""Stands between us and one agent, and outlives us just long enough to leave nothing of it.

`process.contained` runs this file as a program of its own; nobody imports it.

Rule 1: one thread, the standard library, and of that only what the interpreter has loaded anyway or
        loads at once: every agent pays for this process.
Rule 2: it is the subreaper of everything the agent starts, so whoever leaves the agent's group or
        session, or outlives its parent, is still below it. Who has no child has no descendant.
Rule 3: a number is signalled only while it cannot have become somebody else's: our own children
        until we have waited for them, the agent's group until we have waited for the agent, and
        those further down through a handle.
Rule 4: nothing that it says may hold it up, and nobody that it waits for may keep it for ever.

It gets orders on its standard input: the launch first (see `read_launch`), then single letters. When
that input ends, or its parent is dead, everything is killed. What happens it says on its standard
output, one line each:

    agent PID           it is there, and waits to be let go
    running             it runs; or: failed ERRNO cwd|program|interpreter, it cannot
    exited CODE         how the agent ended; below zero, by which signal
    signal NUMBER PID ...  what was sent to whom; to a group if the PID is below zero
    left PID ...        who has not died for a while
    gone                nothing is left
"""

import os
import select
import sys
import time

# What these two wrap would cost as much again as the bare interpreter: 10 of 21 ms, measured.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

GO, INTERRUPT, TERMINATE, KILL = b"gitk"
PR_SET_CHILD_SUBREAPER = 36
# Who has not died after so long is named; an orphaned guardian then leaves.
KILL_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.1
# All that it ever says fits into the smallest pipe there is, of one page, if nobody reads it.
MAX_SIGNALS_SAID = 250
MAX_LEFT_SAID = 100
CANNOT_EXECUTE = 127
# Where these stand in /proc/PID/stat, behind the name.
_STATE, _PARENT, _THREADS = 0, 1, 17


def main() -> None:
    """Guard one agent, to its end or ours."""
    parent, *streams = map(int, sys.argv[1:5])
    os.set_blocking(1, False)
    alarm = keep_calm()
    become_subreaper()
    supervisor = open_handle(parent)
    launch = read_launch()
    gate, go = os.pipe()
    failure, failed = os.pipe()
    agent = os.fork()
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

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")
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


# The agent -------------------------------------------------------------------------------


class Launch:
    """What is to run."""

    def __init__(self, fields: list[bytes]) -> None:
        words = int(fields[1])
        self.cwd = fields[0]
        self.command = fields[2 : 2 + words]
        pairs = (entry.split(b"=", 1) for entry in fields[2 + words :])
        self.environment = {name: value for name, value in pairs}


def read_launch() -> Launch:
    """The first order: how many bytes, a newline; then the folder, how many words, words, entries.

    They stand between NULs. Leaves if the input ends before that.
    """
    head = b""
    while not head.endswith(b"\n"):
        head += read_or_leave(1)
    body = b""
    while len(body) < int(head):
        body += read_or_leave(int(head) - len(body))
    return Launch(body.split(b"\0"))


def read_or_leave(count: int) -> bytes:
    data = os.read(0, count)
    if not data:
        os._exit(0)
    return data


def become_agent(launch: Launch, streams: list[int], gate: int, failed: int) -> None:
    """In the child: a session of its own, three descriptors, and nothing else; then wait, and run.

    Every other descriptor is one that does not survive the execution of a program. If nobody opens
    the gate, because the guardian is dead, it is never executed.
    """
    try:
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for descriptor in streams:
            os.close(descriptor)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if os.read(gate, 1):
            execute(launch, failed)
    finally:
        os._exit(CANNOT_EXECUTE)


def execute(launch: Launch, failed: int) -> None:
    """Become the program; returns only if that cannot be, and has then said why."""
    what = b"cwd"
    try:
        os.chdir(launch.cwd)
        what = b"program"
        for candidate in candidates(launch):
            if os.path.exists(candidate):
                what = b"interpreter"  # a file that is there and is not found lacks that
            try:
                os.execve(candidate, launch.command, launch.environment)
            except (FileNotFoundError, NotADirectoryError):
                if what == b"interpreter":
                    raise
            except OSError:
                what = b"program"
                raise
        os.write(failed, b"2 program")
    except OSError as error:
        os.write(failed, b"%d %s" % (error.errno or 0, what))


def candidates(launch: Launch) -> list[bytes]:
    """Where the program may be: as given, or in the folders of the agent's own PATH."""
    program = launch.command[0]
    if b"/" in program:
        return [program]
    folders = launch.environment.get(b"PATH", os.defpath.encode()).split(b":")
    return [os.path.join(folder or b".", program) for folder in folders]


# The guard -------------------------------------------------------------------------------


class Guardian:
    """The agent, and everyone below it, as long as any of them lives."""

    def __init__(self, agent: int, go: int, failure: int) -> None:
        self._agent = agent
        self._go = go
        # None when it is known whether the agent's program runs.
        self._failure: int | None = failure
        self._alarm = -1
        self._supervisor: int | None = None
        self._poll = select.poll()
        # Invariant: false exactly until we have waited for the agent; its group is its own till then.
        self._agent_is_over = False
        self._supervisor_is_gone = False
        # Since when all are being killed; None while they may live.
        self._killing_since: float | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._left_was_said = False
        self._signals_said = 0

    def watch(self, alarm: int, supervisor: int | None) -> None:
        """Have these looked at too: the deaths of children, and of our parent."""
        self._alarm, self._supervisor = alarm, supervisor
        for descriptor in (0, self._failure, alarm, supervisor):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Return when nothing is left, or nothing more can be done."""
        self._say(f"agent {self._agent}")
        while True:
            if self._reap():
                self._say("gone")
                return
            if self._killing_since is not None and self._kill_round():
                return
            pause = None if self._killing_since is None else self._pause_seconds * 1000
            for descriptor, _ in self._poll.poll(pause):
                self._hear(descriptor)

    def kill(self) -> None:
        """Begin to kill everyone."""
        if self._killing_since is None:
            self._killing_since = time.monotonic()

    def lose_supervisor(self) -> None:
        """Nobody is there any more who could give orders."""
        self._supervisor_is_gone = True
        self.kill()
        for descriptor in (0, self._supervisor):
            if descriptor is not None:
                self._poll.unregister(descriptor)
        self._supervisor = None

    def _hear(self, descriptor: int) -> None:
        if descriptor == 0:
            self._obey(self._read(0))
        elif descriptor == self._failure:
            self._hear_whether_it_runs()
        elif descriptor == self._alarm:
            self._read(descriptor)
        elif descriptor == self._supervisor:
            self.lose_supervisor()

    def _hear_whether_it_runs(self) -> None:
        """Its end of the pipe closes by itself when the program is executed."""
        if self._failure is not None:
            self._poll.unregister(self._failure)
            failure = self._read(self._failure)
            self._say(f"failed {failure.decode()}" if failure else "running")
            self._failure = None

    def _obey(self, orders: bytes) -> None:
        if not orders:
            self.lose_supervisor()
        for order in orders:
            if order == GO:
                self._let_go()
            elif order == INTERRUPT:
                self._signal_group(signal.SIGINT, signal.SIGCONT)
            elif order == TERMINATE:
                self._signal_group(signal.SIGTERM, signal.SIGCONT)
            elif order == KILL:
                self.kill()

    def _let_go(self) -> None:
        try:
            os.write(self._go, b"g")
        except OSError:
            pass  # it is dead, and that will be heard of

    def _reap(self) -> bool:
        """Wait for all who are dead; True if there is nobody left to wait for."""
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if dead is None:
                return False
            if dead.si_pid == self._agent:
                self._hear_whether_it_runs()
                # While it is not waited for its number is its own, and its group's.
                self._signal_group(signal.SIGKILL)
                self._agent_is_over = True
                self.kill()
            _, status = os.waitpid(dead.si_pid, 0)
            if dead.si_pid == self._agent:
                self._say(f"exited {os.waitstatus_to_exitcode(status)}")

    # Killing ---------------------------------------------------------------------------

    def _kill_round(self) -> bool:
        """Kill everyone who is there now; True if those who are left are given up.

        Whoever is born meanwhile is there in the next round. A whole group dies at once, so nobody
        in the agent's is born after that.
        """
        assert self._killing_since is not None
        self._signal_group(signal.SIGKILL)
        living = self._kill_descendants()
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        if time.monotonic() < self._killing_since + KILL_SECONDS:
            return False
        if living and not self._left_was_said:
            self._left_was_said = True
            self._say("left " + " ".join(map(str, living[:MAX_LEFT_SAID])))
        return self._supervisor_is_gone

    def _kill_descendants(self) -> list[int]:
        """Signal everyone below us, from the top; gives who that is."""
        below = descendants(os.getpid())
        signalled: list[int] = []
        for pid, parent in below.items():
            try:
                if parent == os.getpid():
                    os.kill(pid, signal.SIGKILL)  # nobody but us can wait for it
                else:
                    self._kill_further_down(pid, below)
                signalled.append(pid)
            except OSError:
                pass  # dead meanwhile; or not ours to kill, and then it is left
        self._note(signal.SIGKILL, signalled)
        return list(below)

    @staticmethod
    def _kill_further_down(pid: int, below: dict[int, int]) -> None:
        """Through a handle, which holds whoever bears the pid now: looked at again, it is he.

        Where there are no handles it has to wait until it is our child, when its parent is dead.
        """
        handle = os.pidfd_open(pid)
        try:
            if parent_of(pid) not in (*below, os.getpid()):
                raise ProcessLookupError
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)

    def _signal_group(self, *numbers: int) -> None:
        if self._agent_is_over:
            return
        for number in numbers:
            try:
                os.killpg(self._agent, number)
                self._note(number, [-self._agent])
            except OSError:
                pass  # it has not made its group yet, or may not be signalled

    # Talking ---------------------------------------------------------------------------

    def _note(self, number: int, pids: list[int]) -> None:
        pids = pids[: MAX_SIGNALS_SAID - self._signals_said]
        self._signals_said += len(pids)
        if pids:
            self._say(f"signal {number:d} {' '.join(map(str, pids))}")

    @staticmethod
    def _say(line: str) -> None:
        try:
            os.write(1, line.encode() + b"\n")
        except OSError:
            pass  # nobody listens any more

    @staticmethod
    def _read(descriptor: int) -> bytes:
        try:
            return os.read(descriptor, 4096)
        except OSError:
            return b""


def descendants(ancestor: int) -> dict[int, int]:
    """Who lives below it, and under which parent, from the top; nobody where there is no /proc."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    children: dict[int, list[int]] = {}
    for pid in numbers:
        seen = parent_of(pid)
        if seen is not None:
            children.setdefault(seen, []).append(pid)
    found: dict[int, int] = {}
    above = [ancestor]
    for parent in above:  # it grows while we go through it
        for pid in children.get(parent, ()):
            found[pid] = parent
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


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)
