"""What an agent wants to do through us, put to whoever decides.

The session itself decides by its rights, its rules and its mode, and asks a person for the rest. It
keeps a record of each question; what the mode plainly allows is not made one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from supervisor.core.permissions import DEFAULT_MODE, answer_by_mode
from supervisor.core.session import Decision
from supervisor.drivers.acp.news.tools import ToolFacts
from supervisor.drivers.acp.rpc.messages import INVALID_PARAMS, RpcError
from supervisor.drivers.port import Office

Answer: TypeAlias = Decision | Literal["cancelled"]
ALLOWED: Final[frozenset[Answer]] = frozenset({"allow_once", "allow_always"})


@attrs.frozen(kw_only=True)
class Question:
    """The words of `PermissionAsked`, but for the turn and the request, which the driver knows."""

    tool: str
    question: str
    kind: str | None = None
    inside_workspace: bool = False
    input: Mapping[str, Any] | None = None
    options: tuple[Decision, ...] = get_args(Decision)


# Has the session decide, and waits for that; "cancelled" also if no turn runs.
Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]


async def refuse_unless_allowed(
    office: Office, ask: Ask, facts: ToolFacts, *, granted: bool
) -> None:
    """Raise `RpcError` unless the session may do this on its workspace; asks if it must.

    `granted`: whoever decides has said yes to this very thing already.
    """
    rights = office.permissions
    kind = facts.kind or ""
    if not rights.allows("tools", kind):
        raise denied(facts)
    match answer_by_mode(rights.mode or DEFAULT_MODE, kind, inside_workspace=True):
        case "reject":
            raise denied(facts)
        case "ask" if not granted:
            answer = await ask(
                Question(
                    tool=facts.tool(rights),
                    question=facts.title or kind,
                    kind=kind,
                    inside_workspace=True,
                    input=facts.input,
                )
            )
            if answer not in ALLOWED:
                raise denied(facts)


def denied(facts: ToolFacts) -> RpcError:
    """The refusal of something that the session may not do, or that a person will not have."""
    return RpcError(INVALID_PARAMS, f"it is not allowed to {facts.kind} here")
