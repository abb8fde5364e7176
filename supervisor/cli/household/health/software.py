"""What this runs on: versions, and who else claims our name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import packages_distributions
from typing import Final

from supervisor.cli.household.version import PARTS, installed, sqlite_version

from .finding import Finding, error, ok, warning

OLDEST_PYTHON: Final = (3, 11)
# Before it, two connections that write or checkpoint at once can corrupt a WAL.
WAL_MENDED: Final = (3, 51, 3)
# The oldest with STRICT tables, which the store is made of.
OLDEST_SQLITE: Final = (3, 37, 0)
_OURS: Final = "understudy"


def look_at_python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Finding]:
    """Whether it is new enough."""
    said = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        yield error("python", "python-too-old", f"Python {said}", "use Python 3.11 or newer")
    else:
        yield ok("python", f"Python {said}")


def look_at_packages(
    version_of: Callable[[str], str | None] = installed,
) -> Iterator[Finding]:
    """Whether everything that it stands on is installed."""
    found = {name: version_of(name) for name in (_OURS, *PARTS)}
    for name, version in found.items():
        if version is None:
            hint = f"install it with `python -m pip install {_OURS}`"
            yield error("packages", "package-missing", f"{name} is not installed", hint)
    there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    yield ok("packages", there or "none")


def look_at_sqlite(version: str | None = None) -> Iterator[Finding]:
    """Whether SQLite can do what we need, and which defects it has."""
    said = version or sqlite_version()
    number = tuple(int(part) for part in said.split(".") if part.isdigit())
    if number < OLDEST_SQLITE:
        yield error(
            "sqlite", "sqlite-too-old", f"SQLite {said} is too old", "use one of 3.37.0 or newer"
        )
    elif number < WAL_MENDED:
        yield warning(
            "sqlite",
            "sqlite-wal",
            f"SQLite {said} can corrupt a file that two programs write at once (mended in 3.51.3)",
            "nothing to do while no other program writes into the store; understudy writes alone",
        )
    else:
        yield ok("sqlite", f"SQLite {said}")


def look_at_names(
    distributions: Mapping[str, list[str]] | None = None,
) -> Iterator[Finding]:
    """Whether supervisord, or anybody else, has put files into our packages."""
    known = packages_distributions() if distributions is None else distributions
    for package in ("supervisor", "actors"):
        others = sorted(set(known.get(package, ())) - {_OURS})
        if others:
            names = ", ".join(others)
            yield error(
                "names",
                "name-taken",
                f"the package {package} is that of {names} too",
                f"`python -m pip uninstall {' '.join(others)} {_OURS}`, then install {_OURS} again,"
                " in a virtual environment of its own",
            )
            return
    yield ok("names", "nobody else calls a package supervisor or actors here")
