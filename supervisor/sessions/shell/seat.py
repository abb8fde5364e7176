"""A session's seat: what outlives its actor's incarnations, and its sleep.

Who watches, who waits, and the state that was adopted last. The actor publishes here; handles wait
here. Nothing here decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from actors import ActorStopped, MailboxFull, Ref
from supervisor.core.errors import SupervisorError
from supervisor.core.events import ProgressMade
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.core.session import Session
from supervisor.drivers.port import Hindrance
from supervisor.sessions.hooks.told import tell_of_health

from .feed import Delta, Watcher
from .past import KINDS_OF_PAST, Past
from .results import ENDS_OF_INPUTS, Results

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House

    from .log import Log

Condition = Callable[[Session], bool]
NEWS_KINDS: Final = frozenset({"child_started", "child_ended"})


class Wait:
    """Somebody who waits for the session to be in some state, and the state that it was then."""

    __slots__ = ("condition", "error", "happened", "session")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.happened = trio.Event()
        self.session: Session | None = None
        self.error: SupervisorError | None = None


class Start:
    """An actor being started: when that is done, and why it failed if it did."""

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: Exception | None = None


class Seat:
    """One for each session that has an actor, or that somebody watches or waits for."""

    __slots__ = (
        "_waits",
        "_watchers",
        "asks_hooks",
        "awaited",
        "awaits",
        "callers",
        "fenced",
        "hindrance",
        "house",
        "id",
        "is_resting",
        "log",
        "news_read",
        "past",
        "published",
        "ref",
        "results",
        "session",
        "start",
        "turn_over",
        "unread",
    )

    def __init__(self, house: House, session_id: SessionId) -> None:
        self.house = house
        self.id = session_id
        # The actor, from before its start until its end is known.
        self.ref: Ref | None = None
        # When its last turn was over, in running time: who waits for it hears of that.
        self.turn_over = -math.inf
        # Why the actor has ended without having been asked to: somebody else has the session.
        self.fenced: SupervisorError | None = None
        # Set by the actor when it lays itself to rest: no more messages for this one.
        self.is_resting = False
        # The start that is under way, and that everyone who needs the actor waits for.
        self.start: Start | None = None
        # How many wait for that, and will have something to ask; it does not rest before they have.
        self.callers = 0
        # The state as of the last commit, while there is an actor.
        self.session: Session | None = None
        self.log: Log | None = None
        # The last record that was published, by whichever incarnation; None before the first.
        self.published: int | None = None
        self.results: Results | None = None
        self.past: Past | None = None
        # News of children that its agent has not read, and how much it has; None before it looks.
        self.unread: list[Record] | None = None
        self.news_read = 0
        # Whether its turn waits for hooks to have their say.
        self.asks_hooks = False
        # Sessions whose turns the agent of this one waits for, inside its own; None for nobody.
        self.awaits: list[SessionId] | None = None
        # Says what keeps its agent from working, if that is a process.
        self.hindrance: Callable[[], Hindrance | None] | None = None
        # How many agents wait for this one, inside their turns.
        self.awaited = 0
        self._watchers: list[Watcher] | None = None
        self._waits: list[Wait] | None = None

    def now(self) -> float:
        """The stamp for what happens now."""
        return self.house.clock.now()

    @property
    def is_needed(self) -> bool:
        """Whether there is a reason to keep it."""
        return bool(
            self.ref or self.start or self._watchers or self._waits or self.results or self.awaited
        )

    @property
    def is_watched(self) -> bool:
        """Whether anybody would see what is shown."""
        return bool(self._watchers)

    # From the actor -----------------------------------------------------------------------

    def adopt(self, session: Session) -> None:
        """Take over the session's state as of now."""
        if self.house.hooks.has_observers:
            tell_of_health(self.house, self.session, session)
        before, self.session = self.session, session
        if session.turn is None and before is not None and before.turn is not None:
            self.note_end_of_turn()
        if self._waits:
            for wait in [wait for wait in self._waits if wait.condition(session)]:
                self._waits.remove(wait)
                wait.session = session
                wait.happened.set()
        if self.results is not None:
            self.results.look_at(session)

    def publish(self, records: Sequence[Record]) -> None:
        """Tell everyone: these records are durable, which come next."""
        results, past, unread = self.results, self.past, self.unread
        for record in records:
            kind = record.kind
            if self._watchers:
                for watcher in self._watchers:
                    watcher.push(record)
            # Most kinds are nothing to most of them, and a look into a set is less than a call.
            if results is not None and kind in ENDS_OF_INPUTS:
                results.take(record)
            if past is not None and kind in KINDS_OF_PAST:
                past.take(record)
            if unread is not None and kind in NEWS_KINDS:
                unread.append(record)
        if records:
            self.published = records[-1].seq
        self.house.published(records)

    def show(self, delta: Delta) -> None:
        """Tell those who watch: text is on its way."""
        if self._watchers:
            for watcher in self._watchers:
                if not watcher.is_full:  # a call for nothing, a thousand times for each word
                    watcher.push(delta)

    def vacate(self, error: SupervisorError | None = None) -> None:
        """The actor is gone; with an error, nobody will come after it."""
        self.ref = self.session = self.log = self.past = self.unread = None
        self.is_resting = False
        self.fenced = None
        self.house.rouse_readers()  # what was committed and not published is nobody's secret now
        if error is not None:
            for wait in self._waits or ():
                wait.error = error
                wait.happened.set()
            self._waits = None
            if self.results is not None:
                self.results.fail(error)

    def close(self, error: SupervisorError) -> None:
        """There will never be anything any more."""
        self.vacate(error)
        for watcher in self._watchers or ():
            watcher.end()
        self._watchers = None

    async def load_news(self) -> None:
        """Have the news that the agent has not read at hand, from now until the actor is gone."""
        session = self.session
        if self.unread is not None or session is None:
            return
        family = session.family
        if family.news == family.news_read:
            self.unread, self.news_read = [], family.news_read
            return
        records = await self.house.tree.all_records(self.id)
        news = [record for record in records if record.kind in NEWS_KINDS]
        if self.unread is None and self.session is not None and self.log is not None:
            # What was published while we read is in the list; what was not will be added.
            known = [record for record in news if record.seq <= self.log.published]
            self.news_read = self.session.family.news_read
            self.unread = known[self.news_read :]

    def note_end_of_turn(self) -> None:
        """Its turn is over, or as good as: whoever waits for it will hear of that."""
        self.turn_over = self.house.pulse.running_time()

    def progressed(self) -> None:
        """Something has come of its turn; if it was said that nothing does, that is over."""
        log, session = self.log, self.session
        if log is None or log.output is None or not log.progressed():
            return
        if session is not None and session.turn is not None and self.ref is not None:
            event = ProgressMade(turn=session.turn.id, **self.house.stamp())
            try:
                self.ref.tell(event, urgent=True)
            except MailboxFull:
                log.output.is_silent = True  # the next time, then
            except ActorStopped:
                pass

    # From handles -------------------------------------------------------------------------

    def add_wait(self, condition: Condition) -> Wait:
        """Begin to wait until the session is so; that may be at once."""
        wait = Wait(condition)
        if self.session is not None and condition(self.session):
            wait.session = self.session
            wait.happened.set()
            return wait
        if self._waits is None:
            self._waits = []
        self._waits.append(wait)
        return wait

    def remove_wait(self, wait: Wait) -> None:
        """It has happened, or is not waited for any more."""
        if self._waits is not None and wait in self._waits:
            self._waits.remove(wait)

    def add_watcher(self, watcher: Watcher) -> None:
        """From now on it gets what is published."""
        if self._watchers is None:
            self._watchers = []
        self._watchers.append(watcher)

    def text_so_far(self) -> Delta | None:
        """What is on its way into a record."""
        return self.log.text_so_far() if self.log is not None else None

    def remove_watcher(self, watcher: Watcher) -> None:
        """It has gone."""
        if self._watchers is not None and watcher in self._watchers:
            self._watchers.remove(watcher)
