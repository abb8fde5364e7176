"""A supervisor stopped by a signal and continued: no session is reported as stalled for it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from supervisor.sessions.clock import GAP_SECONDS

# Longer than what counts as standing still, and far longer than anyone may be silent.
STOPPED_SECONDS = GAP_SECONDS + 3.0
LIMIT_SECONDS = 2.0

PROGRAM = """
import sys, time, trio, supervisor

@supervisor.agent("silent")
async def silent(turn):
    {deed}

async def main():
    settings = supervisor.Settings(
        quiet_after_seconds=1.0,
        stalled_after_seconds=2.0,
        tool_stalled_after_seconds=2.0,
        exit_seconds=0.1,
        on_stall="interrupt",
    )
    async with supervisor.open(agents=[silent], settings=settings) as sup:
        session = await sup.create("silent")
        async with session.watch() as feed:
            await session.send("go")
            async for item in feed:
                if isinstance(item, supervisor.Record):
                    print(item.kind, time.monotonic(), item.body.get("seconds", ""), flush=True)
                if getattr(item, "kind", "") in ("stalled", "turn_ended"):
                    break

trio.run(main)
"""


class Program:
    """A real process, and the lines that it prints, with the instant of each."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self, within_seconds: float) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], within_seconds)
        assert ready, f"nothing was printed for {within_seconds} s"
        return self.process.stdout.readline().decode().strip()

    def until(self, kind: str, within_seconds: float = 30.0) -> list[float]:
        """Wait for a record of this kind; return when it was printed and its `seconds`, if any."""
        while True:
            text = self.line(within_seconds)
            assert text, f"it ended before it said {kind}"
            if text.split()[0] == kind:
                return [float(word) for word in text.split()[1:]]

    def write_line(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    def stand_still(self, seconds: float) -> tuple[float, float]:
        """Stop the process for this time; return when it was stopped and continued."""
        os.kill(self.process.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        time.sleep(seconds)
        os.kill(self.process.pid, signal.SIGCONT)
        return stopped_at, time.monotonic()


@contextlib.contextmanager
def running(deed: str) -> Iterator[Program]:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", PROGRAM.format(deed=deed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # or select() would not see what was read ahead
    ) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def test_time_stopped_by_a_signal_does_not_count_as_silence() -> None:
    with running("await trio.sleep_forever()") as program:
        (started_at,) = program.until("turn_started")
        stopped_at, continued_at = program.stand_still(STOPPED_SECONDS)
        stalled_at, silent_seconds = program.until("stalled")

    # Silence before the stop counts, the stop does not. A loaded machine prints a line late.
    active_seconds = (stopped_at - started_at) + (stalled_at - continued_at)
    assert LIMIT_SECONDS - 0.5 <= active_seconds <= LIMIT_SECONDS + 10.0
    assert LIMIT_SECONDS <= silent_seconds < STOPPED_SECONDS


def test_a_turn_that_continues_after_a_stop_is_not_stalled() -> None:
    # After the stop the turn runs for a while, silently: a stall would be reported meanwhile.
    deed = "await trio.to_thread.run_sync(sys.stdin.readline); await trio.sleep(0.5)"
    with running(deed) as program:
        program.until("turn_started")
        program.stand_still(STOPPED_SECONDS)
        program.write_line()
        kinds = [""]
        while kinds[-1] not in ("turn_ended", "stalled"):
            kinds.append(program.line(30.0).split()[0])

    assert kinds[-1] == "turn_ended"
