"""The command line: how long a person waits for the list of commands, and for an answer.

All are whole processes, from the start to the exit: `understudy` as it was installed beside the
interpreter that runs this, and that interpreter with nothing to do. One sample is the median of
several, for a process that starts meets whatever else the machine does. What is asked, a daemon
answers that has nothing else to do, so that what is measured is the way there.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench._row import Row, at_most

STARTS = 15
COMMAND = Path(sys.executable).with_name("understudy")


def seconds_of(*command: str, environ: Mapping[str, str] | None = None) -> float:
    def once() -> float:
        begun = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
        )
        return time.perf_counter() - begun

    once()
    return statistics.median(once() for _ in range(STARTS))


@contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """One that listens, in a home of its own; gives the environment of who finds it there."""
    with tempfile.TemporaryDirectory(prefix="us-") as home:
        others = {name: word for name, word in os.environ.items() if not name.startswith("XDG_")}
        environ = {**others, "HOME": home, "XDG_RUNTIME_DIR": home}
        with subprocess.Popen(
            [str(COMMAND), "serve"], env=environ, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            next(line for line in process.stderr if "listening on" in line)
            yield environ
            process.terminate()


def seconds_to_ask(*words: str) -> float:
    """Return how long a command takes that asks a daemon, which has one session, `one`."""
    with daemon() as environ:
        new = [str(COMMAND), "new", "echo", "--name", "one"]
        subprocess.run(new, check=True, capture_output=True, env=environ)
        return seconds_of(str(COMMAND), *words, environ=environ)


INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


@contextmanager
def editor(environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start `understudy acp`, and yield it when it has answered the first request."""
    with subprocess.Popen(
        [str(COMMAND), "acp", "--agent", "echo"],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        answer_of(process, INITIALIZE)
        yield process
        assert process.stdin is not None
        process.stdin.close()


def answer_of(process: subprocess.Popen[bytes], request: bytes) -> None:
    """Send a request, whose id is 1, and wait for its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    process.stdin.flush()
    next(line for line in process.stdout if b'"id":1,' in line)


def seconds_to_start_an_editor() -> float:
    """Return how long `understudy acp` takes to its first answer."""

    def once() -> float:
        begun = time.perf_counter()
        with editor(environ):
            return time.perf_counter() - begun

    with daemon() as environ:
        once()
        return statistics.median(once() for _ in range(STARTS))


def seconds_to_open_a_session() -> float:
    """Return how long `session/new` takes once `understudy acp` runs."""
    request = (
        b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}\n'
    )

    def once() -> float:
        begun = time.perf_counter()
        answer_of(process, request)
        return time.perf_counter() - begun

    with daemon() as environ, editor(environ) as process:
        once()
        return statistics.median(once() for _ in range(STARTS))


def unless_the_command_is_installed() -> str | None:
    return None if COMMAND.exists() else "the command understudy is not installed here"


ROWS = (
    Row(
        name="understudy --help",
        against="python -c pass",
        ours=lambda: seconds_of(str(COMMAND), "--help"),
        peer=lambda: seconds_of(sys.executable, "-c", "pass"),
        unit="s",
        reach=at_most(8),
        obstacle=unless_the_command_is_installed,
    ),
    *(
        Row(
            name=f"understudy {words[0]}",
            against="python -c pass",
            ours=partial(seconds_to_ask, *words),
            peer=lambda: seconds_of(sys.executable, "-c", "pass"),
            unit="s",
            # `ps` was 62 when a client was half of a daemon, and 21 when it ran on trio.
            reach=at_most(15),
            obstacle=unless_the_command_is_installed,
        )
        for words in (("ps",), ("send", "one", "hello"), ("interrupt", "one"))
    ),
    Row(
        name="understudy acp, to its first answer",
        against="python -c pass",
        ours=seconds_to_start_an_editor,
        peer=lambda: seconds_of(sys.executable, "-c", "pass"),
        unit="s",
        reach=at_most(25),
        obstacle=unless_the_command_is_installed,
    ),
    Row(
        name="session/new of understudy acp",
        against="150 ms",
        ours=seconds_to_open_a_session,
        peer=lambda: 0.150,
        unit="s",
        reach=at_most(1),
        obstacle=unless_the_command_is_installed,
    ),
)
