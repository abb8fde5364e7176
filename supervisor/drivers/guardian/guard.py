"""The guard itself: hear orders and deaths, and kill everyone when it is time."""

import os
import select
import time

from .below import descendants, parent_of
from .talk import read, say

# What this wraps would cost six milliseconds more.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

GO, INTERRUPT, TERMINATE, KILL = b"gitk"
# Who has not died after so long is named; an orphaned guardian then leaves.
KILL_SECONDS = 2.0
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.1
# All that it ever says fits into the smallest pipe there is, of one page, if nobody reads it.
MAX_SIGNALS_SAID = 250
MAX_LEFT_SAID = 100


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
        # Invariant: false until we have waited for the agent; so long its number is its group's.
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
        say(f"agent {self._agent}")
        while True:
            if self._reap():
                say("gone")
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
        if self._supervisor_is_gone:
            return
        self._supervisor_is_gone = True
        self.kill()
        for descriptor in (0, self._supervisor):
            if descriptor is not None:
                self._poll.unregister(descriptor)
        self._supervisor = None

    def _hear(self, descriptor: int) -> None:
        if descriptor == 0:
            self._obey(read(0))
        elif descriptor == self._failure:
            self._hear_whether_it_runs()
        elif descriptor == self._alarm:
            read(descriptor)
        elif descriptor == self._supervisor:
            self.lose_supervisor()

    def _hear_whether_it_runs(self) -> None:
        """Its end of the pipe closes by itself when the program is executed."""
        if self._failure is not None:
            self._poll.unregister(self._failure)
            failure = read(self._failure)
            say(f"failed {failure.decode()}" if failure else "running")
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
        try:  # noqa: SIM105 - contextlib is too much
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
                say(f"exited {os.waitstatus_to_exitcode(status)}")

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
            say("left " + " ".join(map(str, living[:MAX_LEFT_SAID])))
        return self._supervisor_is_gone

    def _kill_descendants(self) -> list[int]:
        """Signal everyone below us, from the top; gives who that is."""
        us = os.getpid()
        below = descendants(us)
        family = {us, *below}
        signalled: list[int] = []
        for pid, parent in below.items():
            try:
                if parent == us:
                    os.kill(pid, signal.SIGKILL)  # nobody but us can wait for it
                else:
                    kill_further_down(pid, family)
                signalled.append(pid)
            except (OSError, AttributeError):
                pass  # dead meanwhile; or not ours to kill, and then it is left
        self._note(signal.SIGKILL, signalled)
        return list(below)

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
            say(f"signal {number:d} {' '.join(map(str, pids))}")


def kill_further_down(pid: int, family: set[int]) -> None:
    """Through a handle, which holds whoever bears the pid now: looked at again, it is he.

    Where there are none it has to wait until it is our child, because its parent is dead.
    """
    handle = os.pidfd_open(pid)
    try:
        if parent_of(pid) not in family:
            raise ProcessLookupError
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
