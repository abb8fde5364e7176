"""Ctrl-C, as a person presses it: a real signal to a real process."""

import signal
import subprocess
import sys

PROGRAM = """
import trio, trio.testing, actors

class Stubborn(actors.Actor):
    async def receive(self, message):
        await trio.sleep_forever()

async def main():
    async with actors.open_actors() as system:
        ref = await system.start(Stubborn, shutdown_seconds=3600.0)
        ref.tell("keep busy")
        await trio.testing.wait_all_tasks_blocked()
        print("leaving", flush=True)

trio.run(main)
"""


def test_ctrl_c_that_strikes_in_the_block_itself_waits_for_nobody() -> None:
    """The same program, struck an instant earlier: before it has begun to leave."""
    struck = PROGRAM.replace('print("leaving", flush=True)', "raise KeyboardInterrupt")

    program = subprocess.run(
        [sys.executable, "-c", struck], capture_output=True, text=True, timeout=30, check=False
    )

    assert "KeyboardInterrupt" in program.stderr


def test_one_ctrl_c_is_enough_while_a_program_waits_for_its_actors_to_stop() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "leaving\n"
        program.send_signal(signal.SIGINT)
        try:
            _, errors = program.communicate(timeout=30)
        finally:
            program.kill()

    assert "KeyboardInterrupt" in errors
