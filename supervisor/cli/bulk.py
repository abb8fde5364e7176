"""Several sessions at once: named one by one, by a tag, or on standard input.

Rule 1: one result line for each session, in order; a session that fails does not stop the others.
Rule 2: the exit code is that of the worst result.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from supervisor.core.errors import SupervisorError

from .failures import OK, exit_code_of, hint_of
from .options import FILTER
from .output import Screen
from .target import all_sessions, find_session
from .text_format import Cell

if TYPE_CHECKING:
    from supervisor.core.info import Info
    from supervisor.handles.session import Session

    from .target import Target

F = TypeVar("F", bound=Callable[..., Any])

# Does something with one session, prints one line, and returns the exit code.
Work: TypeAlias = Callable[["Session", str], Awaitable[int]]
# Whether a change applies to a session that was found by its tag.
AppliesTo: TypeAlias = Callable[["Info"], bool]
Find: TypeAlias = Callable[["Target", str], Awaitable["Session"]]

_FROM_STDIN: Final = "-"
_MAX_NAMED: Final = 5
# A pipe that is no list of ids is refused instead of read without end.
_MAX_STDIN_BYTES: Final = 1024 * 1024
_MAX_STDIN_IDS: Final = 10_000
_MAX_ID_BYTES: Final = 256


def sessions_argument(function: F) -> F:
    """Add the argument of several sessions, and the option `--tag`."""
    function = click.option(
        "--tag", metavar="TAG", type=FILTER, help="All sessions with this tag that it applies to."
    )(function)
    return click.argument("sessions", metavar="[ID]...", nargs=-1)(function)


def read_sessions(sessions: tuple[str, ...], tag: str | None) -> tuple[str, ...]:
    """Return the named sessions; the word `-` reads ids from standard input, one per line.

    Raise click's `UsageError` if none is named, or standard input is no list of ids.
    """
    if tag is not None and sessions:
        raise click.UsageError("Name sessions, or give --tag, not both.")
    if sessions == (_FROM_STDIN,):
        return _read_lines()
    if tag is None and not sessions:
        raise click.UsageError("Name a session, give --tag TAG, or write - to read ids.")
    return sessions


def _read_lines() -> tuple[str, ...]:
    """Return the ids on standard input; refuse what cannot be a list of ids before it ends."""
    # Bytes, if there are any: what is no text at all is refused for its size, too.
    source = getattr(sys.stdin, "buffer", sys.stdin)
    read = source.read(_MAX_STDIN_BYTES + 1)
    content = read.encode() if isinstance(read, str) else read
    if len(content) > _MAX_STDIN_BYTES:
        raise click.UsageError(f"Standard input has more than {_MAX_STDIN_BYTES} bytes of ids.")
    ids = content.decode("utf-8", "replace").split()
    if not ids:
        raise click.UsageError("Standard input names no session.")
    if len(ids) > _MAX_STDIN_IDS:
        raise click.UsageError(f"Standard input has {len(ids)} ids of {_MAX_STDIN_IDS} allowed.")
    if (longest := max(len(one.encode()) for one in ids)) > _MAX_ID_BYTES:
        raise click.UsageError(
            f"Standard input has an id of {longest} bytes of {_MAX_ID_BYTES} allowed."
        )
    return tuple(ids)


class Bulk:
    """One change of one or several sessions."""

    def __init__(
        self, screen: Screen, sessions: tuple[str, ...], tag: str | None, applies: AppliesTo
    ) -> None:
        self.screen = screen
        self._sessions = sessions
        self._tag = tag
        self._applies = applies

    @property
    def is_single(self) -> bool:
        """True if exactly one session was named: then errors and output are those of one."""
        return len(self._sessions) == 1

    async def run(
        self,
        sup: Target,
        work: Work,
        *,
        find: Find = find_session,
        confirm: Callable[[list[str]], bool] | None = None,
    ) -> int:
        """Do the work for each session; return the worst exit code."""
        if self.is_single:
            return await work(await find(sup, self._sessions[0]), self._sessions[0])
        names = await self._names(sup)
        if not names:
            self.screen.note("No session to change.")
            return OK
        if confirm is not None and not confirm([shown for _, shown in names]):
            return OK
        return max([await self._do(sup, name, shown, work, find) for name, shown in names])

    async def _names(self, sup: Target) -> list[tuple[str, str]]:
        """Return what to look up, and what to print, of each session."""
        if self._tag is None:
            return [(name, name) for name in dict.fromkeys(self._sessions)]
        found = all_sessions(sup, tag=self._tag)
        return [(one.id, one.name or one.id) async for one in found if self._applies(one)]

    async def _do(self, sup: Target, name: str, shown: str, work: Work, find: Find) -> int:
        try:
            return await work(await find(sup, name), shown)
        except SupervisorError as error:
            self._show_error(shown, error)
            return exit_code_of(error)

    def _show_error(self, shown: str, error: SupervisorError) -> None:
        if self.screen.as_json:
            said = {"code": error.code, "message": str(error.args[0]), "hint": hint_of(error)}
            self.screen.data({"session": shown, "error": said})
            return
        self.screen.line(Cell(shown, "bold"), "  ", Cell("error: ", "red"), str(error.args[0]))


def confirmed(screen: Screen, what: str, names: list[str]) -> bool:
    """Ask on a terminal whether to change several sessions; return True without a terminal."""
    if screen.as_json or not sys.stdin.isatty() or len(names) == 1:
        return True
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    shown = ", ".join(names[:_MAX_NAMED])
    screen.prompt(f"{what} {len(names)} sessions ({shown}{more})? [y/N] ")
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    screen.note("Nothing was changed.")
    return False
