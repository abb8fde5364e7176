"""What only this surface answers with; everything else is a class of the embedding API."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.sessions.shell.results import TurnResult

InputStatus: TypeAlias = Literal[
    "queued", "staged", "delivered", "steered", "cancelled", "expired", "failed"
]


@attrs.frozen(kw_only=True)
class InputState:
    """What has become of an input so far.

    `result` is there once the turn that it began, or was steered into, is over. `code`, `detail`
    and `hint` are those of the error if there will be no result: it was settled without a turn, or
    its session has stopped and holds it.
    """

    id: InputId
    session_id: SessionId
    status: InputStatus
    position: int | None = None  # in the queue, from 0, while it waits there
    turn_id: TurnId | None = None
    result: TurnResult | None = None
    code: str | None = None
    detail: str | None = None
    hint: str | None = None


@attrs.frozen
class Version:
    """Which program answers, and by which version of this interface."""

    name: str
    version: str
    api: str


@attrs.frozen
class Health:
    """The process answers: `ready` once it takes work."""

    status: Literal["ok", "ready"]


@attrs.frozen
class BackupReport:
    """Where the copy is, and how large."""

    path: str
    bytes: int
