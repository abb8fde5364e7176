"""Waiting for what becomes of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.errors import InputRefused, shown
from supervisor.core.ids import InputId, SessionId
from supervisor.core.records import Record
from supervisor.core.session import Phase
from supervisor.sessions.shell.results import Pending, Results, TurnResult, settle_from_records

from .shapes import InputState, status_of

if TYPE_CHECKING:
    from supervisor.sessions.house.house import House


class ResultOf:
    """For `with`: be told what becomes of the input, from now on."""

    __slots__ = ("_house", "_pending", "_results", "_seat")

    def __init__(self, house: House, session_id: SessionId, input_id: InputId) -> None:
        self._house = house
        self._seat = house.tree.seat(session_id)
        if self._seat.results is None:
            self._seat.results = Results()
        self._results = self._seat.results
        self._pending = Pending(input_id)

    def __enter__(self) -> Pending:
        self._results.add(self._pending)
        return self._pending

    def __exit__(self, *_: object) -> None:
        self._results.remove(self._pending)
        self._house.tree.let_go(self._seat)


async def wait_for_result(house: House, session_id: SessionId, input_id: InputId) -> TurnResult:
    """See `Session.result`."""
    with ResultOf(house, session_id, input_id) as pending:
        await house.tree.row(session_id)  # raises if it is not there
        seat = house.tree.seat(session_id)
        published = seat.published
        settle_from_records(pending, await _fate(house, session_id, input_id))
        if seat.published != published and not pending.happened.is_set():
            # While we read, nobody could tell us of the end of a turn that we did not know of.
            settle_from_records(pending, await _fate(house, session_id, input_id))
        await _look_whether_it_is_held(house, session_id, pending)
        return await pending.wait()


async def state_of_input(house: House, session_id: SessionId, input_id: InputId) -> InputState:
    """See `Session.input`."""
    row = await house.tree.row(session_id)
    fate = await _fate(house, session_id, input_id)
    pending = Pending(input_id)
    settle_from_records(pending, fate)
    settled = next((one.body["outcome"] for one in fate if one.kind == "input_settled"), None)
    waiting = row.find_input(input_id) if settled is None else None
    if waiting is not None and row.phase is Phase.STOPPED:
        pending.held_by(row)
    result, error = pending.outcome
    return InputState(
        id=input_id,
        session_id=session_id,
        status=settled or ("queued" if waiting is None else status_of(waiting)),
        position=None if waiting is None else row.position(input_id),
        turn_id=pending.turn,
        result=result,
        code=None if error is None else error.code,
        detail=None if error is None else error.args[0],
        hint=None if error is None else error.hint,
    )


async def _fate(house: House, session_id: SessionId, input_id: InputId) -> list[Record]:
    """The records about the input; raises `InputRefused` if it never was accepted."""
    fate = await house.store.records_of_input(session_id, input_id)
    if not fate:
        raise InputRefused(
            f"session {session_id} has accepted no input {shown(input_id)}",
            hint="the receipt of send() has the id",
        )
    return fate


async def _look_whether_it_is_held(house: House, session_id: SessionId, pending: Pending) -> None:
    """One that has stopped, and was not brought back while we looked, runs nothing by itself."""
    row = await house.tree.row(session_id)
    seat = house.tree.seat(session_id)
    now = row if seat.session is None else seat.session
    if seat.start is None and now.phase is Phase.STOPPED:
        pending.held_by(now)
