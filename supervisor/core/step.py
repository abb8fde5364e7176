"""A step, and the draft that a rule builds it with.

A rule gets a `Draft` and adds, in order, facts (`note`), effects (`do`) and the reply (`accept` or
`refuse`). A noted fact is folded at once, so the next line of the rule sees the new state.

Rule 1: the draft folds into one private copy of the state; a copy for each fact made five a turn.
        So a rule that needs a field as it was reads `before`, or the field first.
Rule 2: a fact gets the number that its record will have, because the state names records that a
        person should see. The caller says which number was the last before the step.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from .effects import Effect
from .errors import SessionNotActive, SupervisorError
from .events import Event, RequestEvent
from .facts import Fact
from .fold import FOLDS
from .frozen_struct import FrozenStruct
from .ids import CallId, RequestId, TurnId
from .receipts import InterruptReport, Receipt
from .records import DecidedKind
from .state import SessionState
from .tree.tree_interrupt import TreeInterrupt


class InterruptPending(FrozenStruct):
    """The interrupt has a target; its report follows when the target has ended."""

    turn: TurnId
    call: CallId | None = None


# The id is that of a question.
ReplyValue: TypeAlias = (
    Receipt | InterruptReport | InterruptPending | TreeInterrupt | RequestId | None
)


class Accepted(FrozenStruct):
    """The request is accepted, with a receipt, a report, or None."""

    value: ReplyValue = None


class Refused(FrozenStruct):
    """The request is refused, and nothing has changed."""

    error: SupervisorError


class ResumeNeedsHooks(SessionNotActive):
    """The request would resume the session, and its resume hooks have not been called.

    An internal retry signal: the caller calls the hooks and sends the request again.
    """


Reply: TypeAlias = Accepted | Refused


def reply_value(reply: Reply | None) -> ReplyValue:
    """Return the value of the reply to a request, or raise its refusal."""
    assert reply is not None
    if isinstance(reply, Refused):
        raise reply.error
    return reply.value


class Step(FrozenStruct):
    """The next state, the facts that lead to it, the effects after the commit, and the reply."""

    state: SessionState
    facts: tuple[Fact, ...] = ()
    effects: tuple[Effect, ...] = ()
    reply: Reply | None = None


class Draft:
    """A step under construction."""

    __slots__ = (
        "_effects",
        "_facts",
        "_last_seq",
        "_reply",
        "before",
        "event",
        "state",
        "tree_view",
    )

    def __init__(self, session: SessionState, event: Event, last_seq: int) -> None:
        self.before = session
        self._last_seq = last_seq  # the last number before the step
        # Invariant: `before` until the first fact; then a copy that changes with every fact, and
        # that nothing but this draft and its rule has before `finish`.
        self.state = session
        self.event = event
        self.tree_view = event.tree_view
        self._facts: list[Fact] = []
        self._effects: list[Effect] = []
        self._reply: Reply | None = None

    def note(self, kind: DecidedKind, /, **body: Any) -> None:  # noqa: ANN401 - plain data, see records
        """Add a fact and fold it."""
        facts, event = self._facts, self.event
        if not facts:
            self.state = self.before.with_changes({})
            if isinstance(event, RequestEvent):
                body["request"] = event.fresh
        state = self.state
        if kind == "turn_started":
            turn = body["turn_id"]
        else:
            turn = None if state.turn is None else state.turn.id
        at = event.at
        fact = Fact(kind, at, body, turn, self._last_seq + len(facts) + 1)
        facts.append(fact)
        changes = FOLDS[kind](state, body, fact)
        if changes is not None:
            changes["updated_at"] = at
            state.__dict__.update(changes)

    def do(self, *effects: Effect) -> None:
        """Add effects, to be performed after the commit."""
        self._effects.extend(effects)

    def accept(self, value: ReplyValue = None) -> None:
        """Reply that the request is accepted."""
        self._reply = Accepted(value)

    def refuse(self, error: SupervisorError) -> None:
        """Reply that the request is refused; no fact and no effect may have been added."""
        assert not self._facts
        assert not self._effects
        self._reply = Refused(error)

    def finish(self) -> Step:
        """Return the drafted step."""
        return Step(self.state, tuple(self._facts), tuple(self._effects), self._reply)
