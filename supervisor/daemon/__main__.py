"""`python -m supervisor.daemon`: the daemon without the command line."""

from __future__ import annotations

import sys

from .early_signals import EarlySignals


def main(arguments: list[str] | None = None) -> int:
    """Load the configuration, run the daemon, and return its exit code."""
    with EarlySignals():
        from .main import start  # noqa: PLC0415 - slow; a signal may arrive meanwhile

        return start(arguments)


if __name__ == "__main__":
    sys.exit(main())
