"""Who waits for what becomes of an input, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
import trio

from supervisor.core.errors import InputRefused, SessionNotActive, SupervisorError
from supervisor.core.ids import InputId, TurnId
from supervisor.core.records import Record
from supervisor.core.session import Outcome, Phase, Session, Usage


@attrs.frozen
class TurnResult:
    """How a turn ended: `text` is what the agent returned, else all that it said."""

    turn_id: TurnId
    text: str
    outcome: Outcome
    stop_reason: str | None
    usage: Usage
    error: str | None


def result_of(record: Record) -> TurnResult:
    """What a `turn_ended` record says."""
    body = record.body
    return TurnResult(
        turn_id=body["turn_id"],
        text=body["text"],
        outcome=body["outcome"],
        stop_reason=body["stop_reason"],
        usage=Usage(**body["usage"]),
        error=body["error"],
    )


class Pending:
    """An input whose result somebody waits for."""

    __slots__ = ("_result", "happened", "input_id", "turn")

    def __init__(self, input_id: InputId) -> None:
        self.input_id = input_id
        self.turn: TurnId | None = None
        self.happened = trio.Event()
        self._result: TurnResult | SupervisorError | None = None

    def settle(self, result: TurnResult | SupervisorError) -> None:
        """Say what became of it; the first time counts."""
        if self._result is None:
            self._result = result
            self.happened.set()

    def held_by(self, session: Session) -> None:
        """The session has stopped; if it holds the input, that will not run by itself."""
        if session.find_input(self.input_id) is not None:
            self.settle(
                SessionNotActive(
                    f"session {session.id} stopped ({session.stop_reason})"
                    f" and holds input {self.input_id}",
                    hint="resume the session, and the input runs",
                )
            )

    @property
    def outcome(self) -> tuple[TurnResult | None, SupervisorError | None]:
        """The result of its turn, or why there will be none; neither before that is known."""
        if isinstance(self._result, SupervisorError):
            return None, self._result
        return self._result, None

    async def wait(self) -> TurnResult:
        """The result of its turn, or why there is none."""
        await self.happened.wait()
        assert self._result is not None
        if isinstance(self._result, SupervisorError):
            raise self._result
        return self._result


# The kinds of records that say what becomes of an input.
ENDS_OF_INPUTS: Final = frozenset({"turn_started", "input_settled", "turn_ended"})


class Results:
    """All that are waited for in one session."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[InputId, list[Pending]] = {}

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, pending: Pending) -> None:
        """Somebody begins to wait."""
        self._pending.setdefault(pending.input_id, []).append(pending)

    def remove(self, pending: Pending) -> None:
        """They have their answer, or have given up."""
        others = self._pending.get(pending.input_id)
        if others is not None and pending in others:
            others.remove(pending)
            if not others:
                del self._pending[pending.input_id]

    def take(self, record: Record) -> None:
        """One of `ENDS_OF_INPUTS` was published."""
        if not self._pending:
            return
        match record.kind:
            case "turn_started" | "input_settled":
                for pending in self._pending.get(record.body["input_id"], ()):
                    _settle_one(pending, record)
            case "turn_ended":
                for pending in self._all():
                    if pending.turn == record.body["turn_id"]:
                        pending.settle(result_of(record))

    def look_at(self, session: Session) -> None:
        """What a stopped session holds will not run unless somebody resumes it."""
        if self._pending and session.phase is Phase.STOPPED:
            for pending in self._all():
                pending.held_by(session)

    def fail(self, error: SupervisorError) -> None:
        """Nothing will become of any of them."""
        for pending in self._all():
            pending.settle(error)

    def _all(self) -> list[Pending]:
        return [pending for group in self._pending.values() for pending in group]


def _settle_one(pending: Pending, record: Record) -> None:
    body = record.body
    if record.kind == "turn_started":
        pending.turn = body["turn_id"]
    elif body["outcome"] == "steered":
        pending.turn = record.turn_id
    elif body["outcome"] != "delivered":
        detail = f": {body['detail']}" if body["detail"] else ""
        pending.settle(
            InputRefused(
                f"input {pending.input_id} was {body['outcome']}{detail}",
                hint="it never ran, or nobody knows whether it did; send it again if you want it",
            )
        )


def settle_from_records(pending: Pending, records: Iterable[Record]) -> None:
    """The same, for what was published before anybody waited."""
    for record in records:
        if record.kind in ("turn_started", "input_settled"):
            if record.body["input_id"] == pending.input_id:
                _settle_one(pending, record)
        elif record.kind == "turn_ended" and pending.turn == record.body["turn_id"]:
            pending.settle(result_of(record))
