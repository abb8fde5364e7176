"""The prompts of this connection in one session, from their sending to the end of their turn.

No I/O: records go in, and prompts end.

Rule 1: each prompt ends once, with the outcome of its own turn.
Rule 2: a prompt that was steered into a turn ends with that turn; steering itself ends when it is
        known what became of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
import trio

from supervisor.core.ids import InputId, TurnId
from supervisor.core.records import Record
from supervisor.json_rpc.rpc_messages import INTERNAL_ERROR, RpcError

from .prompt_input import PromptInput
from .turn_answers import answer_to_prompt, answer_to_unstarted, error_data

# Records about one input, by its id.
INPUT_KINDS: Final = frozenset({"input_accepted", "input_settled", "turn_started", "user_text"})


@attrs.define(eq=False)
class WaitingPrompt:
    """A prompt or a steering text, and its answer once it has one."""

    content: PromptInput
    kind: Literal["prompt", "steering"] = "prompt"
    input_id: InputId | None = None
    # The client has withdrawn it before it was sent.
    is_withdrawn: bool = False
    _answer: dict[str, Any] | RpcError | None = None
    _ended: trio.Event = attrs.field(factory=trio.Event)

    def end(self, answer: dict[str, Any] | RpcError) -> None:
        """Set the answer, unless there is one."""
        if self._answer is None:
            self._answer = answer
            self._ended.set()

    @property
    def has_ended(self) -> bool:
        """True once there is an answer."""
        return self._answer is not None

    async def answer(self) -> dict[str, Any]:
        """Wait for the answer and return it; raise `RpcError` if it is an error."""
        await self._ended.wait()
        assert self._answer is not None
        if isinstance(self._answer, RpcError):
            raise self._answer
        return self._answer


def input_of(record: Record) -> InputId | None:
    """Return the input that a record is about, None for other records."""
    if record.kind not in INPUT_KINDS:
        return None
    named = record.body.get("part" if record.kind == "user_text" else "input_id")
    return InputId(named) if isinstance(named, str) else None


class OwnPrompts:
    """The open prompts of one connection in one session, and the running turn."""

    def __init__(self) -> None:
        # Accepted and without a turn, in order of acceptance.
        self._accepted: dict[InputId, WaitingPrompt] = {}
        # By the turn that they began, or were steered into.
        self._in_turn: dict[TurnId, list[WaitingPrompt]] = {}
        self.running_turn: TurnId | None = None
        self._stopping: Mapping[str, Any] | None = None

    # Questions ----------------------------------------------------------------------------

    def is_own(self, input_id: InputId | None) -> bool:
        """Return True for an input that a prompt of this connection is, while it is open."""
        return input_id in self._accepted or any(
            one.input_id == input_id for waiting in self._in_turn.values() for one in waiting
        )

    @property
    def runs_own_turn(self) -> bool:
        """True while a turn runs that a prompt of this connection waits for."""
        return self.running_turn in self._in_turn

    @property
    def trace(self) -> Mapping[str, str]:
        """The trace context of the prompt of the running turn."""
        waiting = [] if self.running_turn is None else self._in_turn.get(self.running_turn, [])
        return next((one.content.trace for one in waiting), {})

    def unstarted(self) -> list[InputId]:
        """Return the inputs that were accepted and have no turn yet."""
        return list(self._accepted)

    # Changes ------------------------------------------------------------------------------

    def accept(self, input_id: InputId, waiting: WaitingPrompt) -> None:
        """Add a prompt that was accepted as an input."""
        waiting.input_id = input_id
        self._accepted[input_id] = waiting

    def begin(self, record: Record) -> None:
        """Take in what a record changes before its updates are sent."""
        body = record.body
        match record.kind:
            case "turn_started":
                self._start_turn(TurnId(body["turn_id"]), InputId(body["input_id"]))
            case "session_changed" if "stopping" in body:
                self._stopping = body["stopping"]
            case "session_resumed" | "session_started":
                self._stopping = None

    def finish(self, record: Record, *, with_usage: bool = False) -> None:
        """End the prompts that a record ends; its updates are queued."""
        match record.kind:
            case "input_settled":
                self._settle(record)
            case "turn_ended":
                self._end_turn(record.body, with_usage=with_usage)
            case "session_stopped":
                self._hold(record.body)

    def end_all(self, answer: dict[str, Any] | RpcError) -> None:
        """End all prompts: nothing more will be known of them."""
        waiting = [*self._accepted.values()]
        for begun in self._in_turn.values():
            waiting += begun
        self._accepted.clear()
        self._in_turn.clear()
        for one in waiting:
            one.end(answer)

    # Inside -------------------------------------------------------------------------------

    def _start_turn(self, turn: TurnId, input_id: InputId) -> None:
        self.running_turn = turn
        waiting = self._accepted.pop(input_id, None)
        if waiting is None:
            return
        if waiting.kind == "steering":
            waiting.end({"outcome": "startedNewTurn"})
        self._in_turn.setdefault(turn, []).append(waiting)

    def _settle(self, record: Record) -> None:
        input_id = InputId(record.body["input_id"])
        outcome = record.body["outcome"]
        if outcome == "delivered" or input_id not in self._accepted:
            return  # its turn starts
        waiting = self._accepted.pop(input_id)
        turn = record.turn_id or self.running_turn
        if waiting.kind == "steering":
            waiting.end({"outcome": "injected" if outcome == "steered" else "failed"})
        elif outcome == "steered" and turn is not None:
            self._in_turn.setdefault(turn, []).append(waiting)
        else:
            waiting.end(answer_to_unstarted(record.body, stopping=self._stopping))

    def _end_turn(self, body: Mapping[str, Any], *, with_usage: bool) -> None:
        turn = TurnId(body["turn_id"])
        if self.running_turn == turn:
            self.running_turn = None
        answer = answer_to_prompt(body, stopping=self._stopping)
        if with_usage and isinstance(answer, dict):
            answer["usage"] = _usage(body)
        for one in self._in_turn.pop(turn, ()):
            one.end(answer)

    def _hold(self, body: Mapping[str, Any]) -> None:
        """End the prompts whose inputs wait in the queue of a stopped session."""
        held = RpcError(
            INTERNAL_ERROR,
            f"the session has stopped ({body.get('reason')}), and the prompt waits in its queue",
            error_data(
                "session_not_active", "send another prompt: this one then runs before it", "later"
            ),
        )
        accepted, self._accepted = self._accepted, {}
        for one in accepted.values():
            one.end(held)


def _usage(body: Mapping[str, Any]) -> dict[str, int]:
    usage = body.get("usage") or {}
    used_in, used_out = int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0))
    return {"inputTokens": used_in, "outputTokens": used_out, "totalTokens": used_in + used_out}
