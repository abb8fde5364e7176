"""The words of a wait and of an interrupt for people; programs get the words of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from supervisor.core.session_values import LadderStep

_WAITS: Final[Mapping[str, str]] = {
    "model": "the model",
    "tool": "a tool",
    "person": "your answer",
    "auth": "a login",
    "child": "a child",
    "turn_slot": "a turn slot, all are taken",
    "child_slot": "a child slot of its parent, all are taken",
    "zombie": "the task of an ended turn, a zombie",
    "hook": "a hook",
    "process": "its agent process, which is stopped or gone",
    "start": "the start of its agent",
    "restart": "the restart of its agent",
    "end": "the end of its turn or its agent",
    "input": "an input",
}

_REASONS: Final[Mapping[str, str]] = {
    "user_cancelled": "by a user",
    "completed": "its work is done",
    "hook_stopped": "by a hook",
    "ttl_expired": "its time is over",
    "parent_stopped": "with its parent",
    "max_turns": "no turns are left",
    "budget_exceeded": "a budget is used up",
    "error": "by an error",
    "agent_crashed": "the agent crashed",
    "timeout": "it made no progress",
    "start_failed": "the agent did not start",
    "fenced": "another supervisor took it over",
}

# How the last step of the ladder made the work end.
LADDER_WORDS: Final[Mapping[LadderStep, str]] = {
    "ask": "when asked",
    "close": "by closing the agent",
    "terminate": "by terminating the process",
    "kill": "by killing the process",
}


def wait_words(waits_for: str) -> str:
    """Return what a session waits for, in words."""
    return _WAITS.get(waits_for, waits_for.replace("_", " "))


def reason_words(stop_reason: str) -> str:
    """Return why a session stopped, in words."""
    return _REASONS.get(stop_reason, stop_reason.replace("_", " "))


def zombie_hint(session: str) -> str:
    """Return what helps a session whose last turn is closed while its task still runs."""
    return (
        "Its turn is closed, but its task still runs (a zombie), and the session starts no other"
        f" turn until that ends. `understudy fork {session}` continues the conversation in a new"
        " session; a restart of the daemon ends the task."
    )
