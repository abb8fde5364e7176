"""Outcome of a turn: the state of the running turn, its end, and failures as text for users.

`end_turn` does not prove success: when a model request fails, some agents end the turn with the
error as their text, some with a notice of it, and some with nothing at all. Such a turn has failed.
But text about an error, after work or in the agent's own words, is not an error of the turn.

A turn that an agent started by itself answers no prompt of ours. It is over when the agent is
silent: for a long time before its first output, because models think first, and never while one
of its tool calls is open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs
import orjson
import trio
from trio_util import AsyncBool

from supervisor.core.ids import TurnId
from supervisor.core.redaction import redact
from supervisor.core.state import Failure, Outcome
from supervisor.core.text import printable
from supervisor.drivers.process.processes import AgentProcess, ProcessExit
from supervisor.json_rpc.rpc_messages import RpcError

from .content import as_mapping, as_name, truncate
from .steering import SteeringDelivery

MAX_ERROR_BYTES: Final = 2000
# A longer text is an answer, whatever it starts with.
_MAX_ERROR_LETTERS: Final = 4000
# The start of texts that only report a failed request. Not "Error 404 means ...".
_ERROR_TEXT: Final = re.compile(
    r"""
    [^\w{]*                                     # a warning sign, a star, a bracket
    (?: API\ Error (?: : | \ \( | \ [45]\d\d\b )
      | (?: HTTP\ | API\ )? Error (?: \ code )? : \s* (?: Error\ code:\ )? \(? [45]\d\d\b
      | unexpected\ status (?: \ code )? :? \ [45]\d\d\b
      | exceeded\ retry\ limit,\ last\ status:\ [45]\d\d\b
      | stream\ disconnected\ before\ completion :
      | (?: Execution | Request )\ failed : [^\n]{0,80}? \b [45]\d\d\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


@attrs.frozen
class TurnActivity:
    """Activity of an agent in a turn, besides text."""

    calls: int = 0
    thoughts: int = 0
    plans: int = 0
    # Whether the agent reports a failure outside of text and stop reason.
    reported_failure: bool = False
    # Records of notices, compactions and subagents, and the last notice of an error.
    news: int = 0
    error_notice: str | None = None


@attrs.frozen
class TurnEnd:
    """The end of a turn as reported to the session."""

    outcome: Outcome
    stop_reason: str | None
    error: str | None = None


def classify_turn_end(stop_reason: object, *, text: str, activity: TurnActivity) -> TurnEnd:
    """Return the end of a turn whose prompt was answered with this stop reason.

    - `cancelled` is an interrupt, whatever its cause: some agents return it after a rejection.
    - `refusal` is a failure: the task was not done, and callers must see that.
    - `max_tokens` and `max_turn_requests` are completed: nothing went wrong, the text counts, and
      the stop reason says that it is not all.
    - `end_turn`, and any unknown reason, is completed unless the text hides an error.
    """
    reason = printable(as_name(stop_reason) or "") or None
    if reason == "cancelled":
        return TurnEnd("interrupted", reason)
    if reason == "refusal":
        return TurnEnd("failed", reason, "the agent refused to continue")
    if reason in ("max_tokens", "max_turn_requests"):
        return TurnEnd("completed", reason)
    error = _hidden_error(text.strip(), activity)
    return TurnEnd("completed" if error is None else "failed", reason, error)


def _hidden_error(text: str, activity: TurnActivity) -> str | None:
    if activity.reported_failure:
        return truncate(_without_warnings(text), MAX_ERROR_BYTES) or "the agent reported a failure"
    if not text:
        if activity.error_notice is not None and not activity.calls:
            return truncate(activity.error_notice, MAX_ERROR_BYTES)
        return None if activity != TurnActivity() else "the agent ended its turn without output"
    if activity.calls or len(text) > _MAX_ERROR_LETTERS:
        return None
    text = _without_warnings(text)
    if _ERROR_TEXT.match(text) or _is_error_object(text):
        return truncate(text, MAX_ERROR_BYTES)
    return None


def _without_warnings(text: str) -> str:
    """Return the text without the warnings that some agents write first."""
    while text.startswith("Warning: ") and "\n\n" in text:
        text = text.partition("\n\n")[2].lstrip()
    return text


def _is_error_object(text: str) -> bool:
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    fields = as_mapping(value)
    # An answer in JSON may have an error field that is empty.
    return bool(fields.get("error")) and (len(fields) == 1 or fields.get("type") == "error")


FIRST_OUTPUT_SECONDS: Final = 60.0

SILENCE_SECONDS: Final = 20.0
# Below the default `Ladder.ask_seconds`, so that the turn ends before the ladder escalates.
CANCELLED_SILENCE_SECONDS: Final = 3.0

MAX_CALLS: Final = 1000

MAX_ID_LETTERS: Final = 1000
# Updates that show work in the turn; status updates and echoed user text do not.
_ACTIVITY_UPDATES: Final = frozenset(
    {
        *("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"),
        *("compaction_update", "compaction_summary_chunk", "subagent_update"),
    }
)

_FINAL_STATUSES: Final = frozenset({"completed", "failed"})


class SilenceDetector:
    """Measures the silence of one turn. Callers pass the time."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._has_output = False
        # Open tool calls, by the agent's own ids.
        self._calls: set[str] = set()

    def on_update(self, update: Mapping[str, Any], now: float) -> None:
        """Note an update of the agent."""
        if update.get("sessionUpdate") not in _ACTIVITY_UPDATES:
            return
        self._since = now
        self._has_output = True
        call = as_name(update.get("toolCallId"), max_letters=MAX_ID_LETTERS)
        if call is not None and update.get("status") in _FINAL_STATUSES:
            self._calls.discard(call)
        elif call is not None and len(self._calls) < MAX_CALLS:
            self._calls.add(call)

    def seconds_left(self, now: float, *, is_cancelled: bool) -> float:
        """Return how long the agent must stay silent until the turn is over; 0 if it is over.

        A cancelled turn gets `CANCELLED_SILENCE_SECONDS`, even with open tool calls.
        """
        if is_cancelled:
            patience = CANCELLED_SILENCE_SECONDS
        elif self._calls:
            return SILENCE_SECONDS
        else:
            patience = SILENCE_SECONDS if self._has_output else FIRST_OUTPUT_SECONDS
        return max(0.0, self._since + patience - now)


@attrs.define(eq=False)
class AcpTurn:
    """The running turn."""

    id: TurnId
    steering: SteeringDelivery
    is_cancelled: bool = False
    # Whether the prompt was sent, and whether it was answered.
    is_sent: bool = False
    is_answered: bool = False
    # Whether the ladder went beyond a cancel: then the agent ends with the turn.
    retires_agent: bool = False
    # Set when the output is too large: the turn ends, with this as its error.
    output_problem: str | None = None
    # Set when the agent started this turn, or its successor, by itself.
    silence: SilenceDetector | None = None
    # False while the session has yet to name a turn that the agent started by itself.
    adopted: AsyncBool = attrs.field(factory=lambda: AsyncBool(value=True))
    # Set when `session/cancel` is sent, or will not be.
    cancel_sent: trio.Event = attrs.field(factory=trio.Event)
    # Around authentication in the turn.
    authentication: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    # Around setting options before the prompt.
    option_setting: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: trio.Event = attrs.field(factory=trio.Event)

    def cancel_preparation(self) -> None:
        """Cancel what precedes the prompt: the setting of options, an authentication."""
        for scope in (self.authentication, self.option_setting):
            scope.cancel(reason="the turn was cancelled")


_MAX_LETTERS: Final = 2000

_STDERR_LINES: Final = 10


def safe_text(text: str) -> str:
    """Return the text printable, bounded and with known secrets redacted."""
    return redact(printable(text))[:_MAX_LETTERS]


def describe_rpc_error(error: RpcError) -> str:
    """Return the agent's error message, detail and code."""
    detail = error.data if isinstance(error.data, str) else _error_detail(error.data)
    text = f"{error.message}: {detail}" if detail and detail != error.message else error.message
    return safe_text(f"{text} (code {error.code})")


def start_failure(process: AgentProcess, exit_: ProcessExit | None, kind: str, why: str) -> Failure:
    """Return why the agent did not start.

    An exit is preferred to a lost connection as the reason.
    """
    if exit_ is not None and kind == "transport":
        kind, why = "process_exit", _describe_exit(exit_)
    return Failure(kind, with_stderr_tail(process, why))


def exit_failure(
    process: AgentProcess, exit_: ProcessExit | None, why: str | None
) -> Failure | None:
    """Return why the agent ended; None if it exited by itself without an error."""
    if exit_ is None:
        return Failure("transport", with_stderr_tail(process, why or "it does not answer"))
    if exit_.is_clean:
        return None
    return Failure("process_exit", with_stderr_tail(process, _describe_exit(exit_)))


def with_stderr_tail(process: AgentProcess, text: str) -> str:
    """Return the text with the last lines of the agent's standard error."""
    lines = process.stderr_tail().strip().splitlines()[-_STDERR_LINES:]
    return safe_text(text + ("; it said: " + " | ".join(lines) if lines else ""))


def _describe_exit(exit_: ProcessExit) -> str:
    if not exit_.guarded:
        return "its guardian was killed, so the agent was killed too"
    if exit_.signal is not None:
        return f"it was killed by signal {exit_.signal}"
    return f"it exited with code {exit_.code}"


def _error_detail(data: object) -> str | None:
    if isinstance(data, Mapping):
        for name in ("details", "detail", "message", "error"):
            if isinstance(data.get(name), str):
                return str(data[name])
    return None
