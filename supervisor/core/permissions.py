"""Permissions of a session: six sets of exact names, and a mode that decides requests.

Rule 1: at a root, None means everything and an empty set nothing; below, None means the parent's
        set, and a set must lie inside it. So a child never has more than its parent.
Rule 2: names are compared exactly, because a pattern could be circumvented.
Rule 3: permissions restrict requests that pass through the supervisor. They are not a sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol, TypeAlias, get_args

import attrs

from .errors import ConfigError, SpawnRefused, short_repr

Mode: TypeAlias = Literal["deny_all", "approve_reads", "approve_all"]
ModeAnswer: TypeAlias = Literal["allow", "reject", "ask"]
Right: TypeAlias = Literal[
    "tools",
    "skills",
    "mcp_servers",
    "workspace_paths",
    "network_channels",
    "sandbox_profiles",
]

# From narrow to wide; a child's mode is never to the right of its parent's.
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
DEFAULT_MODE: Final[Mode] = "approve_reads"
READING_KINDS: Final = frozenset({"read", "search"})


def _as_set(names: Iterable[str] | None) -> frozenset[str] | None:
    # A lone text is a sequence of characters to Python, and never intended.
    if names is None or isinstance(names, str) or not isinstance(names, Iterable):
        return names  # type: ignore[return-value]  # refused later, where the field is known
    try:
        # A str subclass (an enum's) would not be read back from a store as the same class.
        return frozenset(str.__str__(name) if isinstance(name, str) else name for name in names)
    except TypeError:  # an item cannot be hashed, and so is not a name
        return tuple(names)  # type: ignore[return-value]


@attrs.frozen(kw_only=True)
class Permissions:
    """Requested rights; a set or mode that is None is chosen by the parent or by the default."""

    tools: frozenset[str] | None = attrs.field(default=None, converter=_as_set)
    skills: frozenset[str] | None = attrs.field(default=None, converter=_as_set)
    mcp_servers: frozenset[str] | None = attrs.field(default=None, converter=_as_set)
    workspace_paths: frozenset[str] | None = attrs.field(default=None, converter=_as_set)
    network_channels: frozenset[str] | None = attrs.field(default=None, converter=_as_set)
    sandbox_profiles: frozenset[str] | None = attrs.field(default=None, converter=_as_set)
    mode: Mode | None = None

    def __attrs_post_init__(self) -> None:
        for right in RIGHTS:
            _refuse_unless_names(right, getattr(self, right))
        if self.mode is not None and (type(self.mode) is not str or self.mode not in MODES):
            raise ConfigError(
                f"permissions.mode is {short_repr(self.mode)}",
                hint=f"choose one of {', '.join(MODES)}",
            )

    def allows(self, right: Right, name: str) -> bool:
        """Return True if that set contains `name`, or is None, which allows every name."""
        names: frozenset[str] | None = getattr(self, right)
        return names is None or name in names


def _refuse_unless_names(right: str, names: object) -> None:
    if names is None:
        return
    if not isinstance(names, frozenset):
        raise ConfigError(
            f"permissions.{right} is {short_repr(names)}, not a list of names",
            hint="give a list: [] for none, None for everything available",
        )
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(
                f"permissions.{right} contains {short_repr(name)}, which is not a name",
                hint="leave it out, or write the exact name",
            )
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ConfigError(
                f"permissions.{right} contains {short_repr(name)}, with a lone surrogate",
                hint="a lone surrogate cannot be stored: decode the name correctly first",
            )


def root_permissions(asked: Permissions) -> Permissions:
    """Return the rights of a root: the requested rights, with the default mode if none is named."""
    return asked if asked.mode is not None else attrs.evolve(asked, mode=DEFAULT_MODE)


def narrow_to_parent(parent: Permissions, asked: Permissions) -> Permissions:
    """Return the rights of a child; raise `SpawnRefused` if they exceed those of `parent`.

    The same function narrows rights at use and after hooks, so the result never exceeds `parent`.
    """
    granted = {
        right: _narrow_right(right, getattr(parent, right), getattr(asked, right))
        for right in RIGHTS
    }
    return Permissions(**granted, mode=_narrow_mode(parent.mode or DEFAULT_MODE, asked.mode))


def intersect_permissions(had: Permissions, cap: Permissions) -> Permissions:
    """Return the rights that both arguments grant."""
    rights = {right: _intersect(getattr(had, right), getattr(cap, right)) for right in RIGHTS}
    modes = [mode for mode in (had.mode, cap.mode) if mode is not None]
    return Permissions(**rights, mode=min(modes, key=MODES.index, default=None))


def _intersect(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _narrow_right(
    right: str, had: frozenset[str] | None, asked: frozenset[str] | None
) -> frozenset[str] | None:
    if asked is None:
        return had
    if had is not None and not asked <= had:
        excess = ", ".join(sorted(asked - had))
        raise _refusal(f"its parent has no right to {right}: {excess}", f"drop it from {right}")
    return asked


def _narrow_mode(had: Mode, asked: Mode | None) -> Mode:
    if asked is None:
        return had
    if MODES.index(asked) > MODES.index(had):
        raise _refusal(f"mode {asked} is wider than its parent's {had}", f"ask for {had}, or less")
    return asked


def _refusal(problem: str, hint: str) -> SpawnRefused:
    return SpawnRefused(problem, hint=hint, limit="permissions")


def may_allow(own: Permissions, rules: Iterable[StoredDecision], tool: str) -> bool:
    """Return True if a session with these rights and rules may use the tool without asking.

    Only such a session may answer a child's permission request for that tool.
    """
    if not own.allows("tools", tool):
        return False
    decisions = [rule.decision for rule in rules if rule.tool == tool]
    if decisions:
        return decisions[-1] == "allow_always"
    return own.mode == "approve_all"


class StoredDecision(Protocol):
    """A stored decision for all further requests of a tool."""

    @property
    def tool(self) -> str:
        """The tool that the decision applies to."""

    @property
    def decision(self) -> str:
        """The decision."""


def answer_by_mode(mode: Mode, kind: str | None, *, inside_workspace: bool) -> ModeAnswer:
    """Return the mode's answer to a request; `ask` leaves the decision to a person.

    `kind` is the agent's description of what the tool does; without it the answer is `ask`.
    `inside_workspace` is True if the request names a path inside the workspace.
    """
    match mode:
        case "deny_all":
            return "reject"
        case "approve_all":
            return "allow"
        case "approve_reads":
            return "allow" if kind in READING_KINDS and inside_workspace else "ask"
