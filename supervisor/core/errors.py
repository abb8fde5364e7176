"""The error tree, classed by fault.

    SupervisorError               every error of this package; has `code` and `hint`
    ├── the caller named something that does not exist
    │     SessionNotFound, AgentUnknown, PermissionNotFound, RecordNotFound
    ├── an argument or a value is invalid
    │     InvalidKey, InvalidDecision, InvalidOverride, InputTooLarge, InputRefused,
    │     ConfigError, OutputTooLarge, ImportFailed
    ├── not now, not in this phase
    │     SessionNotActive, NotRunning, TurnOver, QueueFull, StoreDegraded, RepairRefused
    ├── a conflict with an earlier request
    │     KeyTaken, NameTaken, AmbiguousId, IdempotencyConflict, PermissionConflict,
    │     StoreLocked, Fenced
    ├── more than was granted
    │     SpawnRefused, BudgetSpent, PermissionDenied
    └── ours, or the agent's
          AgentStartFailed, StoreTooNew, NotStorable

`str(error)` says what happened; `hint` what to do next; `code` is the same word on every
interface (embedded, HTTP, CLI) and does not change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:  # agents import errors, and must not import attrs
    from .match import Match


class SupervisorError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[str] = "supervisor_error"

    def __init_subclass__(cls) -> None:
        # The code is the class's name in snake case: SessionNotFound becomes session_not_found.
        # A rule cannot be wrong for one class as a list could.
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]} (hint: {self.hint})"


def short_repr(value: object) -> str:
    """Return a short text for a value in an error; the contents of collections are not shown."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)[:_MAX_REPR_CHARS]
    if isinstance(value, str):
        return ascii(value[:_MAX_REPR_CHARS]) + ("..." if len(value) > _MAX_REPR_CHARS else "")
    return f"a {type(value).__name__}"


_MAX_REPR_CHARS: Final = 60


class SessionNotFound(SupervisorError):
    """No session has that id, or the text is not an id."""


class AgentUnknown(SupervisorError):
    """The supervisor has no agent of that name."""


class PermissionNotFound(SupervisorError):
    """No permission request of that id exists."""


class RecordNotFound(SupervisorError):
    """The session has no record of that number."""


class InvalidKey(SupervisorError):
    """A key has too few, too many or empty parts, or an invalid escape."""


class InvalidDecision(SupervisorError):
    """A permission request was answered with a decision that it does not offer."""


class InvalidOverride(SupervisorError):
    """The agent of the session does not offer that option, or not that value of it."""


class InputTooLarge(SupervisorError):
    """The text is longer than `max_text_bytes`."""


class OutputTooLarge(SupervisorError):
    """A turn has put out more than `max_turn_bytes`, or something that is not text."""


class InputRefused(SupervisorError):
    """The input is blank or not text, or the session is busy and `when_busy` is "reject"."""


class ConfigError(SupervisorError):
    """A setting or an argument has an invalid value."""


class ImportFailed(SupervisorError):
    """A file is not a session that can be stored.

    `line` is the faulty line, None for the whole file.
    """

    def __init__(self, problem: str, *, hint: str, line: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}", hint=hint)
        self.line = line


class SessionNotActive(SupervisorError):
    """The session is stopped or archived, and the request needs a live session."""


class NotRunning(SupervisorError):
    """No turn is running, and the request needs a running turn."""


class TurnOver(SupervisorError):
    """The turn was interrupted or has ended; further output of it is ignored."""


class QueueFull(SupervisorError):
    """The session has as many inputs waiting as its limit allows."""


class StoreDegraded(SupervisorError):
    """The store cannot be written at present, or cannot be opened; an open one retries by itself.

    `is_surely_unwritten`: no part of the write is on disk or can appear there later.
    `is_disk_full`: the disk has no room, so the same may succeed later.
    """

    def __init__(
        self,
        problem: str,
        *,
        hint: str,
        is_surely_unwritten: bool = False,
        is_disk_full: bool = False,
    ) -> None:
        super().__init__(problem, hint=hint)
        self.is_surely_unwritten = is_surely_unwritten
        self.is_disk_full = is_disk_full


class RepairRefused(SupervisorError):
    """The session is active, or its records have errors that appended records cannot repair."""


class KeyTaken(SupervisorError):
    """Another unarchived session holds that key."""


class NameTaken(SupervisorError):
    """Another session of the same tree, or another root, holds that name."""


class AmbiguousId(SupervisorError):
    """The text is a part of several ids, or the name of several sessions: `candidates`."""

    def __init__(self, problem: str, *, hint: str, candidates: Sequence[Match] = ()) -> None:
        super().__init__(problem, hint=hint)
        self.candidates = tuple(candidates)


class IdempotencyConflict(SupervisorError):
    """That idempotency key was used before, with another body."""


class PermissionConflict(SupervisorError):
    """The permission request was answered already."""


class StoreLocked(SupervisorError):
    """Another supervisor has this store open."""


class StoreTooNew(SupervisorError):
    """The store was written by a newer version."""


class Fenced(SupervisorError):
    """A later incarnation has claimed the session, so the earlier one may not write."""


class NotStorable(SupervisorError):
    """A value that cannot be stored was passed to the store."""


class PermissionDenied(SupervisorError):
    """The session does not have that right."""


class AgentStartFailed(SupervisorError):
    """The agent could not be started."""


class SpawnRefused(SupervisorError):
    """A child was not admitted; `limit` names the limit, with the numbers `used` and `allowed`."""

    def __init__(
        self,
        problem: str,
        *,
        hint: str,
        limit: str,
        used: float | None = None,
        allowed: float | None = None,
    ) -> None:
        super().__init__(problem, hint=hint)
        self.limit = limit
        self.used = used
        self.allowed = allowed


class BudgetSpent(SpawnRefused):
    """A budget of this session or of an ancestor is exhausted.

    No turn starts and no child is admitted then. It is a `SpawnRefused` whose `limit` names the
    budget.
    """

    def __init__(
        self,
        problem: str,
        *,
        hint: str,
        limit: str = "budget",  # where it is no longer known which budget it was
        used: float | None = None,
        allowed: float | None = None,
    ) -> None:
        super().__init__(problem, hint=hint, limit=limit, used=used, allowed=allowed)
