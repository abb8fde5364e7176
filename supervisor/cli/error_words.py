"""Errors of a request in the words of its user: names beside ids, and commands for limits.

Rule 1: nothing is asked of a daemon that does not answer; without an answer the ids stay alone.
Rule 2: the text that programs read, with --json, has ids alone.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from supervisor.core.errors import SupervisorError

if TYPE_CHECKING:
    from supervisor.handles.supervisor import Supervisor

    from .output import Screen

# Where click's context keeps how the user has named sessions, by their ids.
_TYPED: Final = "understudy.typed_sessions"
# An id that no quotation or name is around.
_SESSION_ID: Final = re.compile(r"(?<![\w('\"`/])s_[0-9a-z]{12,26}(?![\w/])")
_RAISE: Final = re.compile(r"raise limits\.(?P<limit>\w+)(?: of session (?P<owner>\w+))?")
_MAX_NAMED: Final = 4
# After these the server answers no second request.
_UNANSWERED: Final = frozenset({"no_daemon", "daemon_busy", "answer_lost"})

_BUDGETS: Final = frozenset({"turns", "tokens", "cost", "wall_seconds"})
_LIMIT_OPTIONS: Final = {
    "max_children": "--max-children COUNT",
    "turns": "--turns COUNT",
    "tokens": "--tokens COUNT",
    "cost": "--cost AMOUNT",
    "wall_seconds": "--wall TIME",
}


def remember_typed(session_id: str, text: str) -> None:
    """Keep how the user has named the session, for errors of this command."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(_TYPED, {})[session_id] = text


async def reword(error: SupervisorError, sup: Supervisor, screen: Screen) -> None:
    """Name the sessions of the error as the user did, and the command that raises its limit."""
    problem = str(error.args[0])
    ids = tuple(dict.fromkeys(_SESSION_ID.findall(f"{problem}\n{error.hint}")))[:_MAX_NAMED]
    if not ids or error.code in _UNANSWERED:
        return
    words = {one: await _word_for(sup, one) for one in ids}
    owner = next(iter(words.values())) or ids[0]
    error.hint = _RAISE.sub(lambda found: _raising(found, words, owner), error.hint)
    if not screen.as_json:
        from .session_cells import named_id  # noqa: PLC0415 - only for an error

        problem = _SESSION_ID.sub(lambda found: named_id(found[0], words.get(found[0])), problem)
        error.args = (problem, *error.args[1:])


async def _word_for(sup: Supervisor, session_id: str) -> str | None:
    """Return the word that names the session in a command; None for its id."""
    context = click.get_current_context(silent=True)
    typed: dict[str, str] = {} if context is None else context.meta.get(_TYPED, {})
    text = typed.get(session_id)
    if text is not None and text not in session_id:  # a part of the id says less than the name
        return text
    with suppress(SupervisorError):
        for match in (await sup.resolve(session_id, "session")).items:
            # The name of a child may be that of others.
            same = [] if match.name is None else (await sup.resolve(match.name, "session")).items
            if [one.id for one in same] == [session_id]:
                return match.name
    return None


def _raising(found: re.Match[str], words: dict[str, str | None], owner: str) -> str:
    """Return the commands instead of `raise limits.NAME of session ID`."""
    limit, named = found["limit"], found["owner"]
    shown = shlex.quote(owner if named is None else words.get(named) or named)
    option = _LIMIT_OPTIONS.get(limit, f"--limit {limit}=COUNT")
    used = f"; `understudy usage {shown}` shows what is used" if limit in _BUDGETS else ""
    return f"raise it with `understudy set {shown} {option}`{used}"
