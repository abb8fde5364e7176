"""Who calls a tool, and which sessions its calls may reach."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.ids import SessionId

# `self`: the subtree of the caller. `self,look`: the same, read-only. `all`: every session.
ToolScope: TypeAlias = Literal["self", "self,look", "all"]


@attrs.frozen(kw_only=True)
class Caller:
    """The credential behind a call: the session of an agent, or a person's assistant.

    `session_id` is None for a person's assistant, whose scope is `all`. `name` is the name of the
    credential as it stands on record.
    """

    name: str
    scope: ToolScope
    session_id: SessionId | None = None


# The caller that the gate of the API lets pass: the user of this process, or a holder of its token.
OWNER: Final = Caller(name="owner", scope="all")
