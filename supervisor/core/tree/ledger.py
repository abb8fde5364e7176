"""The ledger: who stands below whom, what everybody has, and what was spent.

Rule 1: one place for each session, taken and given back by setting where it stands to what its row
        says. Before a commit only what takes room counts, after it everything.
Rule 2: a session that has no parent, no child and no budget is not in the ledger, only in `live`.
Rule 3: `now` is a clock for durations, `at` the time that people read; both come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from supervisor.core.ids import SessionId, TurnId
from supervisor.core.session import Lifetime, Phase, Session, Spending, Usage

from .member import ROOM, Member, Run, Standing, standing_of, wants_a_turn


class Ledger:
    """All members, and what all sessions share."""

    def __init__(self, process_agents: frozenset[str] = frozenset()) -> None:
        # Agents of these names are processes, each for as long as its session is awake.
        self.process_agents = process_agents
        # Invariant: every session of such an agent that is not at rest, from its admission on.
        self.processes: set[SessionId] = set()
        self._members: dict[SessionId, Member] = {}
        # Pages of sessions that were deleted before we knew them, for who is still below them.
        self._gone: dict[SessionId, Member] = {}
        # Invariant: every session that is not stopped, from its admission on.
        self.live: set[SessionId] = set()
        # Invariant: every turn that runs, and every place for one that is promised.
        self.turns: dict[SessionId, Run] = {}

    def find(self, session_id: SessionId) -> Member | None:
        """Its page, if it has one."""
        return self._members.get(session_id)

    # Pages --------------------------------------------------------------------------------

    def enter(self, session: Session) -> Member:
        """The session's page, made from its row if there is none; its parent's is there before.

        So are the pages of those above it that were deleted; see `remember`.
        """
        member = self._members.get(session.id)
        if member is None:
            lineage = session.lineage
            parent = self._page_above(session)
            member = self._add(session.id, parent, lineage.depth, lineage.lifetime)
            member.on_end = lineage.on_end
            member.role = lineage.role
            member.expires_at = lineage.expires_at
            member.agent = session.agent_name
            member.name = session.name
            member.permissions = session.permissions
            member.workspace = session.workspace
            member.limits = session.limits
            member.is_stopping = session.phase is Phase.STOPPING
            member.told_over = session.phase is Phase.STOPPED
            member.told_done = session.family.outcome is not None
            self._count_spawns(member, 1 + session.family.deleted_spawns)
            member.spawns += session.family.deleted_spawns
            self._spend(member, session.family.deleted)
            self._stand(member, standing_of(session))
            self._set_own(member, session.spending)
            run = self.turns.get(session.id)
            if run is not None and run.turn is not None:
                self._count_run(member, run, 1)
        return member

    def _page_above(self, session: Session) -> Member | None:
        """Its parent's page, which is there also if that one was deleted; see `remember`."""
        lineage = session.lineage
        if lineage.parent is None:
            return None
        return self._members.get(lineage.parent) or self._gone.get(lineage.parent)

    def remember(self, above: Sequence[SessionId]) -> None:
        """A page for each of these that was deleted, the root first: who is left still counts.

        Nobody finds such a page, and it is over; so nothing comes back below it.
        """
        parent: Member | None = None
        for depth, session_id in enumerate(above):
            page = self._members.get(session_id) or self._gone.get(session_id)
            if page is None:
                page = self._gone[session_id] = Member(session_id, parent, depth, "with_parent")
            parent = page

    def _add(
        self, session_id: SessionId, parent: Member | None, depth: int, lifetime: Lifetime
    ) -> Member:
        # One that could not be read, and can be now, has the page under which its children stand.
        member = self._gone.pop(session_id, None) or Member(session_id, parent, depth, lifetime)
        member.lifetime = lifetime
        self._members[session_id] = member
        return member

    def is_missed(self, session_id: SessionId) -> bool:
        """Whether others stand below it, and it is not here."""
        return session_id in self._gone

    def take_place(self, session_id: SessionId, agent: str) -> None:
        """A session is to begin: from now on it counts."""
        self.live.add(session_id)
        if agent in self.process_agents:
            self.processes.add(session_id)

    def admit(
        self, session_id: SessionId, parent: Member, lifetime: Lifetime, *, agent: str = ""
    ) -> Member:
        """A page for a child that is to begin: from now on it takes its place."""
        member = self._add(session_id, parent, parent.depth + 1, lifetime)
        self.take_place(session_id, agent)
        self._count_spawns(member, 1)
        self._stand(member, "admitted")
        self.turns[session_id] = Run(None, 0.0)
        return member

    def count_as_youngest(self, session_id: SessionId) -> None:
        """Its start is on record: it stands after all its siblings, however they were admitted."""
        member = self._members.get(session_id)
        siblings = {} if member is None or member.parent is None else member.parent.children
        if member is not None and siblings.pop(session_id, None) is not None:
            siblings[session_id] = member

    def withdraw(self, session_id: SessionId) -> None:
        """The child that was admitted never began."""
        member = self._members.pop(session_id, None)
        self._leave(session_id)
        self.turns.pop(session_id, None)
        if member is not None:
            self._stand(member, "over")
            self._count_spawns(member, -1)

    def delete(self, session_id: SessionId) -> None:
        """Nothing is left of a session that is over; what it has spent stays spent.

        Whoever is still below it keeps its page, which nobody else finds any more: they are
        counted further up as before.
        """
        self._leave(session_id)
        self._release(session_id)
        member = self._members.pop(session_id, None)
        if member is not None:
            self._stand(member, "over")

    # What rows say ------------------------------------------------------------------------

    def foresee(self, session: Session, now: float) -> None:
        """A row that is about to be written: what takes room takes it now."""
        if session.phase is not Phase.STOPPED:
            self.live.add(session.id)
        if not session.is_at_rest and session.agent_name in self.process_agents:
            self.processes.add(session.id)
        if session.turn is not None:
            self._run(session.id, session.turn.id, now)
        member = self._members.get(session.id)
        if member is not None:
            standing = standing_of(session)
            if ROOM[standing] > ROOM[member.standing]:
                self._stand(member, standing)
            self._set_own(member, self._own(session))
            member.is_stopping = member.is_stopping or session.phase is Phase.STOPPING
            member.is_ending = standing == "over"

    def settle(self, session: Session, now: float) -> None:
        """A row that is written: all it says is so."""
        member = self._members.get(session.id)
        self._restore(session)
        if session.phase is Phase.STOPPED:
            self._leave(session.id)
        else:
            self.take_place(session.id, session.agent_name)
            if session.phase is Phase.SUSPENDED:
                self.processes.discard(session.id)
        if session.turn is not None:
            self._run(session.id, session.turn.id, now)
        elif not (self._is_promised(session.id) and wants_a_turn(session)):
            self._release(session.id)
        if member is None:
            return
        self._stand(member, standing_of(session))
        self._set_own(member, self._own(session))
        member.limits = session.limits
        member.is_stopping = session.phase is Phase.STOPPING
        if member.is_ending and member.standing != "over" and member.parent is not None:
            member.parent.back_in_line(member)
        if member.standing == "over":
            member.is_in_line = False
        member.is_ending = False

    def settle_resting(self, session_ids: Iterable[SessionId]) -> None:
        """These are suspended, and nobody else is concerned by them."""
        self.live.update(session_ids)

    def report(self, session_id: SessionId, turn: TurnId, usage: Usage) -> None:
        """An agent says what it has used; that counts before it is written."""
        run = self.turns.get(session_id)
        member = self._members.get(session_id)
        if run is not None and member is not None and run.turn == turn:
            run.reported += usage
            tokens = usage.input_tokens + usage.output_tokens
            self._set_own(member, member.own + Spending(0, tokens, usage.cost))

    def promise(self, session_id: SessionId) -> None:
        """Keep a place for the session's next turn."""
        self.turns.setdefault(session_id, Run(None, 0.0))

    def ran_seconds(self, session_id: SessionId, now: float) -> float | None:
        """For how long its turn has run."""
        run = self.turns.get(session_id)
        return None if run is None or run.turn is None else now - run.began

    def _leave(self, session_id: SessionId) -> None:
        self.live.discard(session_id)
        self.processes.discard(session_id)

    # Inside -------------------------------------------------------------------------------

    def _is_promised(self, session_id: SessionId) -> bool:
        run = self.turns.get(session_id)
        return run is not None and run.turn is None

    def _own(self, session: Session) -> Spending:
        """What the row says, and what its agent has said since."""
        spending = session.spending
        run = self.turns.get(session.id)
        if run is None or session.turn is None or run.turn != session.turn.id:
            return spending
        said, written = run.reported, session.turn.usage
        tokens = said.input_tokens + said.output_tokens
        tokens -= written.input_tokens + written.output_tokens
        return spending + Spending(0, max(0, tokens), max(0.0, said.cost - written.cost))

    def _stand(self, member: Member, standing: Standing) -> None:
        before, member.standing = member.standing, standing
        parent = member.parent
        if parent is None:
            return
        was_up, is_up = ROOM[before] > 1, ROOM[standing] > 1
        parent.up += is_up - was_up
        was_there, is_there = before != "over", standing != "over"
        if member.lifetime == "with_parent":
            parent.bound += is_there - was_there
            parent.company += is_up - was_up
        if was_there != is_there:
            for one in parent.path():
                one.descendants += is_there - was_there
            if is_there:
                parent.children[member.id] = member
            else:
                del parent.children[member.id]

    @staticmethod
    def _count_spawns(member: Member, count: int) -> None:
        if member.parent is not None:
            for one in member.parent.path():
                one.spawns += count

    def _set_own(self, member: Member, own: Spending) -> None:
        before, member.own = member.own, own
        if before != own:
            change = Spending(
                own.turns - before.turns,
                own.tokens - before.tokens,
                own.cost - before.cost,
                own.wall_seconds - before.wall_seconds,
            )
            self._spend(member, change)

    @staticmethod
    def _spend(member: Member, change: Spending) -> None:
        for one in member.path():
            one.spent += change

    def _run(self, session_id: SessionId, turn: TurnId, now: float) -> None:
        run = self.turns.get(session_id)
        if run is not None and run.turn == turn:
            return
        self._release(session_id)
        self._put(session_id, Run(turn, now))
        self.turns[session_id].displaced = run

    def _put(self, session_id: SessionId, run: Run) -> None:
        self.turns[session_id] = run
        run.displaced = None
        member = self._members.get(session_id)
        if member is not None and run.turn is not None:
            self._count_run(member, run, 1)

    def _restore(self, session: Session) -> None:
        """If what was foreseen for the session is not what was written, undo it."""
        run = self.turns.get(session.id)
        if run is None:
            return
        before, run.displaced = run.displaced, None
        written = session.turn.id if session.turn is not None else None
        if before is not None and run.turn != written:
            self._release(session.id)
            self._put(session.id, before)

    def _release(self, session_id: SessionId) -> None:
        run = self.turns.pop(session_id, None)
        member = self._members.get(session_id)
        if run is not None and run.turn is not None and member is not None:
            self._count_run(member, run, -1)

    @staticmethod
    def _count_run(member: Member, run: Run, count: int) -> None:
        for one in member.path():
            one.running += count
            one.began_sum += count * run.began
