"""The state of `top`: rows in, lines out, and the selected line. Pure: no terminal, no clock.

Rule 1: the selection is a key (the id of a session, or a group), and only the user changes it: by
        `move`, `select`, a fold, or a filter. A session that goes away stays on its line, marked,
        until the user moves; its neighbour is never selected in its place. A filter selects the
        first match unless the selected session matches, so no act hits a session that it hides.
Rule 2: the order is calm. A row shows its new values at once, but lines change places only in
        `lay_out`, which does nothing within `HOLD_SECONDS` of the user's last act in the list, and
        sorts by values that change all the time at most every `RESORT_SECONDS`.
Rule 3: an item costs what its own row costs; `lay_out` does nothing unless an order has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs

from supervisor.cli.session_cells import shorten_ids
from supervisor.core.info import Need
from supervisor.handles.session_rows import (
    RequestClosed,
    RequestOpened,
    SessionGone,
    SessionRow,
    Snapshot,
    StoreChanged,
    WatchItem,
)

from .top_filter import RowFilter, parse_filter
from .top_layout import GROUP_PREFIX, GroupLine, Layout, Line, SessionLine, View, lay_out
from .top_order import (
    GROUPINGS,
    SORTS,
    URGENT,
    Entry,
    Grouping,
    SortBy,
    entered_at,
    group_of,
    need_of_row,
    sort_key,
)

if TYPE_CHECKING:
    from supervisor.sessions.inbox import PermissionRequest
    from supervisor.store.pending import StoreState

HOLD_SECONDS: Final = 1.5
RESORT_SECONDS: Final = 3.0
# Sorts by values that change while a session works.
_VOLATILE: Final[frozenset[SortBy]] = frozenset({"active", "tokens", "cost", "queue"})


@attrs.define(eq=False)
class TopModel:
    """All sessions, requests and choices of the user, and the lines that follow from them."""

    entries: dict[str, Entry] = attrs.field(factory=dict)
    requests: dict[str, PermissionRequest] = attrs.field(factory=dict)
    # The oldest request of each session that has one.
    requests_by_session: dict[str, PermissionRequest] = attrs.field(factory=dict)
    # The number of sessions by need, for those on the list without a filter.
    counts: Counter[Need] = attrs.field(factory=Counter)
    store: StoreState | None = None
    daemon_started_at: float | None = None
    view: View = View()
    row_filter: RowFilter = RowFilter()
    # Whether stopped sessions that need no person are on the list; the screen loads them.
    shows_stopped: bool = False
    layout: Layout = Layout()
    selected: str | None = None
    # The keys of the rows that changed since the screen was drawn.
    changed: set[str] = attrs.field(factory=set)
    # Invariant: True if `layout` may differ from the one of the current entries and choices.
    is_stale: bool = False
    # Whether a session came since the ids were shortened.
    _has_new_ids: bool = False
    _is_forced: bool = False
    _is_volatile_stale: bool = False
    _acted_at: float = float("-inf")
    _sorted_at: float = float("-inf")

    # Items of the stream -------------------------------------------------------------------

    def apply(self, item: WatchItem) -> None:
        """Take one item of `watch_sessions()`; records and deltas change nothing here."""
        match item:
            case SessionRow():
                self._set_row(item)
            case Snapshot():
                self._replace(item)
            case SessionGone():
                self._mark_deleted(item.id)
            case RequestOpened():
                self.requests[item.request.id] = item.request
                self._sort_requests(item.request.session_id)
            case RequestClosed():
                self.requests.pop(item.id, None)
                self._sort_requests(item.session_id)
            case StoreChanged():
                self.store = item.store
            case _:
                pass

    def _replace(self, snapshot: Snapshot) -> None:
        for gone in self.entries.keys() - {row.id for row in snapshot.rows}:
            if not self.entries[gone].is_leaving:
                self._mark_deleted(gone)
            elif gone != self.selected:
                # A snapshot has no stopped sessions; the screen loads them again if they are shown.
                del self.entries[gone]
                self.is_stale = True
        for row in snapshot.rows:
            self._set_row(row)
        self.requests = {one.id: one for one in snapshot.requests}
        self._sort_requests(*self.requests_by_session)
        self.store = snapshot.store
        self.daemon_started_at = snapshot.daemon_started_at

    def add_stopped(self, rows: Iterable[SessionRow]) -> None:
        """Take rows that were asked for; the stream may have sent newer ones meanwhile."""
        for row in rows:
            known = self.entries.get(row.id)
            if known is None or known.is_deleted or known.row.last_seq < row.last_seq:
                self._set_row(row)

    def _sort_requests(self, *sessions: str) -> None:
        """Find the oldest request of each session again, after a request came or went."""
        self.requests_by_session = {}
        for one in sorted(self.requests.values(), key=lambda one: (one.asked_at, one.id)):
            self.requests_by_session.setdefault(one.session_id, one)
        self.changed.update(sessions)

    def _set_row(self, row: SessionRow) -> None:
        need = need_of_row(row)
        is_leaving = row.archived or (row.phase == "stopped" and need not in URGENT)
        self.changed.add(row.id)
        before = self.entries.get(row.id)
        if before is None:
            entry = Entry(row, need, entered_at(row, need), self.row_filter.matches(row))
            entry.is_leaving = is_leaving
            self.entries[row.id] = entry
            self._count(entry, 1)
            self.is_stale = self._has_new_ids = True
            return
        old_key, old_place = self._keys(before)
        self._count(before, -1)
        if need != before.need:
            before.need, before.since = need, entered_at(row, need)
        before.row, before.is_deleted, before.is_leaving = row, False, is_leaving
        before.matches = self.row_filter.matches(row)
        self._count(before, 1)
        new_key, new_place = self._keys(before)
        self.is_stale |= new_place != old_place
        self._is_volatile_stale |= new_key != old_key

    def _keys(self, entry: Entry) -> tuple[object, object]:
        """Return the sort key if it is volatile, and all else that decides where a line is."""
        key = sort_key(entry, self.view.sort, self.view.grouping)
        place = (
            entry.matches,
            entry.is_leaving,
            entry.is_deleted,
            entry.row.parent,
            entry.need if self.view.grouping == "tree" else None,
            group_of(entry, self.view.grouping),
        )
        return (key, place) if self.view.sort in _VOLATILE else (None, (place, key))

    def _mark_deleted(self, session_id: str) -> None:
        entry = self.entries.get(session_id)
        if entry is not None and not entry.is_deleted:
            self._count(entry, -1)
            entry.is_deleted = entry.is_leaving = self.is_stale = True
            self.changed.add(session_id)

    def _count(self, entry: Entry, by: int) -> None:
        if not entry.is_leaving:
            self.counts[entry.need] += by

    # Lines ---------------------------------------------------------------------------------

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of the last layout."""
        return self.layout.lines

    def lay_out(self, now: float) -> bool:
        """Bring the lines in order if that is due; return whether that was done."""
        is_due = self.is_stale or (
            self._is_volatile_stale and now - self._sorted_at >= RESORT_SECONDS
        )
        if not self._is_forced and (not is_due or now - self._acted_at < HOLD_SECONDS):
            return False
        self._forget_leavers()
        self._shorten_ids()
        shown = {key for key, entry in self.entries.items() if self._is_shown(entry)}
        self.layout = lay_out(self.entries, shown, self.view, self.selected)
        self.is_stale = self._is_forced = self._is_volatile_stale = False
        self._sorted_at = now
        if self.selected is None:
            self.selected = self._first_key()
        return True

    def _is_shown(self, entry: Entry) -> bool:
        return entry.id == self.selected or (entry.matches and self._is_listed(entry))

    def _is_listed(self, entry: Entry) -> bool:
        """Return whether the entry is on the list, unless a filter hides it."""
        return not entry.is_leaving or (self.shows_stopped and not entry.is_deleted)

    def count_listed(self) -> tuple[int, int]:
        """Return how many sessions match the filter, and how many there would be without it."""
        listed = [entry for entry in self.entries.values() if self._is_listed(entry)]
        return sum(entry.matches for entry in listed), len(listed)

    def _forget_leavers(self) -> None:
        for key in [
            key for key, entry in self.entries.items() if entry.is_deleted and key != self.selected
        ]:
            del self.entries[key]

    def _shorten_ids(self) -> None:
        if self._has_new_ids:
            for key, short_id in shorten_ids(self.entries).items():
                self.entries[key].short_id = short_id
            self._has_new_ids = False

    def _first_key(self) -> str | None:
        """Return the first session that matches, else the first group, whose part is folded."""
        lines = self.lines
        found = (one.key for one in lines if isinstance(one, SessionLine) and not one.is_context)
        groups = (one.key for one in lines if isinstance(one, GroupLine))
        return next(found, None) or next(groups, None)

    def touch(self, now: float) -> None:
        """Hold the order for a while, because the user acts in the list."""
        self._acted_at = now

    # The selection -------------------------------------------------------------------------

    @property
    def selected_entry(self) -> Entry | None:
        """The entry of the selected session, which may be gone; None for a group."""
        return None if self.selected is None else self.entries.get(self.selected)

    @property
    def selected_index(self) -> int | None:
        """The index of the selected line; None if it is not on the list."""
        return None if self.selected is None else self.layout.index.get(self.selected)

    def select(self, key: str) -> None:
        """Select a session or a group."""
        if key != self.selected:
            self._leave()
            self.selected = key
            # A line that the filter or a fold has left out appears at once.
            self._is_forced |= key not in self.layout.index

    def move(self, by: int) -> None:
        """Select the line that many lines below, or the last or first one.

        The heading of a group is passed over, unless the group is folded.
        """
        if not self.lines:
            return
        last = len(self.lines) - 1
        place = self.selected_index
        target = (0 if by > 0 else last) if place is None else min(max(place + by, 0), last)
        onwards = range(target, last + 1) if by > 0 else range(target, -1, -1)
        back = range(target, -1, -1) if by > 0 else range(target, last + 1)
        for candidate in (*onwards, *back):
            line = self.lines[candidate]
            if not isinstance(line, GroupLine) or line.is_folded:
                self.select(line.key)
                return

    def select_urgent(self) -> bool:
        """Select the next session below, then from the top, that needs a person."""
        start = -1 if self.selected_index is None else self.selected_index
        for line in (*self.lines[start + 1 :], *self.lines[: start + 1]):
            entry = self.entries.get(line.key)
            if entry is not None and entry.need in URGENT and line.key != self.selected:
                self.select(line.key)
                return True
        return False

    def _leave(self) -> None:
        """Let the session that was selected leave its line if it has no place on the list."""
        entry = self.selected_entry
        if entry is not None and (entry.is_leaving or not entry.matches):
            self.is_stale = True

    # Choices of the user -------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show only the sessions that match; select the first unless the selected one matches."""
        self.row_filter = parse_filter(text)
        for entry in self.entries.values():
            entry.matches = self.row_filter.matches(entry.row)
        self._is_forced = True
        selected = self.selected_entry
        is_match = selected is not None and selected.matches and not selected.is_deleted
        if self.row_filter.words and not is_match:
            self.selected = None  # until `lay_out` finds the first match

    def toggle_stopped(self) -> bool:
        """List stopped sessions too, or not; return which."""
        self.shows_stopped = not self.shows_stopped
        self._is_forced = True
        return self.shows_stopped

    def next_grouping(self) -> Grouping:
        """Group by the next of all groupings; return it."""
        chosen = GROUPINGS[(GROUPINGS.index(self.view.grouping) + 1) % len(GROUPINGS)]
        self.set_view(grouping=chosen)
        return chosen

    def next_sort(self) -> SortBy:
        """Sort by the next of all values; return it."""
        chosen = SORTS[(SORTS.index(self.view.sort) + 1) % len(SORTS)]
        self.set_view(sort=chosen)
        return chosen

    def set_view(
        self,
        *,
        grouping: Grouping | None = None,
        sort: SortBy | None = None,
        is_reversed: bool | None = None,
    ) -> None:
        """Change how the lines are grouped and sorted; the selection stays."""
        self.view = attrs.evolve(
            self.view,
            grouping=grouping or self.view.grouping,
            sort=sort or self.view.sort,
            is_reversed=self.view.is_reversed if is_reversed is None else is_reversed,
        )
        self._is_forced = True
        if self.selected is not None and self.selected.startswith(GROUP_PREFIX):
            self.selected = None if grouping else self.selected

    def toggle_fold(self, key: str | None = None) -> None:
        """Fold or unfold a group or the part of a tree below a session; None: the selected one."""
        place = self.layout.index.get(key or self.selected or "", -1)
        if place < 0:
            return
        line = self.lines[place]
        is_folded = line.is_folded if isinstance(line, GroupLine) else line.fold == "folded"
        self.set_fold(line.key, is_folded=not is_folded)

    def set_fold(self, key: str, *, is_folded: bool) -> None:
        """Fold or unfold; if that hides the selected line, select the folded one."""
        folded = self.view.folded
        self.view = attrs.evolve(self.view, folded=folded | {key} if is_folded else folded - {key})
        if is_folded and self.selected in self._keys_below(key):
            self.select(key)
        self._is_forced = True

    def fold_all(self) -> None:
        """Fold everything that can be folded; unfold everything if something is folded."""
        if self.view.folded:
            self.view = attrs.evolve(self.view, folded=frozenset())
        else:
            for line in self.lines:
                if isinstance(line, GroupLine) or line.fold == "open":
                    self.set_fold(line.key, is_folded=True)
        self._is_forced = True

    def container_of(self, key: str) -> str | None:
        """Return the key of the parent's line, or of the line of the group; None at the top."""
        place = self.layout.index.get(key)
        if place is None or isinstance(self.lines[place], GroupLine):
            return None
        depth = getattr(self.lines[place], "depth", 0)
        for line in reversed(self.lines[:place]):
            if isinstance(line, GroupLine) or line.depth < depth:
                return line.key
        return None

    def _keys_below(self, key: str) -> set[str | None]:
        """Return the keys of the lines that folding `key` hides."""
        place = self.layout.index.get(key)
        below: set[str | None] = set()
        if place is None:
            return below
        line = self.lines[place]
        for other in self.lines[place + 1 :]:
            if isinstance(other, GroupLine):
                break
            if isinstance(line, SessionLine) and other.depth <= line.depth:
                break
            below.add(other.key)
        return below
