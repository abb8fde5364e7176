"""`understudy wait`: wait for the end of turns, for attention, or for the end of sessions.

Rule 1: one feed of all sessions is watched, and opened before the sessions are looked at, so that
        nothing is missed in between.
Rule 2: with `--new`, what a session needed at the call does not end the wait, until it was over
        once; a session that is created later is waited for too, if all are.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs
import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import ERROR, INTERRUPTED, NOT_FOUND, OK, TIMED_OUT
from supervisor.cli.options import DURATION, json_option
from supervisor.cli.output import Screen
from supervisor.cli.target import all_sessions, find_session, open_target
from supervisor.cli.text_format import Cell, counted, format_duration
from supervisor.core.errors import SessionNotFound
from supervisor.core.info import IDLE_KINDS, Info, is_idle, need_of

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.handles.session import Session

# Why a session needs a person: `hung`, `stopped`, or a kind of attention and its record.
_Reason: TypeAlias = str | tuple[str, int]

Goal: TypeAlias = Literal["turn", "attention", "stopped"]

_ATTENTION: Final = frozenset({"waiting", "hung", "failed"})
_MAX_NAMED: Final = 10
# Kinds of records after which a session may have reached a goal.
_TELLING: Final = IDLE_KINDS | {
    *("permission_asked", "stalled", "quiet", "agent_attached", "agent_restarting"),
    *("session_changed", "spawn_refused", "session_archived", "interrupted"),
}


@click.command()
@click.argument("sessions", metavar="[ID]...", nargs=-1)
@click.option("--any", "any_", is_flag=True, help="Until one of them is there.")
@click.option("--all", "all_", is_flag=True, help="Until all of them are there (default).")
@click.option(
    "--for",
    "goal",
    type=click.Choice(["turn", "attention", "stopped"]),
    default="turn",
    show_default=True,
    help="Until no turn runs or is queued, until a person is needed, or until the end.",
)
@click.option(
    "--new",
    "is_new",
    is_flag=True,
    help="With --for attention: only what a session needs from now on.",
)
@click.option("--timeout", metavar="TIME", type=DURATION, help="Wait at most: 10m.")
@json_option
def wait(
    *,
    sessions: tuple[str, ...],
    any_: bool,
    all_: bool,
    goal: Goal,
    is_new: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Wait for sessions, or for all live sessions with --any or --all and no ID.

    Prints a line for each session that is there. Exits with 0 if the last turns completed, with 1
    if one of them failed or was lost, with 3 if a session was deleted, with 124 after --timeout,
    and with 130 if a turn was interrupted. With --for attention and --for stopped a failed session
    is 1 too.

    --for attention returns at once if a session already needs a person: a request that nobody has
    answered, a failure that nobody has seen (`show`). In a loop, give --new, which waits for the
    next one; `understudy ps` lists what began between two calls.
    """
    if any_ and all_:
        raise click.UsageError("Give --any or --all, not both.")
    if not sessions and not any_ and not all_:
        raise click.UsageError("Name a session, or give --any or --all.")
    if is_new and goal != "attention":
        raise click.UsageError("--new needs --for attention.")
    screen = Screen(as_json=as_json)
    waiter = _Waiter(screen, goal, is_any=any_, is_new=is_new)
    return run_async(screen, partial(waiter.run, sessions, timeout))


