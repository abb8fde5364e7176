"""Options of an agent, such as its model: what it offers, and the values that users want.

Rule 1: an offer is known once the agent was attached. Before that a wish is stored unchecked.
Rule 2: a short name means the option of its category: `model` is the option of category `model`,
        `effort` that of category `thought_level`. Without one, it is the option with that id.
Rule 3: the mode of an agent is no permission mode: the agent itself defines its modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from .errors import ConfigError, InvalidOverride, short_repr
from .validation import check_name, encoded_size

OptionValue: TypeAlias = str | bool
# The values by option; None means that the session wants no value any more.
OptionChanges: TypeAlias = Mapping[str, OptionValue | None]

# Short names, and the categories that they stand for.
SHORT_NAMES: Final[Mapping[str, str]] = {
    "mode": "mode",
    "model": "model",
    "effort": "thought_level",
}

MAX_OPTIONS: Final = 50
MAX_OPTIONS_BYTES: Final = 8192
# The options and values that a hint lists.
_MAX_LISTED: Final = 20
_SWITCH_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


@attrs.frozen(kw_only=True)
class AgentOption:
    """An option that the agent of a session offers, and its current value.

    `kind` is `boolean` for a switch, otherwise one of `values` is chosen. `has_more`: the agent
    offers more values than `values` lists.
    """

    id: str
    name: str
    category: str | None = None
    kind: Literal["select", "boolean"] = "select"
    current: OptionValue | None = None
    values: tuple[str, ...] = ()
    has_more: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values as text."""
        if self.kind == "boolean":
            return "true, false"
        return _listed(self.values, has_more=self.has_more) or "none"


def find_option(offered: Iterable[AgentOption], name: str) -> AgentOption | None:
    """Return the offered option that a short name or an id means; None if none is."""
    options = tuple(offered)
    category = SHORT_NAMES.get(name)
    if category is not None:
        for option in options:
            if option.category == category:
                return option
    return next((option for option in options if option.id == name), None)


def fitting_value(option: AgentOption, value: OptionValue) -> OptionValue:
    """Return the value as the option takes it; raise `InvalidOverride` if it is not offered.

    The words true and false are the values of a switch, because a command line has only words.
    """
    if option.kind == "boolean":
        value = _SWITCH_WORDS.get(value, value) if isinstance(value, str) else value
        is_offered = isinstance(value, bool)
    else:
        value = str(value).lower() if isinstance(value, bool) else value
        is_offered = value in option.values or option.has_more
    if not is_offered:
        raise InvalidOverride(
            f"the agent offers no value {short_repr(value)} of its option {option.id}",
            hint=f"choose one of: {option.allowed}",
        )
    return value


def resolve(offered: Iterable[AgentOption], wanted: OptionChanges) -> dict[str, OptionValue | None]:
    """Return the wanted values by the ids of offered options.

    Raise `InvalidOverride` for the first option or value that is not offered.
    """
    options = tuple(offered)
    resolved: dict[str, OptionValue | None] = {}
    for name in by_precedence(wanted):
        value = wanted[name]
        option = find_option(options, name)
        if option is not None:
            resolved[option.id] = None if value is None else fitting_value(option, value)
        elif value is None:
            resolved[name] = None  # of an option that the agent does not offer any more
        else:
            raise InvalidOverride(
                f"the agent offers no option {short_repr(name)}", hint=offer_hint(options)
            )
    return resolved


def by_precedence(names: Iterable[str]) -> list[str]:
    """Return the names with the short ones first: an id that follows takes precedence."""
    return sorted(names, key=lambda name: (name not in SHORT_NAMES, name))


def changed_wishes(
    wishes: Mapping[str, OptionValue], changes: OptionChanges, offered: Iterable[AgentOption]
) -> dict[str, OptionValue]:
    """Return the wishes after the changes; a change replaces every wish for the same option."""
    options = tuple(offered)
    ids = {_id_of(options, name) for name in changes}
    kept = {name: value for name, value in wishes.items() if _id_of(options, name) not in ids}
    return kept | {name: value for name, value in changes.items() if value is not None}


def _id_of(options: tuple[AgentOption, ...], name: str) -> str:
    option = find_option(options, name)
    return name if option is None else option.id


def with_current(
    offered: Iterable[AgentOption], current: Mapping[str, OptionValue | None]
) -> tuple[AgentOption, ...]:
    """Return the offered options with these current values."""
    return tuple(
        attrs.evolve(option, current=current[option.id]) if option.id in current else option
        for option in offered
    )


def offer_hint(offered: Iterable[AgentOption]) -> str:
    """Return the options that an agent offers, with their values, as a hint."""
    texts = [f"{option.id} ({option.allowed})" for option in offered]
    return f"it offers: {_listed(texts)}" if texts else "it offers no options; leave it out"


def changes_text(values: object) -> str:
    """Return the changed options of a record as text, whatever their shape."""
    if not isinstance(values, Mapping):
        return ""
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def value_text(value: object) -> str:
    """Return the value of an option as users write it; None is no wish, or no value."""
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(texts: Iterable[str], *, has_more: bool = False) -> str:
    words = list(texts)
    return ", ".join(words[:_MAX_LISTED]) + (", ..." if has_more or words[_MAX_LISTED:] else "")


def check_agent_options(options: object) -> dict[str, OptionValue | None]:
    """Return the wanted options; raise `ConfigError` unless they are a small mapping.

    An agent that is attached then decides whether it offers them.
    """
    if not isinstance(options, Mapping) or not all(map(_is_option, options.items())):
        raise ConfigError(
            f"options is {short_repr(options)}",
            hint='give a mapping such as {"model": "large"}; values are text, True, False or None',
        )
    size = sum(_size(name, value) for name, value in options.items())
    if len(options) > MAX_OPTIONS or size > MAX_OPTIONS_BYTES:
        raise ConfigError(
            f"options has {len(options)} values of {MAX_OPTIONS} and {size} bytes of "
            f"{MAX_OPTIONS_BYTES} allowed",
            hint="they are written with every step of the session; use fewer",
        )
    return dict(options)


def _is_option(item: tuple[object, object]) -> bool:
    name, value = item
    return isinstance(name, str) and (value is None or isinstance(value, str | bool))


def _size(name: str, value: OptionValue | None) -> int:
    check_name("the name of an option", name)
    if not isinstance(value, str):
        return encoded_size("options", name)
    return encoded_size("options", name) + len(check_name(f"option {name}", value).encode())


def requested_options(
    options: OptionChanges | None, *, model: str | None, effort: str | None
) -> dict[str, OptionValue | None] | None:
    """Return the options that an argument and the two short ones name; None without any."""
    short = {"model": model, "effort": effort}
    named: dict[str, Any] = {name: value for name, value in short.items() if value is not None}
    for name, value in named.items():
        check_name(name, value)
    if options is None and not named:
        return None
    return check_agent_options({} if options is None else options) | named
