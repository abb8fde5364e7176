"""One thing that was looked at, and what to do about it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

Level: TypeAlias = Literal["ok", "warning", "error"]


@attrs.frozen
class Finding:
    """`hint` says what to do; None if there is nothing to do."""

    check: str
    level: Level
    detail: str
    hint: str | None = None


def ok(check: str, detail: str) -> Finding:
    """It is as it should be."""
    return Finding(check, "ok", detail)


def warning(check: str, detail: str, hint: str) -> Finding:
    """It works, and somebody should know."""
    return Finding(check, "warning", detail, hint)


def error(check: str, detail: str, hint: str) -> Finding:
    """It does not work, or somebody will be sorry."""
    return Finding(check, "error", detail, hint)
