"""Versions of understudy, Python, SQLite and the dependencies."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

DEPENDENCIES = ("trio", "attrs", "click", "rich", "hypercorn", "starlette", "httpx")


def versions() -> dict[str, str | None]:
    """Return all versions that matter in a bug report."""
    found = {"understudy": installed_version("understudy"), "python": platform.python_version()}
    return {
        **found,
        "sqlite": sqlite_version(),
        **{name: installed_version(name) for name in DEPENDENCIES},
    }


def installed_version(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None


def sqlite_version() -> str:
    """Return the version of the SQLite library, not of Python's module."""
    # Only the store uses SQL; this reads a constant.
    from importlib import import_module  # noqa: PLC0415 - rarely needed

    return str(import_module("sqlite3").sqlite_version)
