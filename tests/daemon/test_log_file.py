"""The log file of a detached daemon, and the note about its process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.configuration import DaemonSettings
from supervisor.core.errors import ConfigError
from supervisor.daemon.log_file import CappedLog, is_log_file, older_log, open_log_file
from supervisor.daemon.process_note import ProcessNote, note_exit, note_start, read_process_note

# Standard output and standard error are the log file; a child shares them.
PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from supervisor.daemon.log_file import CappedLog, is_log_file, open_log_file
path = Path(sys.argv[1])
descriptor = open_log_file(path)
os.dup2(descriptor, 1); os.dup2(descriptor, 2)
assert is_log_file(sys.stderr, path)
log = CappedLog(sys.stderr, path, max_bytes=100)
for number in range(25):
    log.write(f"line {number}\\n")
    log.flush()
print("printed", flush=True)
"""


def test_a_full_log_becomes_the_older_one(folder: Path) -> None:
    path = folder / "daemon.log"

    subprocess.run([sys.executable, "-c", PROGRAM, path], check=True)

    lines = [*older_log(path).read_text().splitlines(), *path.read_text().splitlines()]
    assert lines[-1] == "printed"
    assert lines[:-1] == [f"line {number}" for number in range(25)][-len(lines) + 1 :]
    assert older_log(path).stat().st_size < 110
    assert {one.stat().st_mode & 0o777 for one in folder.glob("daemon.log*")} == {0o600}


def test_a_log_that_cannot_be_moved_grows(folder: Path) -> None:
    path = folder / "daemon.log"
    older_log(path).mkdir()

    with os.fdopen(open_log_file(path), "w") as stream:
        log = CappedLog(stream, path, max_bytes=10)
        log.write("a" * 20)
        log.flush()
        log.write("b")
        log.flush()

    assert path.read_text() == "a" * 20 + "b"


def test_a_log_of_other_users_is_refused(folder: Path) -> None:
    path = folder / "daemon.log"
    path.touch(mode=0o644)
    path.chmod(0o644)

    with pytest.raises(ConfigError, match="accessible to other users"):
        open_log_file(path)


def test_another_stream_is_not_the_log_file(folder: Path) -> None:
    with (folder / "other").open("w") as stream:
        assert not is_log_file(stream, folder / "daemon.log")


def test_the_note_has_the_port_and_the_exit_code(folder: Path) -> None:
    settings = DaemonSettings(socket=str(folder / "s"), state_folder="/x", tcp_port=8765)
    note_exit(settings.socket, 1)
    before = read_process_note(settings.socket, os.getpid())

    note_start(settings)
    note_exit(settings.socket, 6)

    found = read_process_note(settings.socket, os.getpid())
    assert before is None
    assert found == ProcessNote(os.getpid(), "/x", tcp_port=8765, exit_code=6)
    assert found.log_file == "/x/daemon.log"
    assert read_process_note(settings.socket, 1) is None
