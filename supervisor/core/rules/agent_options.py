"""Rules for options of the agent: what it offers, what the session wants, what it refuses."""

from __future__ import annotations

from typing import Any, Final

import attrs

from supervisor.core.agent_events import OptionRefused
from supervisor.core.agent_options import (
    AgentOption,
    OptionChanges,
    changed_wishes,
    check_agent_options,
    resolve,
)
from supervisor.core.effects import SetOptions
from supervisor.core.errors import InvalidOverride
from supervisor.core.session_values import Source
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Draft

# The phases without an agent, and without one that starts.
_NO_AGENT: Final = frozenset({Phase.SUSPENDED, Phase.STOPPING, Phase.STOPPED})


def note_offer(draft: Draft, offered: tuple[AgentOption, ...]) -> None:
    """Record what the agent offers, if that is news; warn of wishes that it does not offer."""
    session = draft.state
    if _without_current(offered) == _without_current(session.offered) and (
        session.knows_offer or not (offered or session.options)
    ):
        _note_current(draft, offered)
        return
    draft.note("options_changed", by="agent", offered=[_body(option) for option in offered])
    for name, value in session.options.items():
        try:
            resolve(offered, {name: value})
        except InvalidOverride as problem:
            draft.note("warning", text=f"an option that this session wants was not set: {problem}")


def _without_current(offered: tuple[AgentOption, ...]) -> list[AgentOption]:
    return [attrs.evolve(option, current=None) for option in offered]


def _note_current(draft: Draft, offered: tuple[AgentOption, ...]) -> None:
    """Record the current values that differ from the recorded ones."""
    before = {option.id: option.current for option in draft.state.offered}
    changed = {
        option.id: option.current for option in offered if option.current != before[option.id]
    }
    if changed:
        draft.note("options_changed", by="agent", current=changed)


def _body(option: AgentOption) -> dict[str, Any]:
    return {**attrs.asdict(option), "values": list(option.values)}


def options_to_set(session: SessionState, asked: OptionChanges) -> OptionChanges:
    """Return the changes by option id; raise `InvalidOverride` for what the agent does not offer.

    If no agent was attached yet, its offer is unknown, and the changes are returned unchecked.
    Raise `ConfigError` if the session would want too many.
    """
    is_known = session.knows_offer or session.agent is not None
    changes = resolve(session.offered, asked) if is_known else asked
    check_agent_options(changed_wishes(session.options, changes, session.offered))
    return changes


def set_options(draft: Draft, wanted: OptionChanges, by: Source) -> None:
    """Record what the session wants, and have its agent set it."""
    draft.note("options_changed", by=by, options=dict(wanted))
    values = {name: value for name, value in wanted.items() if value is not None}
    if values and draft.state.phase not in _NO_AGENT:
        draft.do(SetOptions(values))


def warn_of_refused_option(draft: Draft, event: OptionRefused) -> None:
    """Record a warning: the agent refused a value, and the session goes on without it."""
    draft.note(
        "warning", text=f"the agent did not set {event.option} to {event.value}: {event.problem}"
    )
