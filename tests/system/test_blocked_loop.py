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
import trio, supervisor

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
                    print(item.kind, item.body.get("seconds", ""), flush=True)
                if getattr(item, "kind", "") in ("stalled", "turn_ended"):
                    break

trio.run(main)
"""


class Program:
    """A real process, and the lines that it prints, with the instant of each."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def line(self, within_seconds: float) -> tuple[str, float]:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], within_seconds)
        assert ready, f"nothing was printed for {within_seconds} s"
        return self.process.stdout.readline().decode().strip(), time.monotonic()

    def until(self, kind: str, within_seconds: float = 15.0) -> tuple[str, float]:
        """The line that begins so, and when it came."""
        while True:
            text, at = self.line(within_seconds)
            assert text, f"it ended before it said {kind}"
            if text.split()[0] == kind:
                return text, at

    def stand_still(self, seconds: float) -> float:
        """Stop it for so long; the instant at which it goes on."""
        os.kill(self.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.process.pid, signal.SIGCONT)
        return time.monotonic()


@contextlib.contextmanager
def running(deed: str) -> Iterator[Program]:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", PROGRAM.format(deed=deed)],
        stdout=subprocess.PIPE,
        bufsize=0,  # or select() would not see what was read ahead
    ) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def test_nobody_is_stalled_by_standing_still_and_whoever_is_stalled_then_is() -> None:
    with running("await trio.sleep_forever()") as program:
        program.until("turn_started")
        went_on = program.stand_still(STOPPED_SECONDS)
        text, at = program.until("stalled")

    assert at - went_on >= LIMIT_SECONDS - 0.1
    assert at - went_on <= LIMIT_SECONDS + 2.0
    assert LIMIT_SECONDS <= float(text.split()[1]) < STOPPED_SECONDS


def test_a_turn_that_goes_on_after_standing_still_is_never_called_stalled() -> None:
    # In steps, so that there is something left to do when it goes on, and nothing to be heard.
    deed = "for _ in range(12): await trio.sleep(0.1)"
    with running(deed) as program:
        program.until("turn_started")
        program.stand_still(STOPPED_SECONDS)
        kinds = [""]
        while kinds[-1] not in ("turn_ended", "stalled"):
            kinds.append(program.line(15.0)[0].split()[0])

    assert kinds[-1] == "turn_ended"
