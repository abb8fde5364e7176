"""A step, and the draft that a rule builds it with.

A rule gets a `Draft` and adds, in order, facts (`note`), effects (`do`) and the reply (`accept` or
`refuse`). A noted fact is folded at once, so the next line of the rule sees the new state.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import attrs

from .effects import Effect
from .errors import SessionNotActive, SupervisorError
from .events import Event, RequestEvent
from .fold import fold
from .ids import CallId, TurnId
from .receipts import InterruptReport, Receipt
from .records import DecidedKind, Fact
from .state import SessionState
from .tree.tree_interrupt import TreeInterrupt


@attrs.frozen
class InterruptPending:
    """The interrupt has a target; its report follows when the target has ended."""

    turn: TurnId
    call: CallId | None = None


ReplyValue: TypeAlias = Receipt | InterruptReport | InterruptPending | TreeInterrupt | None


@attrs.frozen
class Accepted:
    """The request is accepted, with a receipt, a report, or None."""

    value: ReplyValue = None


@attrs.frozen
class Refused:
    """The request is refused, and nothing has changed."""

    error: SupervisorError


class ResumeNeedsHooks(SessionNotActive):
    """The request would resume the session, and its resume hooks have not been called.

    An internal retry signal: the caller calls the hooks and sends the request again.
    """


Reply: TypeAlias = Accepted | Refused


class Step(NamedTuple):
    """The next state, the facts that lead to it, the effects after the commit, and the reply."""

    state: SessionState
    facts: tuple[Fact, ...] = ()
    effects: tuple[Effect, ...] = ()
    reply: Reply | None = None


class Draft:
    """A step under construction."""

    def __init__(self, session: SessionState, event: Event) -> None:
        self.before = session
        self.state = session
        self.at = event.at
        self.steady_at = event.steady_at
        self.fresh = event.fresh
        self.tree_view = event.tree_view
        self._request = event.fresh if isinstance(event, RequestEvent) else None
        self._facts: list[Fact] = []
        self._effects: list[Effect] = []
        self._reply: Reply | None = None

    def note(self, kind: DecidedKind, /, **body: Any) -> None:  # noqa: ANN401 - plain data, see records
        """Add a fact and fold it."""
        if self._request is not None and not self._facts:
            body["request"] = self._request
        if kind == "turn_started":
            turn = body["turn_id"]
        else:
            turn = self.state.turn.id if self.state.turn else None
        fact = Fact(kind, self.at, body, turn)
        self._facts.append(fact)
        self.state = fold(self.state, fact)

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
