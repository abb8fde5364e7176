"""One step: a decision being drafted, and what comes of it.

A rule gets a `Draft` and says, in order, what is now so (`note`), what is to be done (`do`), and
what whoever asked is told (`accept` or `refuse`). Noting a fact folds it at once, so the next line
of the rule sees the session as it then is.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from .effects import Effect
from .errors import SessionNotActive, SupervisorError
from .events import Asked, Event
from .facts import DecidedKind, Fact
from .folds import fold
from .ids import CallId, TurnId
from .receipts import InterruptReport, Receipt
from .session import Session


@attrs.frozen
class UnderWay:
    """An interrupt found its target; the report comes when that is over."""

    turn: TurnId
    call: CallId | None = None


@attrs.frozen
class Accepted:
    """Yes; with a receipt, a report, or nothing to add."""

    value: Receipt | InterruptReport | UnderWay | None = None


@attrs.frozen
class Refused:
    """No, and nothing has changed."""

    error: SupervisorError


class HooksFirst(SessionNotActive):
    """It would come back for that, and hooks have not been asked whether it may.

    Never leaves the house: whoever asked has them asked, and asks again.
    """


Reply: TypeAlias = Accepted | Refused


@attrs.frozen
class Step:
    """The session as it will be, the facts that make it so, and what is to be done after that."""

    session: Session
    facts: tuple[Fact, ...] = ()
    effects: tuple[Effect, ...] = ()
    reply: Reply | None = None


class Draft:
    """A step in the making."""

    def __init__(self, session: Session, event: Event) -> None:
        self.before = session
        self.session = session
        self.at = event.at
        self.fresh = event.fresh
        self.situation = event.situation
        self._request = event.fresh if isinstance(event, Asked) else None
        self._facts: list[Fact] = []
        self._effects: list[Effect] = []
        self._reply: Reply | None = None

    def note(self, kind: DecidedKind, /, **body: Any) -> None:  # noqa: ANN401 - plain data, see facts
        """Say what is now so."""
        if self._request is not None and not self._facts:
            body["request"] = self._request
        if kind == "turn_started":
            turn = body["turn_id"]
        else:
            turn = self.session.turn.id if self.session.turn else None
        fact = Fact(kind, self.at, body, turn)
        self._facts.append(fact)
        self.session = fold(self.session, fact)

    def do(self, *effects: Effect) -> None:
        """Say what is to be done once it is durable."""
        self._effects.extend(effects)

    def accept(self, value: Receipt | InterruptReport | UnderWay | None = None) -> None:
        """Tell whoever asked: yes."""
        self._reply = Accepted(value)

    def refuse(self, error: SupervisorError) -> None:
        """Tell whoever asked: no. Then nothing may have changed."""
        assert not self._facts
        assert not self._effects
        self._reply = Refused(error)

    def finish(self) -> Step:
        """The step as drafted."""
        return Step(self.session, tuple(self._facts), tuple(self._effects), self._reply)
