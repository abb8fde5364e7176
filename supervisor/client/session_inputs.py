"""The identity of a session of a daemon, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from supervisor.core.errors import InputRefused, SupervisorError, short_repr
from supervisor.core.ids import SessionId
from supervisor.core.receipts import Receipt, TurnResult
from supervisor.core.session_values import WhenBusy
from supervisor.core.validation import check_integer, check_prompt, check_text
from supervisor.handles.shapes import Input, InputState, Page
from supervisor.http_server.problems import error_of

from .arguments import checked_arguments
from .running_loop import running_loop
from .transport import (
    MAX_ABSENCE_SECONDS,
    QUICK_SECONDS,
    SLOW_SECONDS,
    AnswerLost,
    DaemonBusy,
    NoDaemon,
    Transport,
    is_id,
)

# A result is polled in intervals, so that a dead connection is noticed.
_POLL_SECONDS: Final = 20.0
_CONFLICT: Final = 409
_PAUSE_SECONDS: Final = 0.2


class RemoteInputs:
    """Base of `RemoteSession`: its id, its paths, and its inputs."""

    __slots__ = ("_transport", "id")

    def __init__(self, transport: Transport, session_id: SessionId) -> None:
        self._transport = transport
        self.id = session_id

    def __repr__(self) -> str:
        return f"<RemoteSession {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteInputs) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def send(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
        queued: Literal["keep", "cancel"] = "keep",
        trace: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Send an input; return its receipt when it is durable."""
        arguments = {
            "queued": queued,
            "when_busy": when_busy,
            "if_stopped": if_stopped,
            "attachments": attachments,
            "trace": trace,
            "ttl_seconds": ttl_seconds,
            "idempotency_key": idempotency_key,
            "text": text,
        }
        sent = checked_arguments(arguments, required={"attachments", "text"})
        path = self._path("inputs")
        return await self._transport.request(
            Receipt, "POST", path, sent, timeout_seconds=SLOW_SECONDS
        )

    async def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[Mapping[str, Any]] = (),
        when_busy: WhenBusy = "queue",
        idempotency_key: str | None = None,
        ttl_seconds: float | None = None,
        if_stopped: Literal["resume", "reject"] = "resume",
    ) -> TurnResult:
        """Send an input and wait for the end of the turn that it starts or is steered into."""
        receipt = await self.send(
            text,
            attachments=attachments,
            when_busy=when_busy,
            idempotency_key=idempotency_key,
            ttl_seconds=ttl_seconds,
            if_stopped=if_stopped,
        )
        return await self.result(receipt.input_id)

    async def result(self, input_id: str) -> TurnResult:
        """Wait for the end of the turn that an input starts or is steered into."""
        check_text("input_id", input_id)
        path = self._input_path(input_id)
        away_since: float | None = None
        while True:
            try:
                state = await self._transport.request(
                    InputState,
                    "GET",
                    path,
                    {"wait": _POLL_SECONDS},
                    timeout_seconds=_POLL_SECONDS + QUICK_SECONDS,
                )
            except (AnswerLost, DaemonBusy, NoDaemon):
                # The GET changes nothing, and a daemon that restarts is back in a moment.
                self._transport.refuse_if_closed()
                loop = running_loop()
                now = loop.current_time()
                away_since = now if away_since is None else away_since
                if now - away_since > MAX_ABSENCE_SECONDS:
                    raise
                await loop.sleep(_PAUSE_SECONDS)
                continue
            away_since = None
            if state.result is not None:
                return state.result
            if state.code is not None:
                raise _input_error(state)

    async def input(self, input_id: str) -> InputState:
        """Return the current state of an input, however old."""
        check_text("input_id", input_id)
        return await self._transport.request(InputState, "GET", self._input_path(input_id))

    async def steer(
        self, text: str, *, idempotency_key: str | None = None, ttl_seconds: float | None = None
    ) -> Receipt:
        """Steer the running turn; raise `NotRunning` if none runs."""
        arguments = {"text": text, "idempotency_key": idempotency_key, "ttl_seconds": ttl_seconds}
        sent = checked_arguments(arguments, required={"text"})
        return await self._transport.request(Receipt, "POST", self._path("steer"), sent)

    async def inputs(self) -> list[Input]:
        """Return the accepted inputs that are not settled, in the order in which they run."""
        return list((await self._transport.request(Page[Input], "GET", self._path("inputs"))).items)

    async def edit_input(self, input_id: str, text: str) -> None:
        """Change the text of a queued input."""
        await self._transport.request_bytes(
            "PATCH", self._queued_input_path(input_id), {"text": check_prompt(text)}
        )

    async def move_input(self, input_id: str, position: int) -> None:
        """Move a queued input to another position, from 0."""
        check_integer("position", position, least=0)
        await self._transport.request_bytes(
            "PATCH", self._queued_input_path(input_id), {"position": position}
        )

    async def promote_input(self, input_id: str) -> Receipt:
        """Turn a queued input into steering for the running turn."""
        return await self._transport.request(
            Receipt, "POST", f"{self._queued_input_path(input_id)}/promote"
        )

    async def cancel_input(self, input_id: str) -> None:
        """Cancel a queued input."""
        await self._transport.request_bytes("DELETE", self._queued_input_path(input_id))

    # Paths --------------------------------------------------------------------------------

    def _path(self, suffix: str = "") -> str:
        return f"v1/sessions/{self.id}" + (f"/{suffix}" if suffix else "")

    def _input_path(self, input_id: str) -> str:
        if not is_id(input_id):
            raise InputRefused(
                f"session {self.id} has accepted no input {short_repr(input_id)}",
                hint="the receipt of send() has the id",
            )
        return self._path(f"inputs/{input_id}")

    def _queued_input_path(self, input_id: str) -> str:
        if not is_id(input_id):
            raise InputRefused(
                f"no input {short_repr(input_id)} is waiting in session {self.id}",
                hint="it was settled already, or never accepted: list the inputs",
            )
        return self._path(f"inputs/{input_id}")


def _input_error(state: InputState) -> SupervisorError:
    plain = {"code": state.code, "detail": state.detail, "hint": state.hint}
    return error_of(plain, status=_CONFLICT)
