"""What can be refused or go wrong, classed by whose fault it is.

    SupervisorError               every error of this package; has `code` and `hint`
    ├── the caller named something that is not there
    │     SessionNotFound, AgentUnknown, PermissionNotFound, RecordNotFound
    ├── the caller's words cannot be meant
    │     InvalidKey, InvalidDecision, InputTooLarge, InputRefused, ConfigError,
    │     OutputTooLarge, ImportFailed
    ├── not now, not in this phase
    │     SessionNotActive, NotRunning, TurnOver, QueueFull, StoreDegraded, RepairRefused
    ├── someone was there before
    │     KeyTaken, IdempotencyConflict, PermissionConflict, StoreLocked, Fenced
    ├── more than was granted
    │     SpawnRefused, BudgetSpent, PermissionDenied
    └── ours, or the agent's
          AgentStartFailed, StoreTooNew, NotStorable

`str(error)` says what happened; `hint` what to do next; `code` is the same word on every
surface (embedded, HTTP, CLI) and does not change.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final


class SupervisorError(Exception):
    """The root of this package's errors."""

    code: ClassVar[str] = "supervisor_error"

    def __init_subclass__(cls) -> None:
        # The code is the class's name in the spelling of the wire: SessionNotFound becomes
        # session_not_found. One rule instead of a list that can be wrong.
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]} (hint: {self.hint})"


def shown(value: object) -> str:
    """A value for an error's text: short, and nothing of what may be inside a larger one."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)[:_SHOWN_LETTERS]
    if isinstance(value, str):
        return ascii(value[:_SHOWN_LETTERS]) + ("..." if len(value) > _SHOWN_LETTERS else "")
    return f"a {type(value).__name__}"


_SHOWN_LETTERS: Final = 60


class SessionNotFound(SupervisorError):
    """There is no session of that id, or it is not an id."""


class AgentUnknown(SupervisorError):
    """No agent of that name was given to this supervisor."""


class PermissionNotFound(SupervisorError):
    """No permission request of that id is waiting, or ever was."""


class RecordNotFound(SupervisorError):
    """The session has no record of that number."""


class InvalidKey(SupervisorError):
    """A key has too few, too many or empty parts, or an escape that means nothing."""


class InvalidDecision(SupervisorError):
    """A permission request was answered with something it does not offer."""


class InputTooLarge(SupervisorError):
    """The text is longer than `max_text_bytes`."""


class OutputTooLarge(SupervisorError):
    """A turn has put out more than `max_turn_bytes`, or something that is no text."""


class InputRefused(SupervisorError):
    """The input cannot be taken: it is blank, not text, or was to be rejected when busy."""


class ConfigError(SupervisorError):
    """A setting has a value that cannot be meant."""


class ImportFailed(SupervisorError):
    """A file is no session that could be stored: `line` says where, None if it is all of it."""

    def __init__(self, problem: str, *, hint: str, line: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}", hint=hint)
        self.line = line


class SessionNotActive(SupervisorError):
    """The session is stopped or archived, and this needs one that is not."""


class NotRunning(SupervisorError):
    """There is no running turn to do this to."""


class TurnOver(SupervisorError):
    """The turn is over: it was interrupted, or ended, and what it says no longer counts."""


class QueueFull(SupervisorError):
    """The session has as many inputs waiting as it may."""


class StoreDegraded(SupervisorError):
    """The store cannot write just now; it tries again by itself.

    `is_certain`: nothing of what it was asked is written, whatever happens to the machine now.
    """

    def __init__(self, problem: str, *, hint: str, is_certain: bool = False) -> None:
        super().__init__(problem, hint=hint)
        self.is_certain = is_certain


class RepairRefused(SupervisorError):
    """The session is at work, or its records have errors that nothing can be appended to."""


class KeyTaken(SupervisorError):
    """Another unarchived session bears that key."""


class IdempotencyConflict(SupervisorError):
    """That idempotency key was used before, with another body."""


class PermissionConflict(SupervisorError):
    """The permission request was answered already."""


class StoreLocked(SupervisorError):
    """Another supervisor has this store open."""


class StoreTooNew(SupervisorError):
    """The store was written by a newer version."""


class Fenced(SupervisorError):
    """Another incarnation has claimed the session, and this one may no longer write."""


class NotStorable(SupervisorError):
    """Something got as far as the store that no store can keep."""


class PermissionDenied(SupervisorError):
    """The session was not given that right."""


class AgentStartFailed(SupervisorError):
    """The agent could not be started."""


class SpawnRefused(SupervisorError):
    """A child was not admitted: `limit` names what is exhausted, `used` and `allowed` how much."""

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
    """Nothing is left of a budget that this session, or one above it, was given.

    Nothing begins then and nobody is admitted, so it is the same refusal, for this one reason.
    """

    def __init__(
        self,
        problem: str,
        *,
        hint: str,
        limit: str = "budget",  # where it is no longer known which of them it was
        used: float | None = None,
        allowed: float | None = None,
    ) -> None:
        super().__init__(problem, hint=hint, limit=limit, used=used, allowed=allowed)
