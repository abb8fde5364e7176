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

SESSIONS = """
import trio, trio.testing, supervisor

@supervisor.agent("busy")
async def busy(turn):
    await trio.sleep_forever()

async def main():
    settings = supervisor.Settings(exit_seconds=3600.0)
    async with supervisor.open(agents=[busy], settings=settings) as sup:
        session = await sup.create("busy")
        await session.send("keep busy")
        trio.lowlevel.spawn_system_task(say_when_all_wait)

async def say_when_all_wait():
    await trio.testing.wait_all_tasks_blocked()
    print("leaving", flush=True)

try:
    trio.run(main)
except BaseException as error:
    print(type(error).__name__)
"""


def test_ctrl_c_in_the_block_itself_does_not_wait() -> None:
    """The same program, struck an instant earlier: before it has begun to leave."""
    struck = PROGRAM.replace('print("leaving", flush=True)', "raise KeyboardInterrupt")

    program = subprocess.run(
        [sys.executable, "-c", struck], capture_output=True, text=True, timeout=30, check=False
    )

    assert "KeyboardInterrupt" in program.stderr


def test_one_ctrl_c_ends_the_wait_for_stopping_actors() -> None:
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


def test_ctrl_c_is_raised_bare_while_sessions_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SESSIONS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "leaving\n"
        program.send_signal(signal.SIGINT)
        try:
            said, errors = program.communicate(timeout=30)
        finally:
            program.kill()

    assert said == "KeyboardInterrupt\n", errors
