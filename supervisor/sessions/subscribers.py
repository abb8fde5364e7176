"""Subscribers of one session: watchers, waits for a state, waits for the result of an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import trio

from supervisor.core.errors import InputRefused, SessionNotActive, SupervisorError
from supervisor.core.facts import AnyRecord, as_record
from supervisor.core.ids import InputId, SessionId, TurnId
from supervisor.core.receipts import TurnResult
from supervisor.core.records import Delta
from supervisor.core.state import (
    NO_USAGE,
    STOPPED,
    SessionState,
    Usage,
)
from supervisor.drivers.port import News
from supervisor.store.port import Store

from .feed import ItemReader
from .hooks.notifications import notify_badge
from .inbox import REQUEST_KINDS
from .publisher import Publisher
from .transcript import MAX_CACHED_CHARS, TRANSCRIPT_KINDS, Transcript

StateCondition = Callable[[SessionState], bool]


class StateWait:
    """A wait for a session state, and the state that met the condition."""

    __slots__ = ("condition", "error", "happened", "session")

    def __init__(self, condition: StateCondition) -> None:
        self.condition = condition
        self.happened = trio.Event()
        self.session: SessionState | None = None
        self.error: SupervisorError | None = None


def result_from_record(record: AnyRecord) -> TurnResult:
    """Return the result of the turn that a `turn_ended` record ends."""
    body = record.body
    usage = body["usage"]
    return TurnResult(
        body["turn_id"],
        body["text"],
        body["outcome"],
        body["stop_reason"],
        Usage(**usage) if any(usage.values()) else NO_USAGE,
        body["error"],
        truncated=body.get("truncated", False),
    )


class PendingResult:
    """The result of an input that a caller waits for."""

    __slots__ = ("_result", "input_id", "settled", "turn")

    def __init__(self, input_id: InputId) -> None:
        self.input_id = input_id
        self.turn: TurnId | None = None
        self.settled = trio.Event()
        self._result: TurnResult | SupervisorError | None = None

    def settle(self, result: TurnResult | SupervisorError) -> None:
        """Set the result or the error; ignore later calls."""
        if self._result is None:
            self._result = result
            self.settled.set()

    def fail_if_held(self, session: SessionState) -> None:
        """Set an error if the stopped session has the input queued.

        The input runs only after a resume.
        """
        if session.find_input(self.input_id) is not None:
            self.settle(
                SessionNotActive(
                    f"session {session.id} stopped ({session.stop_reason})"
                    f" and holds input {self.input_id}",
                    hint="resume the session to run the input",
                )
            )

    @property
    def outcome(self) -> tuple[TurnResult | None, SupervisorError | None]:
        """The result of the input's turn, or the error; both None until one is known."""
        if isinstance(self._result, SupervisorError):
            return None, self._result
        return self._result, None

    def wake(self) -> None:
        """Wake the task that waits, although there is no result yet; it may wait again."""
        if self._result is None:
            settled, self.settled = self.settled, trio.Event()
            settled.set()

    async def wait(self) -> TurnResult:
        """Wait for the result of the input's turn; return it, or raise the error."""
        await self.settled.wait()
        return self.value()

    def value(self) -> TurnResult:
        """Return the result, which is known, or raise the error."""
        assert self._result is not None
        if isinstance(self._result, SupervisorError):
            raise self._result
        return self._result


# The results that callers of one session wait for. Several may wait for the same input.
_Results: TypeAlias = dict[InputId, list[PendingResult]]


def _on_turn_started(results: _Results, record: AnyRecord) -> None:
    body = record.body
    for pending in results.get(body["input_id"], ()):
        pending.turn = body["turn_id"]


def _on_turn_ended(results: _Results, record: AnyRecord) -> None:
    turn = record.body["turn_id"]
    for group in results.values():
        for pending in group:
            if pending.turn == turn:
                pending.settle(result_from_record(record))


def _on_input_settled(results: _Results, record: AnyRecord) -> None:
    body = record.body
    outcome = body["outcome"]
    if outcome == "delivered":
        return  # its turn will settle the result
    for pending in results.get(body["input_id"], ()):
        if outcome == "steered":
            pending.turn = record.turn_id
            continue
        detail = f": {body['detail']}" if body["detail"] else ""
        pending.settle(
            InputRefused(
                f"input {pending.input_id} was {outcome}{detail}",
                hint="it did not run, or its outcome is unknown; send it again if needed",
            )
        )


# By kind of record: how a published record settles pending results, or names their turn.
_SETTLE: Final[Mapping[str, Callable[[_Results, AnyRecord], None]]] = {
    "turn_started": _on_turn_started,
    "input_settled": _on_input_settled,
    "turn_ended": _on_turn_ended,
}


def settle_from_records(pending: PendingResult, records: Iterable[AnyRecord]) -> None:
    """Settle the pending result from records that were published earlier."""
    results = {pending.input_id: [pending]}
    for record in records:
        if record.kind in _SETTLE:
            _SETTLE[record.kind](results, record)


# Kinds of records of a parent about its children.
NEWS_KINDS: Final = frozenset({"child_started", "child_ended"})


def news_from_record(record: AnyRecord) -> News:
    """Return the news in a child_started or child_ended record of a parent."""
    body = record.body
    ended = record.kind == "child_ended"
    return News(
        kind="child_ended" if ended else "child_started",
        child=body["child"],
        agent=body["agent"],
        name=body["name"],
        role=body["role"],
        at=record.at,
        outcome=body["outcome"] if ended else None,
        text=body["text"],
        reason=body["reason"] if ended else None,
        detail=body["detail"] if ended else None,
    )


