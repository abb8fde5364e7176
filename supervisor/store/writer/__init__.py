"""The one who writes: the persistence actor, what is asked of it, and how it does."""

from .actor import (
    LAST_RETRY_SECONDS,
    MAX_BATCH,
    Bring,
    Claim,
    ClaimAll,
    Cleared,
    Commit,
    CommitAll,
    Delete,
    ForgetProcess,
    NoteProcess,
    Retry,
    Tidy,
    Writer,
    keep_trying,
)

__all__ = (
    "LAST_RETRY_SECONDS",
    "MAX_BATCH",
    "Bring",
    "Claim",
    "ClaimAll",
    "Cleared",
    "Commit",
    "CommitAll",
    "Delete",
    "ForgetProcess",
    "NoteProcess",
    "Retry",
    "Tidy",
    "Writer",
    "keep_trying",
)
