"""The screens `top` and `attach`: what they cost, and how late they are.

Both are the real command in a pseudo-terminal of 140 columns and 40 lines, which the benchmark
reads. Their daemon is a process with a home of its own and 1,000 sessions; 50 of them say ten
words a second as long as anything is measured. `top` selects one of these by itself, and shows its
transcript beside the list.

- CPU: user and system time of the process in windows of ten seconds, the median, as a share of a
  core. It begins when the screen is complete, and depends little on other load;
- lag of `top`: from before an input is sent that makes an agent ask for permission, to the number
  of waiting sessions in the first line of the screen. Between the two the daemon collects changes
  for a quarter of a second, and so does `top`;
- lag of `attach`: from the moment at which the agent says a word, which is in the word, to its
  bytes in the terminal.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import termios
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.bench._metronome import BEAT_SECONDS
from tests.bench._row import Row, Sample, at_most
from tests.bench.cli import COMMAND, unless_the_command_is_installed
from tests.bench.http import Line, ask_all, lines, request
from tests.support.daemon_in_process import Home, temporary_home
from tests.support.daemon_process import daemon

COLUMNS: Final = 140
ROWS_OF_TERMINAL: Final = 40
PATIENCE_SECONDS: Final = 60.0
SESSIONS: Final = 1_000
BUSY: Final = 50
# For longer than any sample takes.
WORDS: Final = 6_000
SETTLE_SECONDS: Final = 5.0
WINDOWS: Final = 3
WINDOW_SECONDS: Final = 10.0
ASKS: Final = 100
TURNS: Final = 20
WORDS_OF_A_TURN: Final = 5
PAUSE_SECONDS: Final = 0.4
CPU_SHARE: Final = 0.15
ATTACH_SECONDS: Final = 0.100
TICK_SECONDS: Final = 0.25
GOLDEN_RATIO: Final = 0.618
CONFIGURATION: Final = """
[agents.metronome]
function = "tests.bench._metronome:metronome"
"""
WORD: Final = re.compile(rb"t([0-9]+)\.")


# The terminal -------------------------------------------------------------------------------


class Terminal:
    """A command in a pseudo-terminal; keeps all that it writes, and when that came."""

    def __init__(self, command: Sequence[str], environ: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        size = struct.pack("HHHH", ROWS_OF_TERMINAL, COLUMNS, 0, 0)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        self.process = subprocess.Popen(
            command, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.output = bytearray()
        # Of each piece that was read: where it ends, and when it came.
        self._ends: list[int] = []
        self._came_at_ns: list[int] = []
        self._more = threading.Condition()
        self._is_open = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while self._is_open:
            if not select.select([self.master], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(self.master, 1 << 16)
            except OSError:  # the command has ended
                return
            now = time.monotonic_ns()
            with self._more:
                self.output += piece
                self._ends.append(len(self.output))
                self._came_at_ns.append(now)
                self._more.notify_all()

    def wait_for(self, text: bytes, *, start: int = 0) -> int:
        """Return when the text had come whole, in nanoseconds of the monotonic clock."""

        def find() -> bool:
            return self.output.find(text, start) >= 0

        with self._more:
            assert self._more.wait_for(find, PATIENCE_SECONDS), (text, bytes(self.output[-4000:]))
            return self.came_at_ns(self.output.find(text, start) + len(text))

    def came_at_ns(self, end: int) -> int:
        """Return when the output up to this place had come."""
        return self._came_at_ns[bisect_left(self._ends, end)]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_SECONDS)
        self._is_open = False
        self._reader.join()
        os.close(self.master)


@contextmanager
def terminal(home: Home, *words: str) -> Iterator[Terminal]:
    environ = {**home.environ, "PATH": os.environ["PATH"]}
    environ |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    opened = Terminal([str(COMMAND), *words], environ)
    try:
        yield opened
    finally:
        opened.close()


# The daemon ---------------------------------------------------------------------------------


def make_sessions(asked: Sequence[Line], agent: str, count: int) -> list[str]:
    made = ask_all(asked, [request("/v1/sessions", {"agent": agent})] * count)
    return [json.loads(one)["id"] for one in made]


def say(line: Line, session: str, text: str) -> None:
    line.ask(request(f"/v1/sessions/{session}/inputs", {"text": text}))


@contextmanager
def busy_daemon(*, scripted: int = 0) -> Iterator[tuple[Home, Line, list[str]]]:
    """Yield a daemon's home, a connection and the sessions of the agent that waits for scripts."""
    with ExitStack() as stack:
        home = stack.enter_context(temporary_home(CONFIGURATION))
        stack.enter_context(daemon(home))
        asked = stack.enter_context(lines(Path(home.socket), 8))
        idle = make_sessions(asked, "scripted", scripted)
        for session in make_sessions(asked, "metronome", SESSIONS - scripted)[:BUSY]:
            say(asked[0], session, str(WORDS))
        yield home, asked[0], idle


