"""The lines of `top`: groups of sessions, or trees, in order and with folded parts left out.

Pure: a layout is made of entries and never changed. A line names its session and has nothing of its
row, so that a row is shown with its current values although its line is older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Literal, TypeAlias

import attrs

from supervisor.core.info import Need

from .top_order import NEED_RANKS, Entry, Grouping, SortBy, group_key, group_of, sort_key

GROUP_PREFIX: Final = "group:"


@attrs.frozen
class GroupLine:
    """The heading of a group, which can be selected and folded."""

    key: str
    name: str
    count: int
    is_folded: bool


@attrs.frozen
class SessionLine:
    """A session; `key` is its id.

    `hidden` counts the sessions in its folded part, and `worst` is the most urgent need of them.
    A context line does not match the filter: a session below it does.
    """

    key: str
    depth: int = 0
    fold: Literal["none", "open", "folded"] = "none"
    hidden: int = 0
    worst: Need | None = None
    is_context: bool = False


Line: TypeAlias = GroupLine | SessionLine


@attrs.frozen
class Layout:
    """All lines, and the index of each by its key."""

    lines: tuple[Line, ...] = ()
    index: Mapping[str, int] = attrs.field(factory=dict)

    @staticmethod
    def of(lines: Iterable[Line]) -> Layout:
        """Return the layout of these lines."""
        made = tuple(lines)
        return Layout(made, {line.key: place for place, line in enumerate(made)})


@attrs.frozen
class View:
    """What the user chose: groups, order, and folded groups and sessions by key."""

    grouping: Grouping = "need"
    sort: SortBy = "need"
    is_reversed: bool = False
    folded: frozenset[str] = frozenset()


def lay_out(
    entries: Mapping[str, Entry],
    shown: AbstractSet[str],
    view: View,
    selected: str | None = None,
) -> Layout:
    """Return the layout of the entries `shown`; the others are context at most.

    The selected line stays: an empty group, or a session that has come into a folded one.
    """
    if view.grouping == "tree":
        return Layout.of(_tree_lines(entries, shown, view))
    groups: dict[str, list[Entry]] = {}
    if selected is not None and selected.startswith(GROUP_PREFIX):
        groups[selected.removeprefix(GROUP_PREFIX)] = []
    for key in shown:
        entry = entries[key]
        groups.setdefault(group_of(entry, view.grouping), []).append(entry)
    lines: list[Line] = []
    for name in sorted(groups, key=lambda name: group_key(name, view.grouping)):
        members = _sorted(groups[name], view)
        key = GROUP_PREFIX + name
        is_folded = key in view.folded
        if view.grouping != "flat":
            lines.append(GroupLine(key, name, len(members), is_folded))
        lines += [
            SessionLine(member.id) for member in members if not is_folded or member.id == selected
        ]
    return Layout.of(lines)


def _sorted(entries: list[Entry], view: View) -> list[Entry]:
    return sorted(
        entries,
        key=lambda entry: sort_key(entry, view.sort, view.grouping),
        reverse=view.is_reversed,
    )


def _tree_lines(
    entries: Mapping[str, Entry], shown: AbstractSet[str], view: View
) -> list[SessionLine]:
    kept = _with_ancestors(entries, shown)
    children: dict[str | None, list[Entry]] = {}
    for key in kept:
        parent = entries[key].row.parent
        children.setdefault(parent if parent in kept else None, []).append(entries[key])
    order = _depth_first(children, view)
    hidden, worst = _sums_below(order, children, shown)
    lines = []
    skipped_below: int | None = None
    for entry, depth in order:
        if skipped_below is not None and depth > skipped_below:
            continue
        is_folded = entry.id in view.folded and entry.id in children
        skipped_below = depth if is_folded else None
        fold: Literal["none", "open", "folded"] = "open" if entry.id in children else "none"
        lines.append(
            SessionLine(
                entry.id,
                depth,
                "folded" if is_folded else fold,
                hidden[entry.id] if is_folded else 0,
                worst.get(entry.id) if is_folded else None,
                is_context=entry.id not in shown,
            )
        )
    return lines


def _with_ancestors(entries: Mapping[str, Entry], shown: AbstractSet[str]) -> set[str]:
    kept = set(shown)
    for key in shown:
        parent = entries[key].row.parent
        while parent is not None and parent in entries and parent not in kept:
            kept.add(parent)
            parent = entries[parent].row.parent
    return kept


def _depth_first(children: Mapping[str | None, list[Entry]], view: View) -> list[tuple[Entry, int]]:
    # Not recursive: a tree may be deeper than the stack.
    order = []
    waiting = [(entry, 0) for entry in reversed(_sorted(children.get(None, []), view))]
    while waiting:
        entry, depth = waiting.pop()
        order.append((entry, depth))
        below = _sorted(children.get(entry.id, []), view)
        waiting.extend((child, depth + 1) for child in reversed(below))
    return order


def _sums_below(
    order: list[tuple[Entry, int]],
    children: Mapping[str | None, list[Entry]],
    shown: AbstractSet[str],
) -> tuple[dict[str, int], dict[str, Need]]:
    """Return for each session the number of shown sessions below it, and their worst need."""
    count: dict[str, int] = {}
    worst: dict[str, Need] = {}
    for entry, _ in reversed(order):  # children come before their parents
        below = children.get(entry.id, ())
        count[entry.id] = sum(count[child.id] + (child.id in shown) for child in below)
        needs = [child.need for child in below if child.id in shown]
        needs += [worst[child.id] for child in below if child.id in worst]
        if needs:
            worst[entry.id] = min(needs, key=NEED_RANKS.__getitem__)
    return count, worst
