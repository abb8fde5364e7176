"""Specs of new sessions: arguments checked and completed from the settings, and forks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from supervisor.core.agent_options import OptionChanges, OptionValue, requested_options
from supervisor.core.creation import SessionSpec, SpawnRequest, spec_like
from supervisor.core.errors import InputRefused, short_repr
from supervisor.core.ids import SessionId, SessionKey, TurnId
from supervisor.core.limits import Lifetime, Limits, OnEnd, Terms
from supervisor.core.permissions import Permissions
from supervisor.core.records import Record
from supervisor.core.validation import (
    check_child_ttl_seconds,
    check_choice,
    check_custom,
    check_name,
    check_prompt,
    check_session_name,
    check_tags,
    check_text,
)
from supervisor.sessions.transcript import messages_from_records

from .arguments import check_limits, check_options, check_permissions, check_workspace
from .parts import Parts
from .shapes import Options


def make_spec(
    parts: Parts,
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
    options: OptionChanges | None = None,
    model: str | None = None,
    effort: str | None = None,
    **terms: Any,  # noqa: ANN401 - the fields of Terms
) -> SessionSpec:
    """Return the spec of a session; raise `ConfigError` for an invalid argument.

    Its limits are None if none were given: a root then has those of the settings, a child those
    of its parent.
    """
    return SessionSpec(
        agent=check_name("agent", agent),
        key=key,
        name=None if name is None else check_session_name(name),
        title=None if title is None else check_name("title", title),
        tags=check_tags(tags),
        custom=check_custom({} if custom is None else custom),
        workspace=None if workspace is None else check_workspace(workspace),
        limits=None if limits is None else check_limits(limits),
        permissions=Permissions() if permissions is None else check_permissions(permissions),
        terms=_make_terms(parts, terms),
        options=_wanted(requested_options(options, model=model, effort=effort)),
    )


def _wanted(options: OptionChanges | None) -> dict[str, OptionValue] | None:
    """Return the options with a value; None if there are none."""
    wanted = {name: value for name, value in (options or {}).items() if value is not None}
    return wanted or None


def make_spawn_request(
    parts: Parts,
    agent: str,
    text: str,
    *,
    role: str | None,
    lifetime: Lifetime,
    on_end: OnEnd,
    ttl_seconds: float | None,
    turn: TurnId | None,
    options: Options,
) -> SpawnRequest:
    """Return the request for a child.

    Raise `ConfigError` or `InputRefused` for an invalid argument.
    """
    check_options("a child", options)
    return SpawnRequest(
        spec=make_spec(parts, agent, **options),
        text=check_prompt(text),
        role=None if role is None else check_name("role", role),
        lifetime=check_choice("lifetime", lifetime, Lifetime),
        on_end=check_choice("on_end", on_end, OnEnd),
        ttl_seconds=None if ttl_seconds is None else check_child_ttl_seconds(ttl_seconds),
        explicit_terms=frozenset(name for name in _TERM_NAMES if options.get(name) is not None),
        turn=turn,
    )


_TERM_NAMES: Final = frozenset(field.name for field in attrs.fields(Terms))


def _make_terms(parts: Parts, given: Mapping[str, Any]) -> Terms:
    check_options("a session", given)
    chosen = {name: value for name, value in given.items() if value is not None}
    # Checked as settings are, so that an invalid value raises the same error in both places.
    settings = (
        attrs.evolve(parts.services.settings(), **chosen) if chosen else parts.services.settings()
    )
    return parts.services.settings.terms_of(settings)


async def fork(
    parts: Parts, session_id: SessionId, at_turn: str | None, name: str | None
) -> SessionId:
    """Create a fork and return its id; see `Session.fork`."""
    if at_turn is not None:
        check_text("at_turn", at_turn)
    if name is not None:
        check_session_name(name)
    stored = await parts.registry.stored(session_id)
    records = await parts.services.all_records(session_id)
    if at_turn is not None:
        records = _up_to_turn(records, at_turn)
    else:
        ended = {None, *(record.turn_id for record in records if record.kind == "turn_ended")}
        records = [record for record in records if record.turn_id in ended]
    limits = parts.info(stored.row, last_seq=0).limits
    return await parts.lifecycle.fork(
        stored.row, spec_like(stored.row, limits), messages_from_records(records), name=name
    )


def _up_to_turn(records: list[Record], at_turn: str) -> list[Record]:
    for index, record in enumerate(records):
        if record.kind == "turn_ended" and record.turn_id == at_turn:
            return records[: index + 1]
    raise InputRefused(
        f"no turn {short_repr(at_turn)} has ended in this session",
        hint="give a turn_id from history(), or None to fork at the end",
    )
