"""What callers want a session to be, checked and completed from the settings."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from supervisor.core.creation import Plan
from supervisor.core.errors import ConfigError, SpawnRefused, shown
from supervisor.core.ids import SessionKey, TurnId
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.session import Lifetime, OnEnd, Terms
from supervisor.sessions.desk.spawning import Order

from .checks import (
    checked_custom,
    checked_permissions,
    checked_prompt,
    checked_tags,
    known_word,
    positive_seconds,
    some_text,
)
from .shapes import Options

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

T = TypeVar("T")


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
        custom=checked_custom(custom or {}),
        workspace=None if workspace is None else checked_workspace(workspace),
        limits=_of_kind("limits", limits, Limits),
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
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise ConfigError(
            f"a child has no {', '.join(sorted(unknown))}",
            hint=f"it has: {', '.join(sorted(Options.__annotations__))}",
        )
    return Order(
        plan=make_plan(house, agent, **options),
        text=checked_prompt(text),
        role=None if role is None else some_text("role", role),
        lifetime=known_word("lifetime", lifetime, Lifetime),
        on_end=known_word("on_end", on_end, OnEnd),
        ttl_seconds=None if ttl_seconds is None else _time_to_live(ttl_seconds),
        chosen=frozenset(name for name in _TERMS if options.get(name) is not None),
        turn=turn,
    )


def _time_to_live(seconds: float) -> float:
    if type(seconds) in (int, float) and seconds <= 0:
        raise SpawnRefused(
            f"its time would be over before it begins: ttl_seconds is {shown(seconds)}",
            hint="give ttl_seconds above 0, or none",
            limit="expiry",
        )
    return positive_seconds(seconds)


_TERMS: Final = frozenset(field.name for field in attrs.fields(Terms))


def _terms(house: House, given: Mapping[str, Any]) -> Terms:
    chosen = {name: value for name, value in given.items() if value is not None}
    unknown = chosen.keys() - {field.name for field in attrs.fields(Terms)}
    if unknown:
        names = ", ".join(sorted(field.name for field in attrs.fields(Terms)))
        raise ConfigError(f"a session has no {', '.join(sorted(unknown))}", hint=f"it has: {names}")
    # Checked as settings are, so that the same number is refused with the same words.
    settings = attrs.evolve(house.settings, **chosen) if chosen else house.settings
    return house.terms_of(settings)


def _of_kind(name: str, value: T | None, kind: type[T]) -> T | None:
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"{name} is {shown(value)}", hint=f"give supervisor.{kind.__name__}(...)")
    return value


def checked_workspace(workspace: object) -> str:
    """A normalised absolute path."""
    given = os.fspath(workspace) if isinstance(workspace, os.PathLike) else workspace
    path = some_text("workspace", given)
    if "\0" in path:
        raise ConfigError("workspace has a NUL in it", hint="give the path of a folder")
    return os.path.abspath(path)  # noqa: PTH100 - normalised, not resolved: it may not exist yet
