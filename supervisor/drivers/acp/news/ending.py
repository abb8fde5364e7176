"""How a turn went, judged by more than the agent's own word for it.

`end_turn` proves nothing: when a model refuses a request some agents end the turn with the error as
their text, and some with no text at all. That is never called a success; but what an agent says
about an error, after work or in its own words, is no error of the turn.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs
import orjson

from supervisor.core.printable import printable
from supervisor.core.session import Outcome
from supervisor.drivers.acp.reading import as_mapping, as_name

from .content import cut

MAX_ERROR_BYTES: Final = 2000
# A longer text is an answer, however it begins.
_LONGEST_ERROR: Final = 4000
# How texts begin that are nothing but the report of a failed request. Not "Error 404 means ...".
_ERRORS: Final = re.compile(
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
class Did:
    """What an agent did in a turn besides saying something."""

    calls: int = 0
    thoughts: int = 0
    plans: int = 0
    # Whether it says of itself, beside the text and the stop reason, that something went wrong.
    is_faulty: bool = False


@attrs.frozen
class Ended:
    """What is to be reported of a turn's end."""

    outcome: Outcome
    stop_reason: str | None
    error: str | None = None


def judge_end(stop_reason: object, *, said: str, did: Did) -> Ended:
    """The outcome of a turn whose prompt was answered with that stop reason.

    - `cancelled` is an interrupt, whoever caused it: some agents end so when they are refused
      something.
    - `refusal` has failed: what was asked for was not done, and whoever builds on it must see that.
    - `max_tokens` and `max_turn_requests` are complete as far as they go: nothing went wrong, the
      text counts, and the stop reason says that there is more to be had.
    - `end_turn`, and any word that is new to us, is complete unless it hides an error.
    """
    reason = printable(as_name(stop_reason) or "") or None
    if reason == "cancelled":
        return Ended("interrupted", reason)
    if reason == "refusal":
        return Ended("failed", reason, "the agent refused to go on")
    if reason in ("max_tokens", "max_turn_requests"):
        return Ended("completed", reason)
    error = _hidden_error(said.strip(), did)
    return Ended("completed" if error is None else "failed", reason, error)


def _hidden_error(said: str, did: Did) -> str | None:
    if did.is_faulty:
        return cut(_without_warnings(said), MAX_ERROR_BYTES) or "the agent says that it has failed"
    if not said:
        return None if did != Did() else "the agent ended its turn without a word"
    if did.calls or len(said) > _LONGEST_ERROR:
        return None
    said = _without_warnings(said)
    if _ERRORS.match(said) or _is_error_object(said):
        return cut(said, MAX_ERROR_BYTES)
    return None


def _without_warnings(said: str) -> str:
    """What is said after the warnings that some agents put before all else."""
    while said.startswith("Warning: ") and "\n\n" in said:
        said = said.partition("\n\n")[2].lstrip()
    return said


def _is_error_object(said: str) -> bool:
    if not (said.startswith("{") and said.endswith("}")):
        return False
    try:
        value: Any = orjson.loads(said)
    except orjson.JSONDecodeError:
        return False
    given = as_mapping(value)
    # An answer in JSON may well have a field for errors that is empty.
    return bool(given.get("error")) and (len(given) == 1 or given.get("type") == "error")
