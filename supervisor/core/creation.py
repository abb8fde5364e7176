"""How a session begins: from nothing, or from what another one has heard and said so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from .facts import Fact, kind_of_text
from .folds import begin, fold
from .ids import InputId, SessionId, SessionKey
from .limits import Limits
from .permissions import RIGHTS, Permissions, at_root
from .session import Kind, Lineage, Session, Terms


@attrs.frozen(kw_only=True)
class Plan:
    """What somebody wants a new session to be."""

    agent: str
    key: SessionKey | None = None
    kind: Kind = "user"
    name: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    custom: Mapping[str, str] = attrs.field(factory=dict)
    workspace: str | None = None
    lineage: Lineage = Lineage()
    terms: Terms = Terms()
    limits: Limits | None = Limits()  # None: those of its parent
    permissions: Permissions = Permissions()


@attrs.frozen
class Errand:
    """The text that a child is spawned with: its first input, accepted as it begins."""

    input_id: InputId
    text: str


@attrs.frozen
class Message:
    """One thing that was said: by whom, what, when, in which turn, and if it was steered in."""

    role: Literal["user", "agent"]
    text: str
    at: float
    turn_id: str | None = None
    steered: bool = False


def create(
    session_id: SessionId,
    plan: Plan,
    *,
    at: float,
    said: Iterable[Message] = (),
    errand: Errand | None = None,
) -> tuple[Session, tuple[Fact, ...]]:
    """A session in its first phase, and the facts that make it; `said` is what a fork brings."""
    facts = [Fact("session_created", at, _body(plan))]
    session = begin(session_id, facts[0])
    for message in said:
        fact = Fact(kind_of_text(message.role), at, {"text": message.text, "part": None})
        facts.append(fact)
        session = fold(session, fact)
    if errand is not None:
        fact = Fact("input_accepted", at, _accepted(errand))
        facts.append(fact)
        session = fold(session, fact)
    return session, tuple(facts)


def _accepted(errand: Errand) -> dict[str, Any]:
    return {
        "input_id": errand.input_id,
        "text": errand.text,
        "when_busy": "queue",
        "number": 1,
        "source": "parent",
        "generation": 0,
        "expires_at": None,
        "attachments": [],
        "replacement": False,
    }


def plan_of(session: Session, limits: Limits) -> Plan:
    """The plan by which a session like this one would be made, as a root of its own.

    A key it must find for itself, and its parent's places are not for whoever copies a child.
    """
    return Plan(
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
    )


def granted(plan: Plan) -> dict[str, Any]:
    """What a session may do by the plan, as records say it."""
    rights = at_root(plan.permissions)
    return {
        "terms": _told(plan.terms),
        "limits": None if plan.limits is None else _told(plan.limits),
        "permissions": {
            right: sorted(names)
            for right in RIGHTS
            if (names := getattr(rights, right)) is not None
        }
        | {"mode": rights.mode},
    }


def _body(plan: Plan) -> dict[str, Any]:
    return {
        "agent": plan.agent,
        "key": None if plan.key is None else str(plan.key),
        "kind": plan.kind,
        "name": plan.name,
        "title": plan.title,
        "tags": list(plan.tags),
        "custom": dict(plan.custom),
        "workspace": plan.workspace,
        "lineage": _told(plan.lineage),
        **granted(plan),
    }


def _told(thing: attrs.AttrsInstance) -> dict[str, Any]:
    """Its fields, but for those that are None by default and are."""
    optional = {field.name for field in attrs.fields(type(thing)) if field.default is None}
    told = attrs.asdict(thing).items()
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in told
        if value is not None or name not in optional
    }