class Subscribers:
    """The readers of one session's records and states; they outlive the session's actor."""

    __slots__ = (
        "_latest",
        "_publisher",
        "_results",
        "_waits",
        "news_read",
        "published_seq",
        "transcript",
        "unread_news",
        "watchers",
    )

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        # Read by the log: without a watcher it makes no deltas.
        self.watchers: list[ItemReader] | None = None
        self._waits: list[StateWait] | None = None
        self._results: _Results | None = None
        # The state adopted last, while there is an actor.
        self._latest: SessionState | None = None
        # The last record published, by any incarnation; None before the first.
        self.published_seq: int | None = None
        # Loaded for the agent on first use; dropped with the actor.
        self.transcript: Transcript | None = None
        # News of children that the agent has not read, and how many it has; None before first use.
        self.unread_news: list[AnyRecord] | None = None
        self.news_read = 0

    def __bool__(self) -> bool:
        return bool(self.watchers or self._waits or self._results)

    # From the actor -----------------------------------------------------------------------

    def adopt(self, before: SessionState | None, session: SessionState) -> None:
        """Settle the waits that the new state meets."""
        hooks = self._publisher.hooks
        if hooks.has_observers:
            notify_badge(hooks, before, session)
        self._latest = session
        if self._waits:
            for wait in [wait for wait in self._waits if wait.condition(session)]:
                self._waits.remove(wait)
                wait.session = session
                wait.happened.set()
        if self._results and session.phase is STOPPED:
            # The queued inputs of a stopped session run only after a resume.
            for group in self._results.values():
                for pending in group:
                    pending.fail_if_held(session)

    def publish(self, records: Sequence[AnyRecord]) -> None:
        """Pass durable records, at least one, to all their readers."""
        if self.watchers:
            for record in records:
                shown = as_record(record)
                for watcher in self.watchers:
                    watcher.push(shown)
        transcript, results, unread = self.transcript, self._results, self.unread_news
        # Each kind concerns at most one reader, and a set lookup costs less than a call.
        for record in records:
            kind = record.kind
            if results and kind in _SETTLE:
                _SETTLE[kind](results, record)
            elif kind in TRANSCRIPT_KINDS and transcript is not None:
                transcript.apply(record)
            elif kind in NEWS_KINDS and unread is not None:
                unread.append(record)
            elif kind in REQUEST_KINDS:
                self._publisher.inbox.apply(record)
        if transcript is not None and transcript.size > MAX_CACHED_CHARS:
            self.transcript = None
        self.published_seq = records[-1].seq
        self._publisher.publish(records, self._latest)

    async def publish_missed(self, store: Store, session_id: SessionId, last_seq: int) -> None:
        """Publish records that an earlier incarnation committed and did not publish."""
        before = self.published_seq
        if before is not None and before < last_seq:
            missed = await store.records(session_id, after=before)
            if missed:
                self.publish(missed)
        self.published_seq = last_seq

    def publish_delta(self, delta: Delta) -> None:
        """Pass streamed text to the watchers."""
        if self.watchers:
            for watcher in self.watchers:
                if not watcher.is_full:  # saves a call per watcher and delta
                    watcher.push(delta)

    def clear(self, error: SupervisorError | None) -> None:
        """Forget the state cached for the session's actor, which has exited.

        With an error, also fail all callers that wait for a state or a result. Watchers stay.
        """
        self._latest = self.transcript = self.unread_news = None
        # Records that were committed and not published may be read now.
        self._publisher.wake_feeds()
        if error is not None:
            for wait in self._waits or ():
                wait.error = error
                wait.happened.set()
            self._waits = None
            for group in (self._results or {}).values():
                for pending in group:
                    pending.settle(error)

    def end_watchers(self) -> None:
        """End all watchers, because no record can follow."""
        for watcher in self.watchers or ():
            watcher.end()
        self.watchers = None

    # From handles -------------------------------------------------------------------------

    def add_wait(self, condition: StateCondition, session: SessionState | None) -> StateWait:
        """Return a wait for the condition, settled at once if `session` meets it."""
        wait = StateWait(condition)
        if session is not None and condition(session):
            wait.session = session
            wait.happened.set()
            return wait
        if self._waits is None:
            self._waits = []
        self._waits.append(wait)
        return wait

    def remove_wait(self, wait: StateWait) -> None:
        """Remove a wait, settled or abandoned."""
        if self._waits is not None and wait in self._waits:
            self._waits.remove(wait)

    def add_watcher(self, watcher: ItemReader) -> None:
        """Push published records to the watcher from now on."""
        if self.watchers is None:
            self.watchers = []
        self.watchers.append(watcher)

    def remove_watcher(self, watcher: ItemReader) -> None:
        """Stop pushing to the watcher."""
        if self.watchers is not None and watcher in self.watchers:
            self.watchers.remove(watcher)

    def add_result(self, pending: PendingResult) -> None:
        """Settle the pending result from records published from now on."""
        if self._results is None:
            self._results = {}
        self._results.setdefault(pending.input_id, []).append(pending)

    def remove_result(self, pending: PendingResult) -> None:
        """Remove a pending result, settled or abandoned; ignore an unknown one."""
        results = self._results or {}
        group = results.get(pending.input_id, [])
        if pending in group:
            group.remove(pending)
            if not group:
                del results[pending.input_id]
