"""The order of the rows of `top`: their needs, groups and sort keys.

Rule 1: a key changes with the row's need or by a value that the user sorts by, not with each row:
        so a session that streams stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

import attrs

from supervisor.core.info import NEEDS, Need, need_of
from supervisor.handles.session_rows import SessionRow

if TYPE_CHECKING:
    from supervisor.core.info import Info

NEED_RANKS: Final = {need: rank for rank, need in enumerate(NEEDS)}
# Needs of a person; a stopped session with one of them stays on the list.
URGENT: Final[frozenset[Need]] = frozenset({"waiting", "hung", "failed", "finished"})

Grouping: TypeAlias = Literal["need", "tree", "workspace", "agent", "tag", "flat"]
GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)
SortBy: TypeAlias = Literal["need", "name", "active", "tokens", "cost", "queue"]
SORTS: Final[tuple[SortBy, ...]] = get_args(SortBy)


def need_of_row(row: SessionRow) -> Need:
    """Return the group of the session in `ps` and `top`."""
    # A row has all that `need_of` reads, under the same names; a test compares them.
    return need_of(cast("Info", row))


@attrs.define(eq=False)
class Entry:
    """A row with what the order needs of it.

    Invariant: `since` changes only with `need`; `TopModel.apply` sets both.
    """

    row: SessionRow
    need: Need
    since: float
    matches: bool = True
    # Whether the session was deleted, or is stopped and needs no person. It leaves at the next
    # layout in which it is not selected.
    is_leaving: bool = False
    is_deleted: bool = False
    # The beginning of the id that no other on the list has, set by the layout; "" before.
    short_id: str = ""

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.row.id


def entered_at(row: SessionRow, need: Need) -> float:
    """Return since when the session is in its group."""
    at: float | None = None
    if need == "waiting":
        at = row.waiting_since
    elif need == "running":
        at = row.turn_started_at
    elif need in URGENT and row.last_outcome is not None:
        at = row.last_outcome.at
    return row.last_active_at if at is None else at


def display_name(entry: Entry) -> str:
    """Return the name of the session, else its short id, which commands take too."""
    return entry.row.name or entry.short_id or entry.row.id


def group_of(entry: Entry, grouping: Grouping) -> str:
    """Return the name of the only group that the row is in."""
    match grouping:
        case "need":
            return entry.need
        case "workspace":
            return entry.row.workspace or "no workspace"
        case "agent":
            return entry.row.agent
        case "tag":
            return min(entry.row.tags, default="no tag")
        case "tree" | "flat":
            return ""


def group_title(name: str, grouping: Grouping) -> str:
    """Return the title of a group: its need in words, the end of a path, or the name."""
    if grouping == "need":
        return _NEED_TITLES[name]
    if grouping == "workspace" and "/" in name:
        return f"{PurePath(name).name or name}  {name}"
    return name


_NEED_TITLES: Final[dict[str, str]] = {
    "waiting": "waiting for you",
    "hung": "hung",
    "failed": "failed",
    "finished": "finished since you looked",
    "running": "running",
    "idle": "idle",
    "resting": "resting",
}

SortKey: TypeAlias = tuple[float | str, ...]

# Ids make every order total, so that equal values do not change places.
_SORT_KEYS: Final[dict[SortBy, Callable[[Entry], SortKey]]] = {
    "need": lambda entry: (NEED_RANKS[entry.need], -entry.since, entry.id),
    "name": lambda entry: (
        float(entry.row.name is None),
        (entry.row.name or "").casefold(),
        entry.id,
    ),
    "active": lambda entry: (-entry.row.last_active_at, entry.id),
    "tokens": lambda entry: (-entry.row.tokens, entry.id),
    "cost": lambda entry: (-entry.row.cost, entry.id),
    "queue": lambda entry: (-entry.row.queued, entry.id),
}


def sort_key(entry: Entry, by: SortBy, grouping: Grouping) -> SortKey:
    """Return the key of an entry inside its group, or among its siblings."""
    if grouping == "tree" and by == "need":
        # A tree keeps its place whatever happens in it; a folded parent shows what does.
        return (
            -entry.row.created_at if entry.row.parent is None else entry.row.created_at,
            entry.id,
        )
    return _SORT_KEYS[by](entry)


def group_key(name: str, grouping: Grouping) -> SortKey:
    """Return the key of a group among the groups."""
    return (NEED_RANKS[name],) if grouping == "need" else (name.casefold(), name)  # type: ignore[index]
