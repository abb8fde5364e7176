"""What callers want a session to be, checked and completed from the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor.core.creation import Plan
from supervisor.core.ids import SessionKey, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.session import Lifetime, OnEnd, Terms
from supervisor.sessions.desk.spawning import Order

from .checks import (
    checked_custom,
    checked_limits,
    checked_permissions,
    checked_prompt,
    checked_tags,
    checked_workspace,
    known_options,
    known_word,
    some_text,
    time_to_live,
)
from .shapes import Options

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


def make_plan(
    house: House,
    agent: str,
    *,
    key: SessionKey | None = None,
    name: str | None = None,
    title: str | None = None,
    tags: Sequence[str] = (),
    custom: Mapping[str, str] | None = None,
    workspace: str | None = None,
    limits: Limits | None = None,
    permissions: Permissions | None = None,
    **terms: Any,  # noqa: ANN401 - the fields of Terms
) -> Plan:
    """The plan of a session; raises `ConfigError` for what cannot be meant.

    Its limits are None where none were given: a root then has those of the settings, a child those
    of its parent.
    """
    return Plan(
        agent=some_text("agent", agent),
        key=key,
        name=None if name is None else some_text("name", name),
        title=None if title is None else some_text("title", title),
        tags=checked_tags(tags),
        custom=checked_custom({} if custom is None else custom),
        workspace=None if workspace is None else checked_workspace(workspace),
        limits=None if limits is None else checked_limits(limits),
        permissions=Permissions() if permissions is None else checked_permissions(permissions),
        terms=_terms(house, terms),
    )


def make_order(
    house: House,
    agent: str,
    text: str,
    *,
    role: str | None,
    lifetime: Lifetime,
    on_end: OnEnd,
    ttl_seconds: float | None,
    turn: TurnId | None,
    options: Options,
) -> Order:
    """The order of a child; raises `ConfigError` or `InputRefused` for what cannot be meant."""
    known_options("a child", options)
    return Order(
        plan=make_plan(house, agent, **options),
        text=checked_prompt(text),
        role=None if role is None else some_text("role", role),
        lifetime=known_word("lifetime", lifetime, Lifetime),
        on_end=known_word("on_end", on_end, OnEnd),
        ttl_seconds=None if ttl_seconds is None else time_to_live(ttl_seconds),
        chosen=frozenset(name for name in _TERMS if options.get(name) is not None),
        turn=turn,
    )


_TERMS: Final = frozenset(field.name for field in attrs.fields(Terms))


def _terms(house: House, given: Mapping[str, Any]) -> Terms:
    known_options("a session", given)
    chosen = {name: value for name, value in given.items() if value is not None}
    # Checked as settings are, so that the same number is refused with the same words.
    settings = attrs.evolve(house.settings, **chosen) if chosen else house.settings
    return house.terms_of(settings)
