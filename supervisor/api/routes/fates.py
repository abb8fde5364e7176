"""What becomes of an input: read from the records of its session, and waited for."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import trio

from supervisor.api.describing.operations import NotThere
from supervisor.api.wire.answers import InputState, InputStatus
from supervisor.core.errors import InputRefused, SupervisorError
from supervisor.core.ids import InputId
from supervisor.core.records import Record
from supervisor.core.session import Phase
from supervisor.sessions.shell.results import Pending, TurnResult, settle_from_records
from supervisor.sessions.surface.handle import Session

from .records import records_after

_LOOK_SECONDS: Final = 5.0


class Fate:
    """One input, and what is known of it."""

    def __init__(self, session: Session, input_id: str) -> None:
        self._session = session
        self._id = InputId(input_id)
        self._pending = Pending(self._id)
        self._is_accepted = False
        self._settled: InputStatus | None = None
        self._is_stopped = False

    async def read(self, *, wait_seconds: float = 0.0) -> InputState:
        """How it is; with `wait_seconds`, once it is over, or as it is then.

        Raises `NotThere` if no such input was ever accepted, `SessionNotFound` without a session.
        """
        info = await self._session.info()
        self._is_stopped = info.phase is Phase.STOPPED
        async with aclosing(records_after(self._session, 0)) as records:
            async for record in records:
                self._take(record)
                if record.seq >= info.last_seq:
                    break
            if not self._is_accepted:
                raise NotThere(self._unknown())
            with trio.move_on_after(wait_seconds):
                while wait_seconds and not self._is_over:
                    self._take(await anext(records))
        return await self._state()

    @property
    def _is_over(self) -> bool:
        """Whether nothing more will become of it, unless somebody resumes its session."""
        return self._pending.happened.is_set() or self._is_stopped

    def _take(self, record: Record) -> None:
        body = record.body
        settle_from_records(self._pending, (record,))
        if record.kind == "session_stopped":
            self._is_stopped = True
        elif record.kind == "session_resumed":
            self._is_stopped = False
        elif record.kind == "input_accepted" and body["input_id"] == self._id:
            self._is_accepted = True
        elif record.kind == "input_settled" and body["input_id"] == self._id:
            self._settled = body["outcome"]

    async def _state(self) -> InputState:
        waiting = next((one for one in await self._session.inputs() if one.id == self._id), None)
        result, error = await self._outcome()
        return InputState(
            id=self._id,
            session_id=self._session.id,
            status=self._settled or (waiting.status if waiting is not None else "queued"),
            position=None if waiting is None or self._settled else waiting.position,
            turn_id=self._pending.turn if result is None else result.turn_id,
            result=result,
            code=None if error is None else error.code,
            detail=None if error is None else error.args[0],
            hint=None if error is None else error.hint,
        )

    async def _outcome(self) -> tuple[TurnResult | None, SupervisorError | None]:
        try:
            if self._pending.happened.is_set():
                return await self._pending.wait(), None
            if self._is_stopped and self._settled is None:
                with trio.move_on_after(_LOOK_SECONDS):  # somebody may have resumed it meanwhile
                    return await self._session.result(self._id), None
        except SupervisorError as error:
            return None, error
        return None, None

    def _unknown(self) -> InputRefused:
        return InputRefused(
            f"session {self._session.id} has accepted no input {self._id}",
            hint="the receipt has its id",
        )
