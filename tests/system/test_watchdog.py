"""An agent that never lets go of the loop, noticed in real time from a real thread.

The bounds are small, and whatever is to be noticed lasts until it was.
"""

import subprocess
import sys
import textwrap

import pytest

PREAMBLE = """
import logging, threading, time
import trio
import supervisor
from supervisor.drivers.watchdog import watch_event_loop

class Printed(logging.Handler):
    def emit(self, record):
        text = self.format(record)
        print(text, flush=True)
        seen.append(text)  # last: the waiting thread prints then

seen = []
logger = logging.getLogger("supervisor")
logger.addHandler(Printed())
logger.propagate = False

def block_until_noticed(times=1):
    deadline = time.monotonic() + 30.0
    while len(seen) < times and time.monotonic() < deadline:
        time.sleep(0.001)

@supervisor.agent("greedy")
async def greedy(turn):
    block_until_noticed()

class Greedy:
    async def __call__(self, turn):
        block_until_noticed()

def watched(agents=(), stuck_after_seconds=0.2):
    return watch_event_loop(
        agents, poll_seconds=0.01, stuck_after_seconds=stuck_after_seconds
    )

def watchdogs():
    return [thread for thread in threading.enumerate() if "watchdog" in thread.name]

async def main():
"""


def run(body: str) -> str:
    """What a program prints whose `main` has this body."""
    program = f"{PREAMBLE}{textwrap.indent(textwrap.dedent(body), '    ')}\ntrio.run(main)\n"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_an_agent_that_never_yields_is_logged_with_its_stack() -> None:
    printed = run("""
        with watched([greedy]):
            await greedy.function(None)
            print("and then it yielded", flush=True)
    """)

    noticed, _, after = printed.partition("and then it yielded")
    assert "agent greedy" in noticed
    assert "in block_until_noticed" in noticed
    assert noticed.index("in main") < noticed.index("in greedy") < noticed.index("in block_until")
    assert after.strip() == ""


def test_a_callable_object_is_named_as_agent() -> None:
    printed = run("""
        agent = supervisor.PythonAgent("an-object", Greedy())
        with watched([agent]):
            await agent.function(None)
    """)

    assert "agent an-object" in printed


def test_a_blockage_outside_agents_names_no_agent() -> None:
    printed = run("""
        with watched([greedy]):
            block_until_noticed()
    """)

    assert "outside of agents" in printed
    assert "greedy" not in printed


def test_each_blockage_is_logged_once() -> None:
    printed = run("""
        with watched():
            block_until_noticed()
            time.sleep(0.6)
            print("logged:", len(seen))
            await trio.sleep(0.1)
            before = len(seen)
            block_until_noticed(times=before + 1)
            print("again:", len(seen) - before)
    """)

    assert "logged: 1\n" in printed
    assert "again: 1\n" in printed


def test_a_healthy_loop_logs_nothing() -> None:
    printed = run("""
        with watched(stuck_after_seconds=3.0):  # a loaded machine is late by less
            for _ in range(330):
                await trio.sleep(0.01)
        print(seen)
    """)

    assert printed.strip() == "[]"


def test_the_thread_ends_with_the_block() -> None:
    printed = run("""
        with watched():
            (thread,) = watchdogs()
        thread.join(timeout=30.0)
        print(thread.is_alive(), watchdogs())
    """)

    assert printed.strip() == "False []"


@pytest.mark.parametrize("sleep_seconds", [0.0, 0.5])
def test_the_thread_ends_with_a_block_that_raises(sleep_seconds: float) -> None:
    printed = run(f"""
        try:
            with watched():
                (thread,) = watchdogs()
                time.sleep({sleep_seconds})
                raise ValueError
        except ValueError:
            thread.join(timeout=30.0)
        print("alive:", thread.is_alive())
    """)

    assert printed.strip().endswith("alive: False")


def test_there_is_no_watchdog_thread_under_a_virtual_clock() -> None:
    program = """
        with watched():
            print(watchdogs())
    """
    body = textwrap.indent(textwrap.dedent(program), "    ")
    simulated = f"{PREAMBLE}{body}\nfrom actors.testing import VirtualClock\n"
    simulated += "trio.run(main, clock=VirtualClock())\n"

    printed = subprocess.run(
        [sys.executable, "-c", simulated], capture_output=True, text=True, timeout=60, check=True
    ).stdout

    assert printed.strip() == "[]"


def test_a_supervisor_watches_over_its_agents_and_leaves_no_thread() -> None:
    printed = run("""
        async with supervisor.open(":memory:", agents=[greedy]) as sup:
            (thread,) = watchdogs()
            session = await sup.create("echo")
            await session.prompt("hello")
        thread.join(timeout=30.0)
        print("alive:", thread.is_alive())
    """)

    assert printed.strip() == "alive: False"
