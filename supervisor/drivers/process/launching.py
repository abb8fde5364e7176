"""A launch as the guardian reads it, and why it could not be made, as people read it."""

from __future__ import annotations

import errno
import os
from typing import Final

from supervisor.core.errors import shown

from .leftovers.marker import VARIABLE, Marker
from .port import Launch, LaunchFailed


def encode_launch(launch: Launch, marker: Marker) -> bytes:
    """The guardian's first order; raises `LaunchFailed` for what no program can be given."""
    if not launch.command or not launch.command[0]:
        raise LaunchFailed("there is no command: give at least the name of a program")
    environment = {**launch.environment, VARIABLE: str(marker)}
    for name in environment:
        if not name or "=" in name:
            raise LaunchFailed(f"an environment variable cannot be named {shown(name)}")
    fields = (
        os.path.abspath(launch.cwd or "."),  # noqa: PTH100 - symbolic links stay as they are
        str(len(launch.command)),
        *launch.command,
        *(f"{name}={value}" for name, value in environment.items()),
    )
    body = b"\0".join(map(_encode, fields))
    return b"%d\n" % len(body) + body


def _encode(field: str) -> bytes:
    try:
        encoded = os.fsencode(field)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise LaunchFailed(
            f"{shown(field)} has a character that neither a command nor an environment can have"
        )
    return encoded


def launch_failure(launch: Launch, number: int, what: str) -> LaunchFailed:
    """What the guardian said that the system said, with what is to be done."""
    return LaunchFailed(f"{shown(launch.command[0])} {_why(launch, number, what)}")


def _why(launch: Launch, number: int, what: str) -> str:
    reason = os.strerror(number)
    match what:
        case "fork":
            return f"has got no process: {reason}"
        case "cwd":
            return f"cannot work in {shown(launch.cwd)}: {reason}"
        case "interpreter":
            return "is there, but not what is to run it: look at its first line, after #!"
        case _:
            return _PROGRAM_FAILURES.get(number, f"cannot be executed: {reason}")


_PROGRAM_FAILURES: Final = {
    errno.ENOENT: "is not there: install it, put its folder into the agent's PATH, or give its"
    " whole path",
    errno.EACCES: "may not be executed by us: see its permissions",
    errno.ENOEXEC: "is no program: a script begins with a line such as #!/bin/sh",
    errno.E2BIG: "was given more words, or a longer one, than the system lets through: give long"
    " text by standard input",
}
