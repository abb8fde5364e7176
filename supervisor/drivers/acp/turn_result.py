"""Outcome of a turn, from its stop reason, its text and its activity.

`end_turn` does not prove success: when a model request fails, some agents end the turn with the
error as their text, and some with no text at all. Such a turn has failed. But text about an error,
after work or in the agent's own words, is not an error of the turn.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs
import orjson

from supervisor.core.state import Outcome
from supervisor.core.text import printable

from .content import truncate
from .fields import as_mapping, as_name

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


@attrs.frozen
class TurnEnd:
    """The end of a turn as reported to the session."""

    outcome: Outcome
    stop_reason: str | None
    error: str | None = None


def classify_turn_end(stop_reason: object, *, text: str, activity: TurnActivity) -> TurnEnd:
    """Return the end of a turn whose prompt was answered with this stop reason.

    - `cancelled` is an interrupt, with any cause: some agents end so when a permission is rejected.
    - `refusal` has failed: the task was not done, and callers that depend on it must see that.
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
        return None if activity != TurnActivity() else "the agent ended its turn without output"
    if activity.calls or len(text) > _MAX_ERROR_LETTERS:
        return None
    text = _without_warnings(text)
    if _ERROR_TEXT.match(text) or _is_error_object(text):
        return truncate(text, MAX_ERROR_BYTES)
    return None


def _without_warnings(text: str) -> str:
    """Return the text after the warnings that some agents put first."""
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
