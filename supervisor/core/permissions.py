"""What a session may touch: six sets of exact names, and a mode that answers for people.

Rule 1: at a root, None means everything and an empty set nothing; below, None means what the parent
        has, and a set must lie inside it. So a child never has more than its parent.
Rule 2: names are compared exactly; there are no patterns to get around.
Rule 3: this binds what passes through us. It is no sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol, TypeAlias, get_args

import attrs

from .errors import ConfigError, SpawnRefused, shown

Mode: TypeAlias = Literal["deny_all", "approve_reads", "approve_all"]
Verdict: TypeAlias = Literal["allow", "reject", "ask"]
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
    # A lone text is a list of letters to Python, and never what was meant.
    if names is None or isinstance(names, str) or not isinstance(names, Iterable):
        return names  # type: ignore[return-value]  # refused below, where the field is known
    try:
        # A text of another class (an enum's) would not come back from a store as what it was.
        return frozenset(str.__str__(name) if isinstance(name, str) else name for name in names)
    except TypeError:  # something in it cannot be hashed, and so is no name
        return tuple(names)  # type: ignore[return-value]


@attrs.frozen(kw_only=True)
class Permissions:
    """Rights as somebody asks for them: None leaves a set, or the mode, to whoever grants it."""

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
                f"permissions.mode is {shown(self.mode)}", hint=f"choose one of {', '.join(MODES)}"
            )

    def allows(self, right: Right, name: str) -> bool:
        """Whether `name` is in that set, or the set is everything."""
        names: frozenset[str] | None = getattr(self, right)
        return names is None or name in names


def _refuse_unless_names(right: str, names: object) -> None:
    if names is None:
        return
    if not isinstance(names, frozenset):
        raise ConfigError(
            f"permissions.{right} is {shown(names)}, not a list of names",
            hint="give a list: [] for none, None for all that is to be had",
        )
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(
                f"permissions.{right} has {shown(name)} in it, which names nothing",
                hint="leave it out, or write the exact name",
            )
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ConfigError(
                f"permissions.{right} has {shown(name)} in it, with half of a character",
                hint="a lone surrogate cannot be stored: decode the name properly first",
            )


def at_root(asked: Permissions) -> Permissions:
    """What a root gets: what it asked for, and the default mode if it named none."""
    return asked if asked.mode is not None else attrs.evolve(asked, mode=DEFAULT_MODE)


def within(parent: Permissions, asked: Permissions) -> Permissions:
    """What a child gets of what it asked for, or `SpawnRefused` if that is more than `parent` has.

    The same function narrows at use and after hooks: whatever comes out is inside `parent`.
    """
    granted = {
        right: _share(right, getattr(parent, right), getattr(asked, right)) for right in RIGHTS
    }
    return Permissions(**granted, mode=_share_of_mode(parent.mode or DEFAULT_MODE, asked.mode))


def narrowed(had: Permissions, cap: Permissions) -> Permissions:
    """As much of the one as the other has too."""
    rights = {right: _both(getattr(had, right), getattr(cap, right)) for right in RIGHTS}
    modes = [mode for mode in (had.mode, cap.mode) if mode is not None]
    return Permissions(**rights, mode=min(modes, key=MODES.index, default=None))


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _share(
    right: str, had: frozenset[str] | None, asked: frozenset[str] | None
) -> frozenset[str] | None:
    if asked is None:
        return had
    if had is not None and not asked <= had:
        excess = ", ".join(sorted(asked - had))
        raise _refusal(f"its parent has no right to {right}: {excess}", f"drop it from {right}")
    return asked


def _share_of_mode(had: Mode, asked: Mode | None) -> Mode:
    if asked is None:
        return had
    if MODES.index(asked) > MODES.index(had):
        raise _refusal(f"mode {asked} is wider than its parent's {had}", f"ask for {had}, or less")
    return asked


def _refusal(problem: str, hint: str) -> SpawnRefused:
    return SpawnRefused(problem, hint=hint, limit="permissions")


def may_allow(own: Permissions, rules: Iterable[Answered], tool: str) -> bool:
    """Whether whoever has these rights would need nobody's leave for that tool.

    So much may be allowed to others on their account, and no more.
    """
    if not own.allows("tools", tool):
        return False
    decisions = [rule.decision for rule in rules if rule.tool == tool]
    if decisions:
        return decisions[-1] == "allow_always"
    return own.mode == "approve_all"


class Answered(Protocol):
    """An answer for always."""

    @property
    def tool(self) -> str:
        """For which tool."""

    @property
    def decision(self) -> str:
        """Which it was."""


def answer_by_mode(mode: Mode, kind: str | None, *, inside_workspace: bool) -> Verdict:
    """What the mode answers to a request by itself; `ask` leaves it to a person.

    `kind` is what the agent says the tool does; a tool that says nothing is asked about.
    `inside_workspace` is whether it names a path and that lies inside the workspace.
    """
    match mode:
        case "deny_all":
            return "reject"
        case "approve_all":
            return "allow"
        case "approve_reads":
            return "allow" if kind in READING_KINDS and inside_workspace else "ask"
