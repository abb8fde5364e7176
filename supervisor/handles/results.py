"""Results of inputs: wait for one, or read the current state of an input."""

from __future__ import annotations

from supervisor.core.errors import InputRefused, short_repr
from supervisor.core.ids import InputId, SessionId
from supervisor.core.receipts import TurnResult
from supervisor.core.records import Record
from supervisor.core.state import Phase
from supervisor.sessions.registry import SessionRegistry
from supervisor.sessions.subscribers import PendingResult, settle_from_records

from .parts import Parts
from .shapes import InputState, input_status


class ResultWaiter:
    """Context manager that collects the result of an input from now on."""

    __slots__ = ("_pending", "_registry", "_slot")

    def __init__(self, registry: SessionRegistry, session_id: SessionId, input_id: InputId) -> None:
        self._registry = registry
        self._slot = registry.slot(session_id)
        self._pending = PendingResult(input_id)

    def __enter__(self) -> PendingResult:
        self._slot.subscribers.add_result(self._pending)
        return self._pending

    def __exit__(self, *_: object) -> None:
        self._slot.subscribers.remove_result(self._pending)
        self._registry.drop_unused(self._slot)


async def wait_for_result(parts: Parts, session_id: SessionId, input_id: InputId) -> TurnResult:
    """Wait for the result of an input; see `Session.result`."""
    with ResultWaiter(parts.registry, session_id, input_id) as pending:
        await parts.registry.row(session_id)  # raises if the session is unknown
        slot = parts.registry.slot(session_id)
        published = slot.subscribers.published_seq
        settle_from_records(pending, await _input_records(parts, session_id, input_id))
        if slot.subscribers.published_seq != published and not pending.settled.is_set():
            # Records published during the read may end a turn that `pending` did not know yet.
            settle_from_records(pending, await _input_records(parts, session_id, input_id))
        await _fail_if_held(parts, session_id, pending)
        return await pending.wait()


async def find_input_state(parts: Parts, session_id: SessionId, input_id: InputId) -> InputState:
    """Return the current state of an input; see `Session.input`."""
    row = await parts.registry.row(session_id)
    records = await _input_records(parts, session_id, input_id)
    pending = PendingResult(input_id)
    settle_from_records(pending, records)
    settled = next((one.body["outcome"] for one in records if one.kind == "input_settled"), None)
    waiting = row.find_input(input_id) if settled is None else None
    if waiting is not None and row.phase is Phase.STOPPED:
        pending.fail_if_held(row)
    result, error = pending.outcome
    return InputState(
        id=input_id,
        session_id=session_id,
        status=settled or ("queued" if waiting is None else input_status(waiting)),
        position=None if waiting is None else row.position(input_id),
        turn_id=pending.turn,
        result=result,
        code=None if error is None else error.code,
        detail=None if error is None else error.args[0],
        hint=None if error is None else error.hint,
    )


async def _input_records(parts: Parts, session_id: SessionId, input_id: InputId) -> list[Record]:
    """Return the records about the input; raise `InputRefused` if it was never accepted."""
    records = await parts.services.store.records_of_input(session_id, input_id)
    if not records:
        raise InputRefused(
            f"session {session_id} has accepted no input {short_repr(input_id)}",
            hint="the receipt of send() has the id",
        )
    return records


async def _fail_if_held(parts: Parts, session_id: SessionId, pending: PendingResult) -> None:
    """Fail the result if the session is stopped and does not start: it will not run the input."""
    row = await parts.registry.row(session_id)
    slot = parts.registry.slot(session_id)
    now = row if slot.session is None else slot.session
    if slot.pending_start is None and now.phase is Phase.STOPPED:
        pending.fail_if_held(now)
