"""Waiting for what becomes of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.core.errors import InputRefused
from supervisor.core.ids import InputId, SessionId
from supervisor.core.session import Phase
from supervisor.sessions.shell.results import Pending, Results, TurnResult, settle_from_records

if TYPE_CHECKING:
    from supervisor.sessions.house import House


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
        records = await house.tree.all_records(session_id)
        if not any(
            record.kind == "input_accepted" and record.body["input_id"] == input_id
            for record in records
        ):
            raise InputRefused(
                f"session {session_id} has accepted no input {input_id!r}",
                hint="the receipt of send() has the id",
            )
        settle_from_records(pending, records)
        await _catch_up(house, session_id, pending, read=len(records))
        await _look_whether_it_is_held(house, session_id, pending)
        return await pending.wait()


async def _look_whether_it_is_held(house: House, session_id: SessionId, pending: Pending) -> None:
    """One that has stopped, and was not brought back while we looked, runs nothing by itself."""
    row = await house.tree.row(session_id)
    seat = house.tree.seat(session_id)
    now = row if seat.session is None else seat.session
    if seat.start is None and now.phase is Phase.STOPPED:
        pending.held_by(now)


async def _catch_up(house: House, session_id: SessionId, pending: Pending, *, read: int) -> None:
    """Read what was published while we read: nobody told us then in which turn the input is."""
    seat = house.tree.seat(session_id)
    while not pending.happened.is_set() and seat.published is not None and seat.published > read:
        records = await house.store.records(session_id, after=read)
        if not records:
            return  # it is gone
        settle_from_records(pending, records)
        read = records[-1].seq
