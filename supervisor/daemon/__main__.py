"""`python -m supervisor.daemon`: the daemon without the command line."""

from __future__ import annotations

import sys

from .system.held import HeldSignals


def main(arguments: list[str] | None = None) -> int:
    """Read the configuration and run; gives the exit code."""
    with HeldSignals():
        from .starting import start  # noqa: PLC0415 - it takes its time, and a signal may come

        return start(arguments)


if __name__ == "__main__":
    sys.exit(main())
