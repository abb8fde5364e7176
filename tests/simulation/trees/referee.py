"""Judges the whole tree at every commit: caps, budgets, ends, permissions, news.

Rule 1: as for one session (`sessions.referee`): commits are believed, and nothing else.
Rule 2: what the desk keeps may be more than what is written, for places are taken before commits;
        never less, and never more than is allowed. When all is quiet it is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from supervisor import Limits, Permissions, Phase, Record
from supervisor.core.permissions import MODES, RIGHTS
from supervisor.core.tree.member import Member
from supervisor.sessions.house.house import House
from supervisor.store.port import Write
from tests.simulation.sessions.referee import Book, Referee

from .pages import Page, Told, is_close

if TYPE_CHECKING:
    from .doorkeepers import Doorkeepers

# The most that the cast ever reports at once.
MOST_TOKENS: Final = 5
MOST_COST: Final = 0.5
# What these records say is progress; of the rest the cast tells, for text is written down later.
PROGRESS: Final = frozenset(
    {
        "turn_started",
        "turn_ended",
        "tool_call",
        "tool_ended",
        "permission_asked",
        "permission_answered",
    }
)
ROUNDING_SECONDS: Final = 1e-6


@attrs.define(eq=False)
class TreeReferee(Referee):
    """All sessions of one run, and the tree that they make."""

    house: House | None = None
    pages: dict[str, Page] = attrs.Factory(dict)
    live: set[str] = attrs.Factory(set)
    running: set[str] = attrs.Factory(set)
    # Set when writes were lost on purpose: then what agents said last may be lost too.
    was_troubled: bool = False
    # Whom an agent waits for, and since when, by its session.
    awaits: dict[str, list[tuple[str, float]]] = attrs.Factory(dict)
    # When anything came of a session's turns, and whether it was called stalled since.
    progress: dict[str, list[float]] = attrs.Factory(dict)
    stalled: set[str] = attrs.Factory(set)
    # What agents were told of their children.
    read: dict[str, list[tuple[str, str]]] = attrs.Factory(dict)
    # Hooks that have a say in everything, if there are any.
    doors: Doorkeepers | None = None

    def look_into(self, house: House) -> None:
        """From now on the desk's ledger is judged too."""
        self.house = house

    # One commit -----------------------------------------------------------------------------

    def committed(self, write: Write) -> None:
        if self.house is not None:
            few = self.house.settings.max_running_turns < 100
            self.turns_are_scarce = few or self.house.tree.is_leaving
        super().committed(write)
        # The child first: what its parent says of it, in the same commit, has happened by then.
        for part in (write.also, write):
            if part is not None:
                self._turn_page(part, write)
        for part in (write, write.also):
            if part is not None and part.session_id in self.pages:
                self._judge(self.pages[part.session_id])
        self._judge_process()

    def _turn_page(self, part: Write, whole: Write) -> None:
        book = self.book(part.session_id)
        row = book.row
        assert row is not None
        page = self.pages.get(part.session_id)
        if page is None:
            page = self._begin(book, part, whole)
            if self.doors is not None:
                self.doors.begins(page, book)
        was_done = page.row.family.outcome is not None
        happened: list[Told] = []
        for record in part.records:
            self._note(page, book, record, happened)
        # What is done on the way to the end is told with the end.
        ends = row.phase in (Phase.STOPPING, Phase.STOPPED)
        if row.family.outcome is not None and not was_done and not ends:
            happened.append("done")
        page.became += happened
        page.turn_to(row)
        if any(record.kind == "session_started" for record in part.records):
            self._judge_promise(page, book)
        for members, belongs in ((self.live, page.is_live), (self.running, page.is_running)):
            if belongs:
                members.add(page.id)
            else:
                members.discard(page.id)

    def _begin(self, book: Book, part: Write, whole: Write) -> Page:
        row = book.row
        assert row is not None
        lineage = row.lineage
        parent = self.pages.get(lineage.parent) if lineage.parent is not None else None
        page = self.pages[book.id] = Page(book.id, parent, row)
        page.begin()
        if lineage.parent is None:
            return page
        page.became.append("started")
        if parent is None or parent.is_gone:
            book.check(promise=False, words="it began below nobody")
            return page
        said = [
            record
            for record in whole.records
            if record.kind == "child_started" and record.body["child"] == book.id
        ]
        together = part is whole.also and whole.session_id == lineage.parent
        book.check(together and len(said) == 1, "it began, and its parent does not say so")
        book.check(
            parent.row.phase not in (Phase.STOPPED, Phase.STOPPING),
            f"it began below one that is {parent.row.phase}",
        )
        book.check(
            lineage.depth == parent.row.lineage.depth + 1
            and lineage.root == (parent.row.lineage.root or parent.id),
            "it stands at another place than below its parent",
        )
        book.check(
            lineage.depth <= parent.rules.max_depth,
            f"it is {lineage.depth} deep, {parent.rules.max_depth} are allowed",
        )
        excess = [*widened(parent.row.permissions, row.permissions)]
        book.check(not excess, f"it may do more than its parent: {excess}")
        above = parent.row.workspace
        inside = above is None or f"{row.workspace}/".startswith(f"{above}/")
        book.check(inside, f"it works in {row.workspace}, outside of {above}")
        return page

    def _note(self, page: Page, book: Book, record: Record, happened: list[Told]) -> None:
        match record.kind:
            case "session_stopped":
                happened.append("over")
                self._judge_end(page, book)
            case "session_resumed" if not record.body["woken"]:
                happened.append("started")
                page.restarted_at.clear()  # whoever comes back has all its chances again
                self._judge_return(page, book)
            case "child_started" | "child_ended":
                self._judge_news(book, record)
            case "agent_restarting":
                self._judge_restart(page, book, record)
            case "stalled":
                self._judge_stall(book, record)
            case "progress_resumed" | "turn_ended":
                self.stalled.discard(book.id)
        if record.kind in PROGRESS:
            self._progressed(book.id, record.at)
        if self.doors is not None:
            self.doors.happens(page, book, record)

    # What a record may say --------------------------------------------------------------------

    def _judge_end(self, page: Page, book: Book) -> None:
        left = [child.id for child in page.children.values() if child.is_live]
        left = [one for one in left if self.pages[one].ends_with_parent]
        book.check(not left, f"it ended before its children {left}")
        if book.cause == "parent_stopped" and page.parent is not None:
            siblings = [one for one in page.parent.children.values() if one.ends_with_parent]
            younger = siblings[siblings.index(page) + 1 :] if page.is_on_record else []
            first = [one.id for one in younger if one.is_live and one.is_on_record]
            book.check(not first or self.was_troubled, f"it ended before the younger {first}")

    def _judge_return(self, page: Page, book: Book) -> None:
        page.is_on_record = False
        if page.ends_with_parent:
            assert page.parent is not None
            book.check(
                page.parent.is_live and page.parent.row.phase is not Phase.STOPPING,
                "it came back, and its parent is over",
            )
        spent = [*self._spent_above(page)]
        book.check(not spent, f"it came back with nothing left of {spent}")

    def _judge_news(self, book: Book, record: Record) -> None:
        child = self.pages.get(record.body["child"])
        if child is None or child.parent is None or child.parent is not self.pages.get(book.id):
            book.check(promise=False, words=f"it was told of {record.body['child']}")
            return
        if record.kind == "child_started":
            child.told.append("started")
            if child.parent.row.stopping is None:  # else their order was settled before it was told
                child.be_on_record()
        else:
            child.told.append("done" if record.body["reason"] is None else "over")
        became = child.became[: len(child.told)]
        book.check(child.told == became, f"of {child.id}, {child.told} was told, {became} was so")

    def _judge_promise(self, page: Page, book: Book) -> None:
        """A child was admitted with a turn to begin with, so it does not stand in line for it."""
        row = page.row
        waits = row.phase is Phase.IDLE and bool(row.inputs) and row.zombie is None
        leaves = self.house is not None and self.house.tree.is_leaving
        came_back = "over" in page.became  # then that promise is as old as the errand
        if page.parent is not None and not book.begun and not leaves and not came_back:
            book.check(not waits, "it was promised a turn, and waits for one")

    def _judge_restart(self, page: Page, book: Book, record: Record) -> None:
        book.check(book.cause is None, "its agent was restarted though it was to stop")
        rule = page.row.terms.restart
        page.restarted_at.append(record.at)
        recent = [at for at in page.restarted_at if record.at - at <= rule.within_seconds]
        book.check(
            rule.policy != "never" and len(recent) <= rule.max_restarts,
            f"its agent was restarted {len(recent)} times, {rule.max_restarts} are allowed",
        )

    def _judge_stall(self, book: Book, record: Record) -> None:
        row = book.row
        assert row is not None
        book.check(book.id not in self.stalled, "it was called stalled twice")
        self.stalled.add(book.id)
        book.check(not book.asked, "it was called stalled while it waits for a person")
        if self.doors is not None:
            return  # what an agent is about to do is no progress before hooks have let it pass
        terms = row.terms
        limit = terms.tool_stalled_after_seconds if book.calls else terms.stalled_after_seconds
        silent = record.at - self._last_progress(book.id, record.at, set())
        book.check(silent >= limit - ROUNDING_SECONDS, f"stalled after {silent:g} s of {limit:g}")

    def _last_progress(self, session_id: str, now: float, seen: set[str]) -> float:
        seen.add(session_id)
        if session_id in self.books and self.books[session_id].asked:
            return now
        # What came since then came while its commit was on the way.
        last = max((at for at in self.progress.get(session_id, ()) if at < now), default=-1.0)
        # Whoever began to wait since then had not when it was looked at.
        for other, since in self.awaits.get(session_id, ()):
            if other not in seen and since < now:
                last = max(last, self._last_progress(other, now, seen))
        return last

    # What must be so after every commit -------------------------------------------------------

    def _judge(self, page: Page) -> None:
        if page.is_live and page.ends_with_parent:
            assert page.parent is not None
            self.check(page.parent.is_live, f"{page.id} lives on without {page.parent.id}")
        for one in page.path():
            self._judge_counts(one)
        if self._desk_is_open:
            for member in self._members_above(page):
                self._judge_member(member)

    def _judge_counts(self, page: Page) -> None:
        rules = page.rules
        self._at_most(f"{page.id}: children", page.up, rules.max_children)
        limits = page.row.limits
        if limits is None:
            return
        self._at_most(f"{page.id}: descendants", page.descendants, limits.max_descendants)
        self._at_most(f"{page.id}: spawns", page.spawns, limits.max_spawns)
        if limits.turns is not None:
            self._at_most(f"{page.id}: turns", page.spent.turns, limits.turns)
        # Agents in our own process are counted as they report, so one report may be too much and no
        # more, however many run.
        for budget, most in (("tokens", MOST_TOKENS), ("cost", MOST_COST)):
            allowed = getattr(limits, budget)
            if allowed is not None:
                spent = getattr(page.spent, budget)
                self._at_most(f"{page.id}: {budget}", spent, allowed + most)

    def _judge_process(self) -> None:
        if not self._desk_is_open:
            return
        assert self.house is not None
        settings, ledger = self.house.settings, self.house.desk.ledger
        for what, written, kept, allowed in (
            ("sessions", self.live, set(ledger.live), settings.max_sessions),
            ("running turns", self.running, set(ledger.turns), settings.max_running_turns),
        ):
            self._at_most(f"{what} that are written", len(written), allowed)
            self._at_most(f"{what} at the desk", len(kept), allowed)
            unknown = written - kept
            self.check(not unknown, f"{what} that the desk does not count: {sorted(unknown)}")

    @property
    def _desk_is_open(self) -> bool:
        """Whether anybody still goes by what it keeps."""
        return self.house is not None and not self.house.tree.is_closed

    def _members_above(self, page: Page) -> Iterator[Member]:
        assert self.house is not None
        member = self.house.desk.ledger.find(page.row.id)
        if member is not None:
            yield from member.path()

    def _judge_member(self, member: Member) -> None:
        page = self.pages.get(member.id)
        limits = member.limits
        self._at_most(f"{member.id}: places for children", member.up, member.rules.max_children)
        if limits is not None:
            self._at_most(f"{member.id}: places below", member.descendants, limits.max_descendants)
            self._at_most(f"{member.id}: promised spawns", member.spawns, limits.max_spawns)
        if page is not None:
            short = [
                name
                for name, mine, theirs in (
                    ("children", page.up, member.up),
                    ("descendants", page.descendants, member.descendants),
                    ("spawns", page.spawns, member.spawns),
                )
                if mine > theirs
            ]
            self.check(not short, f"{member.id}: the desk counts too few {short}")

    def _at_most(self, what: str, used: float, allowed: float) -> None:
        self.check(used <= allowed, f"{what}: {used:g} of {allowed:g}")

    def _spent_above(self, page: Page) -> Iterator[str]:
        for one in page.path():
            yield from (f"{one.id}: {budget}" for budget in spent_of(one))

    def deleted(self, session_id: str) -> None:
        page = self.pages.get(session_id)
        if page is not None:
            book = self.book(session_id)
            page.go()
            self.live.discard(session_id)
            self.running.discard(session_id)
            left = [one.id for one in page.children.values() if one.is_live]
            left = [one for one in left if self.pages[one].ends_with_parent]
            book.check(not left, f"it was deleted before its children {left}")
        super().deleted(session_id)

    # From agents ----------------------------------------------------------------------------

    def moves(self, session_id: str) -> None:
        """An agent is about to put something out, in this very step."""
        if self.house is not None:
            self._progressed(session_id, self.house.clock.now())

    @contextmanager
    def waits(self, session_id: str, child: str) -> Iterator[None]:
        """An agent waits for a child; it is not silent while it does."""
        assert self.house is not None
        awaits = self.awaits.setdefault(session_id, [])
        awaits.append(one := (child, self.house.clock.now()))
        try:
            yield
        finally:
            awaits.remove(one)
            self.moves(session_id)

    def _progressed(self, session_id: str, at: float) -> None:
        self.progress.setdefault(session_id, []).append(at)

    def heard(self, session_id: str, kind: str, child: str) -> None:
        """An agent was told something of a child: each thing once, in the order of the records."""
        read = self.read.setdefault(session_id, [])
        read.append((kind, child))
        if session_id in self.books and not self.was_troubled:
            records = self.books[session_id].records
            news = [
                (record.kind, record.body["child"])
                for record in records
                if record.kind in ("child_started", "child_ended")
            ]
            self.check(
                read == news[: len(read)], f"{session_id}: its agent heard {read[-3:]} of {news}"
            )

    # When all is quiet ----------------------------------------------------------------------

    def judge_at_rest(self) -> None:
        """Nobody moves, and nobody will: whoever waits waits for nothing."""
        assert self.house is not None
        for page in self.pages.values():
            mine, anew = page.counts, page.recount()
            same = mine[:4] == anew[:4] and is_close(mine[4], anew[4])
            self.check(same, f"{page.id}: counted {mine}, recounted {anew}")
            if not page.is_gone:
                self._judge_rest_of(page)
        self._judge_ledger()
        if self.doors is not None:
            self.doors.judge_at_rest()

    def _judge_rest_of(self, page: Page) -> None:
        row = page.row
        rests = row.phase in (Phase.IDLE, Phase.SUSPENDED, Phase.STOPPED)
        self.check(rests, f"{page.id} is {row.phase} for ever")
        assert self.house is not None
        expires_at = row.lineage.expires_at
        late = expires_at is not None and expires_at < self.house.clock.now()
        self.check(not late or not page.is_live, f"{page.id} has outlived its time")
        free = row.zombie is None
        if free and row.phase is Phase.IDLE:
            self.check(not row.inputs, f"{page.id} is idle for ever, with inputs waiting")
        if free and row.phase is Phase.SUSPENDED and row.inputs:
            parent = page.parent
            full = parent is not None and parent.up >= parent.rules.max_children
            self.check(full, f"{page.id} sleeps for ever, with inputs waiting")
        if page.parent is not None and not page.parent.is_gone:
            # One that is archived is read-only, also for news.
            deaf = page.parent.row.archived and page.told == page.became[: len(page.told)]
            self.check(
                deaf or page.told == page.became,
                f"of {page.id}, {page.told} was told at last, {page.became} was so",
            )

    def _judge_ledger(self) -> None:
        assert self.house is not None
        desk = self.house.desk
        ledger = desk.ledger
        self.check(ledger.live == self.live, f"live: {ledger.live ^ self.live} are miscounted")
        self.check(
            set(ledger.turns) == self.running, f"turns: {set(ledger.turns) ^ self.running} are kept"
        )
        self.check(not desk._line, f"{list(desk._line)} wait for a turn for ever")
        sleepers = {one for line in desk._sleepers.values() for one in line}
        waiting = {
            page.id
            for page in self.pages.values()
            if not page.is_gone and page.parent is not None
            if page.row.phase is Phase.SUSPENDED and page.row.inputs
        }
        self.check(sleepers == waiting, f"{sleepers ^ waiting} are miscounted as sleepers")
        for name in ("_news", "_called"):
            left: dict[str, Any] = getattr(desk.bell, name)
            self.check(not left, f"the desk keeps {name[1:]} of {list(left)} for ever")
        for session_id, member in ledger._members.items():
            page = self.pages.get(session_id)
            if page is None or page.is_gone:
                self.check(promise=False, words=f"the desk keeps a page for {session_id}")
            else:
                self._compare(page, member)
        for page in self.pages.values():
            if page.parent is not None and not page.is_gone:
                there = ledger.find(page.row.id) is not None
                self.check(there, f"the desk has no page for {page.id}")

    def _compare(self, page: Page, member: Member) -> None:
        children = [one.id for one in page.children.values() if one.is_live]
        truth = (page.up, page.descendants, page.spawns, page.running, sorted(children))
        kept = (
            member.up,
            member.descendants,
            member.spawns,
            member.running,
            sorted(member.children),
        )
        self.check(truth == kept, f"{page.id}: the desk has {kept}, the rows say {truth}")
        self.check(
            is_close(page.spent, member.spent),
            f"{page.id}: the desk says {member.spent}, the rows {page.spent}",
        )
        self.check(member.closed == 0, f"{page.id} is closed to spawns for ever")
        self.check(
            member.limits == page.row.limits and member.permissions == page.row.permissions,
            f"{page.id}: the desk goes by other limits or permissions than its row",
        )


def spent_of(page: Page) -> list[str]:
    """Its own budgets of which nothing is left."""
    limits: Limits | None = page.row.limits
    if limits is None:
        return []
    return [
        budget
        for budget in ("turns", "tokens", "cost")
        if getattr(limits, budget) is not None
        and getattr(page.spent, budget) >= getattr(limits, budget)
    ]


def widened(parent: Permissions, child: Permissions) -> Iterator[str]:
    """What a child may do and its parent may not."""
    for right in RIGHTS:
        had, has = getattr(parent, right), getattr(child, right)
        if had is not None and (has is None or not has <= had):
            yield right
    if MODES.index(child.mode or MODES[-1]) > MODES.index(parent.mode or MODES[0]):
        yield "mode"
