"""One thing that was looked at, and what to do about it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

Level: TypeAlias = Literal["ok", "warning", "error"]


@attrs.frozen
class Finding:
    """`hint` says what to do, and `code` where to read more; None if there is nothing to do.

    A code is written out wherever a finding is made, so that a test can compare all of them with
    docs/how-to/troubleshooting.md.
    """

    check: str
    level: Level
    detail: str
    hint: str | None = None
    code: str | None = None


def ok(check: str, detail: str) -> Finding:
    """It is as it should be."""
    return Finding(check, "ok", detail)


def warning(check: str, code: str, detail: str, hint: str) -> Finding:
    """It works, and somebody should know."""
    return Finding(check, "warning", detail, hint, code)


def error(check: str, code: str, detail: str, hint: str) -> Finding:
    """It does not work, or somebody will be sorry."""
    return Finding(check, "error", detail, hint, code)
