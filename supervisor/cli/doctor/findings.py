"""The result of one check, and what to do about it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

Level: TypeAlias = Literal["ok", "warning", "error"]


@attrs.frozen
class Finding:
    """Result of one check; `hint` says what to do, `code` is a heading of the troubleshooting page.

    Both are None if there is no problem. Codes are written as literals where findings are made, so
    that a test can compare them with docs/how-to/troubleshooting.md.
    """

    check: str
    level: Level
    detail: str
    hint: str | None = None
    code: str | None = None


def ok(check: str, detail: str) -> Finding:
    """Return the finding of a check without problems."""
    return Finding(check, "ok", detail)


def warning(check: str, code: str, detail: str, hint: str) -> Finding:
    """Return the finding of a problem that does not stop work."""
    return Finding(check, "warning", detail, hint, code)


def error(check: str, code: str, detail: str, hint: str) -> Finding:
    """Return the finding of a problem that stops work or loses data."""
    return Finding(check, "error", detail, hint, code)
