"""Creation of a session, new or as a fork of another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import attrs

from .agent_options import OptionChanges, OptionValue
from .ids import InputId, SessionId, SessionKey, TurnId
from .limits import Ladder, Lifetime, Limits, Lineage, OnEnd, OnStall, Restart, Terms
from .permissions import RIGHTS, Permissions, root_permissions
from .records import message_kind
from .session_values import SessionKind, WhenBusy

if TYPE_CHECKING:
    from .facts import Fact
    from .state import SessionState


class Options(TypedDict, total=False):
    """Options of a new session besides its agent and its key; see `Supervisor.create`."""

    name: str | None
    title: str | None
    tags: Sequence[str]
    custom: Mapping[str, str] | None
    workspace: str | None
    limits: Limits | None
    permissions: Permissions | None
    restart: Restart | None
    ladder: Ladder | None
    queue_cap: int | None
    max_text_bytes: int | None
    max_turn_bytes: int | None
    steer_fallback: Literal["queue", "interrupt"] | None
    permission_timeout_seconds: float | None
    suspend_after_seconds: float | None
    quiet_after_seconds: float | None
    stalled_after_seconds: float | None
    tool_stalled_after_seconds: float | None
    on_stall: OnStall | None
    turn_deadline_seconds: float | None
    answers_for_children: bool | None
    options: OptionChanges | None
    model: str | None
    effort: str | None


class SpawnOptions(Options, total=False):
    """Options of a child besides its agent and its text; see `Session.spawn`."""

    role: str | None
    lifetime: Lifetime
    on_end: OnEnd
    ttl_seconds: float | None
    idempotency_key: str | None


class PromptOptions(TypedDict, total=False):
    """Options of an input besides its text; see `Session.prompt`."""

    attachments: Sequence[Mapping[str, Any]]
    when_busy: WhenBusy
    idempotency_key: str | None
    ttl_seconds: float | None
    if_stopped: Literal["resume", "reject"]


class SendOptions(PromptOptions, total=False):
    """Options of an input whose turn is not awaited; see `Session.send`."""

    queued: Literal["keep", "cancel"]
    trace: Mapping[str, str] | None


@attrs.frozen(kw_only=True)
class SessionSpec:
    """The checked arguments of a new session."""

    agent: str
    key: SessionKey | None = None
    kind: SessionKind = "user"
    name: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    custom: Mapping[str, str] = attrs.field(factory=dict)
    workspace: str | None = None
    lineage: Lineage = Lineage()
    terms: Terms = Terms()
    limits: Limits | None = Limits()  # None: inherited from its parent
    permissions: Permissions = Permissions()
    # None if there are none, so that fingerprints of earlier requests stay the same.
    options: Mapping[str, OptionValue] | None = None
    # Names of the MCP servers that the caller gave; None as for `options`.
    mcp_servers: tuple[str, ...] | None = None


@attrs.frozen
class SpawnInput:
    """The text that a child is spawned with: its first input, accepted as it is created."""

    input_id: InputId
    text: str


@attrs.frozen
class Message:
    """One message of the history: role, text, time, turn, and whether it was sent as steering."""

    role: Literal["user", "agent"]
    text: str
    at: float
    turn_id: str | None = None
    steered: bool = False


def create(
    session_id: SessionId,
    plan: SessionSpec,
    *,
    at: float,
    messages: Iterable[Message] = (),
    first_input: SpawnInput | None = None,
) -> tuple[SessionState, tuple[Fact, ...]]:
    """Return a session in its first phase and the facts that create it.

    `messages` is the history that a fork starts with.
    """
    from .facts import Fact  # noqa: PLC0415 - short commands import `Message`
    from .fold import fold, initial_state  # noqa: PLC0415 - as above

    facts = [Fact("session_created", at, _created_body(plan))]
    session = initial_state(session_id, facts[0])
    for message in messages:
        fact = Fact(message_kind(message.role), at, {"text": message.text, "part": None})
        facts.append(fact)
        session = fold(session, fact)
    if first_input is not None:
        fact = Fact("input_accepted", at, _accepted_body(first_input))
        facts.append(fact)
        session = fold(session, fact)
    return session, tuple(facts)


def _accepted_body(first_input: SpawnInput) -> dict[str, Any]:
    return {
        "input_id": first_input.input_id,
        "text": first_input.text,
        "when_busy": "queue",
        "number": 1,
        "source": "parent",
        "generation": 0,
        "expires_at": None,
        "attachments": [],
        "replacement": False,
    }


def spec_like(session: SessionState, limits: Limits) -> SessionSpec:
    """Return the spec of a new root session with the options of this session.

    The key is not copied, because a key has one holder; nor is the position in the tree, because a
    copy of a child must not take a child slot of the parent.
    """
    return SessionSpec(
        agent=session.agent_name,
        kind="user" if session.kind == "spawned" else session.kind,
        name=session.name,
        title=session.title,
        tags=session.tags,
        custom=session.custom,
        workspace=session.workspace,
        terms=session.terms,
        limits=limits,
        permissions=session.permissions,
        options=session.options or None,
    )


def grants_body(plan: SessionSpec) -> dict[str, Any]:
    """Return the terms, limits and permissions of a spec as a record body."""
    rights = root_permissions(plan.permissions)
    return {
        "terms": _fields_body(plan.terms),
        "limits": None if plan.limits is None else _fields_body(plan.limits),
        "permissions": {
            right: sorted(names)
            for right in RIGHTS
            if (names := getattr(rights, right)) is not None
        }
        | {"mode": rights.mode},
    }


def _created_body(plan: SessionSpec) -> dict[str, Any]:
    return {
        "agent": plan.agent,
        "key": None if plan.key is None else str(plan.key),
        "kind": plan.kind,
        "name": plan.name,
        "title": plan.title,
        "tags": list(plan.tags),
        "custom": dict(plan.custom),
        "workspace": plan.workspace,
        "lineage": _fields_body(plan.lineage),
        **grants_body(plan),
        **({"options": dict(plan.options)} if plan.options else {}),
        **({"mcp_servers": list(plan.mcp_servers)} if plan.mcp_servers else {}),
    }


def _fields_body(thing: attrs.AttrsInstance) -> dict[str, Any]:
    """Return the fields as plain data; fields that are None and None by default are left out."""
    optional = {field.name for field in attrs.fields(type(thing)) if field.default is None}
    values = attrs.asdict(thing).items()
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values
        if value is not None or name not in optional
    }


@attrs.frozen(kw_only=True)
class SpawnRequest:
    """The checked arguments of a spawn: the child's spec and its first input."""

    spec: SessionSpec
    text: str
    role: str | None = "worker"
    lifetime: Lifetime = "with_parent"
    on_end: OnEnd = "tell"
    ttl_seconds: float | None = None
    # The terms in `spec` that were given explicitly; the others are inherited from the parent.
    explicit_terms: frozenset[str] = frozenset()
    # The turn whose agent requested it, if any.
    turn: TurnId | None = None
