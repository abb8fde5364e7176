"""Lines of a conversation: a text for the agent, or a command if it begins with `/`."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from supervisor.cli.output import Screen
from supervisor.cli.text_format import Cell
from supervisor.cli.why_text import why_lines
from supervisor.core.errors import InputRefused

from .send import show_inputs
from .show import show_info

if TYPE_CHECKING:
    from supervisor.client import RemoteSession
    from supervisor.core.receipts import Receipt
    from supervisor.handles.session import Session


HELP_HINT: Final = "/help lists the commands, /quit exits."

_COMMAND_HELP: Final = (
    ("/steer TEXT", "steer the running turn"),
    ("/interrupt [TEXT]", "interrupt the running turn, and continue with the text"),
    ("/inputs", "list the queued inputs"),
    ("/cancel PLACE", "cancel the queued input at that place"),
    ("/why", "explain what the session waits for"),
    ("/show", "show the session"),
    ("/quit", "exit"),
    ("//TEXT", "send a text that begins with a slash"),
)

_SlashCommand: TypeAlias = Callable[[Screen, "Session", str], Awaitable[None]]


async def handle_line(screen: Screen, session: Session, line: str) -> bool:
    """Run the line; return False if it asks to exit; raise the error of a command that fails."""
    word, _, rest = line.strip().partition(" ")
    if word in ("/quit", "/exit"):
        return False
    if not word.startswith("/") or word.startswith("//"):
        text = line[1:] if word.startswith("//") else line
        _note_receipt(screen, await session.send(text))
        return True
    known = _SLASH_COMMANDS.get(word)
    if known is None:
        words = ", ".join((*_SLASH_COMMANDS, "/quit"))
        raise InputRefused(f"unknown command {word}", hint=f"the commands are {words}")
    await known(screen, session, rest.strip())
    return True


def _note_receipt(screen: Screen, receipt: Receipt) -> None:
    if receipt.status == "queued":
        place = "" if receipt.position is None else f", at place {receipt.position + 1}"
        screen.note(Cell(f"  queued{place}", "dim"))
    elif receipt.status == "staged":
        screen.note(Cell("  steering", "dim"))


async def _help(screen: Screen, _: Session, __: str) -> None:
    for word, what in _COMMAND_HELP:
        screen.note(f"  {word:<19}{what}")


async def _steer(screen: Screen, session: Session, text: str) -> None:
    _note_receipt(screen, await session.steer(text))


async def _interrupt(screen: Screen, session: Session, text: str) -> None:
    report = await session.interrupt("turn", reason="/interrupt", replace_with=text or None)
    if not report.matched and report.input_id is None:
        screen.note(Cell("  nothing was running", "dim"))


async def _inputs(screen: Screen, session: Session, _: str) -> None:
    show_inputs(screen, await session.inputs())


async def _cancel(screen: Screen, session: Session, place: str) -> None:
    for waiting in await session.inputs():
        if place in (str(waiting.position + 1), waiting.id):
            await session.cancel_input(waiting.id)
            screen.note(Cell(f"  cancelled: {waiting.text}", "dim"))
            return
    raise InputRefused(f"no input is queued at {place!r}", hint="/inputs lists the queued inputs")


async def _why(screen: Screen, session: Session, _: str) -> None:
    answer, info = await session.why(), await session.info()
    for line in why_lines(answer, {info.id: info.name}):
        screen.wrapped_note(*line)


async def _show(screen: Screen, session: Session, _: str) -> None:
    info = await session.info()
    if screen.as_json:
        screen.data(info)
    else:
        show_info(screen, info)


_SLASH_COMMANDS: Final[dict[str, _SlashCommand]] = {
    "/help": _help,
    "/steer": _steer,
    "/interrupt": _interrupt,
    "/inputs": _inputs,
    "/cancel": _cancel,
    "/why": _why,
    "/show": _show,
}


async def run_slash_command(session: RemoteSession, line: str) -> str | None:
    """Run a line that begins with a slash; return its output, or None if it asks to exit."""
    output = io.StringIO()
    screen = Screen(out=output, err=output, environ={"NO_COLOR": "1"})
    if not await handle_line(screen, cast("Session", session), line):
        return None
    return output.getvalue()