@attrs.define
class _Waiter:
    """Waits until one or all sessions have reached a goal."""

    screen: Screen
    goal: Goal
    is_any: bool
    is_new: bool
    # The sessions that are not there yet, by id, with the outcome of the last turn seen.
    _waiting: dict[str, str | None] = attrs.field(factory=dict)
    _has_found: bool = False
    _code: int = OK
    _names: dict[str, str] = attrs.field(factory=dict)
    # With `is_new`: what each session has needed without a break since the call.
    _known: dict[str, frozenset[_Reason]] = attrs.field(factory=dict)

    async def run(self, sessions: tuple[str, ...], limit_seconds: float | None) -> int:
        """Wait and print; return the exit code."""
        import trio  # noqa: PLC0415 - late

        async with open_target(self.screen) as sup:
            with trio.move_on_after(math.inf if limit_seconds is None else limit_seconds) as scope:
                await self._wait(sup, sessions)
        if not scope.cancelled_caught:
            return self._code
        self._note_timeout(limit_seconds or 0.0)
        return TIMED_OUT

    def _note_timeout(self, limit_seconds: float) -> None:
        """Print which sessions have not reached the goal."""
        names = [self._names.get(one, one) for one in self._waiting]
        shown = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
        waited = f"still waiting for {counted(len(names), 'session')}: {shown}"
        if not names:
            waited = "no session needed you" if self._has_found else "still looking for sessions"
        self.screen.note(f"Timed out after {format_duration(limit_seconds)}; {waited}")

    async def _wait(self, sup: Target, sessions: tuple[str, ...]) -> None:
        position = (await sup.stats()).last_position
        async with sup.watch(after=position) as feed:
            found = await self._find(sup, sessions)
            self._waiting = {session.id: None for session in found}
            self._has_found = True
            for session in found:
                if self.is_new:
                    self._known[session.id] = _reasons(await session.info())
                if await self._look(session):
                    return
            is_open = self.is_new and self.is_any and not sessions
            if not self._waiting and not is_open:
                return
            async for record in feed:
                if is_open and record.kind == "session_created":
                    self._waiting[record.session_id] = None
                if record.session_id not in self._waiting:
                    continue
                if record.kind == "turn_ended":
                    self._waiting[record.session_id] = record.body["outcome"]
                if record.kind in _TELLING and await self._look(sup.session(record.session_id)):
                    return

    async def _find(self, sup: Target, sessions: tuple[str, ...]) -> list[Session]:
        if sessions:
            return [await find_session(sup, text) for text in sessions]
        return [sup.session(info.id) async for info in all_sessions(sup) if info.phase != "stopped"]

    async def _look(self, session: Session) -> bool:
        """Print the session if it is there; return True if the wait is over."""
        try:
            info = await session.info()
        except SessionNotFound:
            self._arrive(session.id, None, "deleted", NOT_FOUND)
        else:
            self._names[session.id] = info.name or session.id
            if not self._is_there(info):
                return False
            outcome = self._waiting[session.id] or _stored_outcome(info)
            said, code = _result(self.goal, info, outcome)
            self._arrive(session.id, info, said, code)
        return self.is_any or not self._waiting

    def _is_there(self, info: Info) -> bool:
        match self.goal:
            case "turn":
                return is_idle(info.phase, queued=info.queued)
            case "attention":
                is_news = not self.is_new or bool(_reasons(info) - self._still_known(info))
                return is_news and (need_of(info) in _ATTENTION or info.phase == "stopped")
            case "stopped":
                return info.phase == "stopped"

    def _still_known(self, info: Info) -> frozenset[_Reason]:
        """Return the reasons of the call that have lasted until now."""
        self._known[info.id] = self._known.get(info.id, frozenset()) & _reasons(info)
        return self._known[info.id]

    def _arrive(self, session_id: str, info: Info | None, said: str, code: int) -> None:
        del self._waiting[session_id]
        self._code = max(self._code, code)
        name = session_id if info is None else info.name or info.id
        if self.screen.as_json:
            self.screen.data({"session_id": session_id, "name": name, "result": said})
        else:
            self.screen.line(Cell(name, "bold"), f"  {said}")


def _reasons(info: Info) -> frozenset[_Reason]:
    """Return why the session may need a person, also while a later turn runs."""
    words = {"hung": need_of(info) == "hung", "stopped": info.phase == "stopped"}
    said = [word for word, is_so in words.items() if is_so]
    return frozenset([*said, *((one.kind, one.seq) for one in info.attention)])


def _stored_outcome(info: Info) -> str | None:
    """Return the outcome of the session's last turn; None if it is not known."""
    return None if info.last_outcome is None else info.last_outcome.outcome


def _result(goal: Goal, info: Info, outcome: str | None) -> tuple[str, int]:
    """Return the word for a session that is there, and the exit code."""
    if goal == "attention":
        need = need_of(info)
        return need, ERROR if need == "failed" else OK
    if goal == "stopped":
        return info.stop_reason or info.badge, ERROR if info.badge == "failed" else OK
    if info.badge == "failed":
        return info.stop_reason or "failed", ERROR
    if outcome is None or outcome == "completed":
        return outcome or info.badge, OK
    return outcome, INTERRUPTED if outcome == "interrupted" else ERROR
