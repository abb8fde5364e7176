"""An ssh on this machine: `-N -L LOCAL:REMOTE` forwards a socket, a command is run.

FAKE_SSH_FAILS is the line with which it fails instead; FAKE_SSH_CALLS names a file of its calls.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path


def forward(local: str, remote: str) -> None:
    """Forward connections until the process is ended."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(local)
        listener.listen()
        while True:
            near, _ = listener.accept()
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(remote)
            except OSError as error:
                sys.stderr.write(f"channel 2: open failed: connect failed: {error.strerror}\n")
                sys.stderr.flush()
                near.close()
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def main(arguments: list[str]) -> int:
    if "FAKE_SSH_CALLS" in os.environ:
        with Path(os.environ["FAKE_SSH_CALLS"]).open("a") as calls:
            calls.write(f"{os.getpid()} {' '.join(arguments)}\n")
    if "FAKE_SSH_FAILS" in os.environ:
        sys.stderr.write(f"Warning: a line\n{os.environ['FAKE_SSH_FAILS']}\n")
        return 255
    if "-L" in arguments:
        local, _, remote = arguments[arguments.index("-L") + 1].partition(":")
        forward(local, remote)
    _, *command = arguments[arguments.index("--") + 1 :]
    return subprocess.run(["/bin/sh", "-c", " ".join(command)], check=False).returncode


def install(folder: Path) -> None:
    """Write a program `ssh` into the folder, and one `understudy` for the other machine."""
    folder.mkdir()
    for name, words in (("ssh", [__file__]), ("understudy", ["-m", "supervisor.cli"])):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {" ".join(words)} "$@"\n')
        program.chmod(0o700)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
