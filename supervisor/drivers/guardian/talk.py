"""To our parent, and from it: nothing here waits for anybody."""

import os


def say(line: str) -> None:
    """Tell our parent, if it is there."""
    try:  # noqa: SIM105 - contextlib is too much
        os.write(1, line.encode() + b"\n")
    except OSError:
        pass  # nobody listens any more


def read(descriptor: int) -> bytes:
    """What is there; empty if nothing will be."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
