"""Checks of the software: versions, dependencies, and conflicting packages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from supervisor.cli.commands.completion import DEPENDENCIES, installed_version, sqlite_version
from supervisor.cli.text_format import format_timestamp

from .findings import Finding, error, ok, warning

OLDEST_PYTHON: Final = (3, 11)
# Older versions can corrupt a WAL when two connections write or checkpoint at once.
WAL_FIXED_IN: Final = (3, 51, 3)
# The oldest version with STRICT tables, which the store uses.
OLDEST_SQLITE: Final = (3, 37, 0)

_OURS: Final = "understudy"


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Finding]:
    """Check the version of Python."""
    said = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        yield error("python", "python-too-old", f"Python {said}", "use Python 3.11 or newer")
    else:
        yield ok("python", f"Python {said}")


def check_packages(
    version_of: Callable[[str], str | None] = installed_version,
) -> Iterator[Finding]:
    """Check that all dependencies are installed."""
    found = {name: version_of(name) for name in (_OURS, *DEPENDENCIES)}
    for name, version in found.items():
        if version is None:
            hint = f"install it with `python -m pip install {_OURS}`"
            yield error("packages", "package-missing", f"{name} is not installed", hint)
    there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    yield ok("packages", there or "none")


def check_sqlite(version: str | None = None) -> Iterator[Finding]:
    """Check the version of SQLite and its known defects."""
    said = version or sqlite_version()
    number = tuple(int(part) for part in said.split(".") if part.isdigit())
    if number < OLDEST_SQLITE:
        yield error(
            "sqlite", "sqlite-too-old", f"SQLite {said} is too old", "use SQLite 3.37.0 or newer"
        )
    elif number < WAL_FIXED_IN:
        yield warning(
            "sqlite",
            "sqlite-wal",
            f"SQLite {said} can corrupt a file that two programs write at once (fixed in 3.51.3)",
            "nothing to do while understudy is the only writer of the store",
        )
    else:
        yield ok("sqlite", f"SQLite {said}")


def check_package_names(
    distributions: Mapping[str, list[str]] | None = None,
) -> Iterator[Finding]:
    """Check that no other distribution, such as supervisord, has files in our packages."""
    known = packages_distributions() if distributions is None else distributions
    for package in ("supervisor", "actors"):
        others = sorted(set(known.get(package, ())) - {_OURS})
        if others:
            names = ", ".join(others)
            yield error(
                "names",
                "name-taken",
                f"the package {package} also belongs to {names}",
                f"`python -m pip uninstall {' '.join(others)} {_OURS}`, then install {_OURS} again,"
                " in a virtual environment of its own",
            )
            return
    yield ok("names", "no other distribution has a package supervisor or actors")


def check_clock(now: float | None = None, *, built_at: float | None = None) -> Iterator[Finding]:
    """Check that the wall clock is not before the installation of this program."""
    now = time.time() if now is None else now
    written = Path(__file__).stat().st_mtime if built_at is None else built_at
    if now < written:
        yield warning(
            "clock",
            "clock-behind",
            f"the clock says {format_timestamp(now)}, which is before this program was installed",
            "set the clock: expiry and the order of sessions depend on it",
        )
    else:
        yield ok("clock", format_timestamp(now))