@contextmanager
def settled_top(home: Home) -> Iterator[Terminal]:
    """Yield `top` when its screen is complete."""
    with terminal(home, "top") as screen:
        screen.wait_for(b"%d running" % BUSY)
        time.sleep(SETTLE_SECONDS)
        yield screen


# What is measured ---------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """Return the user and system time that a process has used, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_of_a_core(pid: int) -> float:
    begun, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(WINDOW_SECONDS)
    return (cpu_seconds(pid) - used) / (time.monotonic() - begun)


def cpu_share_of_top() -> float:
    with busy_daemon() as (home, _, _), settled_top(home) as screen:
        return statistics.median(share_of_a_core(screen.process.pid) for _ in range(WINDOWS))


def seconds_until_top_shows_it() -> list[float]:
    with busy_daemon(scripted=ASKS) as (home, line, idle), settled_top(home) as screen:
        took = []
        for number, session in enumerate(idle, start=1):
            # At another moment of the tick each time, evenly spread.
            time.sleep(number * GOLDEN_RATIO % 1 * TICK_SECONDS)
            start, begun = len(screen.output), time.monotonic_ns()
            say(line, session, "ask rm")
            took.append((screen.wait_for(b"%d waiting" % number, start=start) - begun) / 1e9)
        return took


def seconds_until_attach_shows_it() -> list[float]:
    with busy_daemon() as (home, line, _):
        (session,) = make_sessions([line], "metronome", 1)
        with terminal(home, "attach", session) as screen:
            screen.wait_for(b"Ctrl-D leave")
            time.sleep(SETTLE_SECONDS)
            for _ in range(TURNS):
                say(line, session, str(WORDS_OF_A_TURN))
                time.sleep(WORDS_OF_A_TURN * BEAT_SECONDS + PAUSE_SECONDS)
            came: dict[int, int] = {}
            for found in WORD.finditer(bytes(screen.output)):
                came.setdefault(int(found[1]), screen.came_at_ns(found.end()))
        assert len(came) == TURNS * WORDS_OF_A_TURN, len(came)
        return [(at - said) / 1e9 for said, at in came.items()]


def p50(measured: Callable[[], list[float]]) -> Sample:
    return lambda: statistics.median(measured())


def p99(measured: Callable[[], list[float]]) -> Sample:
    return lambda: statistics.quantiles(measured(), n=100, method="inclusive")[-1]


ROWS = (
    Row(
        name="CPU of top among 1,000 sessions with 50 busy",
        against="15 % of a core",
        ours=cpu_share_of_top,
        peer=lambda: CPU_SHARE,
        unit="cores",
        reach=at_most(1),
        obstacle=unless_the_command_is_installed,
        max_pairs=3,
    ),
    *(
        Row(
            name=f"a request for permission to its number in top, {name}",
            against="250 ms, its tick",
            ours=figure(seconds_until_top_shows_it),
            peer=lambda: TICK_SECONDS,
            unit="s",
            obstacle=unless_the_command_is_installed,
            max_pairs=3,
        )
        for name, figure in (("p50", p50), ("p99", p99))
    ),
    *(
        Row(
            name=f"a word of an agent to its bytes in attach, {name}",
            against="100 ms",
            ours=figure(seconds_until_attach_shows_it),
            peer=lambda: ATTACH_SECONDS,
            unit="s",
            reach=at_most(1),
            obstacle=unless_the_command_is_installed,
            max_pairs=5,
        )
        for name, figure in (("p50", p50), ("p99", p99))
    ),
)
