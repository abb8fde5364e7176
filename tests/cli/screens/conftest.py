"""A daemon that a test can kill and start again."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import COMMAND
from tests.support.tmux import StartDaemon


@pytest.fixture
def start_daemon(home: Path) -> Iterator[StartDaemon]:
    """Return what starts a daemon, always on the same store; all are killed at the end."""
    started = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, "serve", "--state-folder", str(home / "state")],
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        assert any("listening on" in line for line in process.stderr)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
