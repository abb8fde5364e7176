"""A line of a conversation: an input, or a word for us if it begins with `/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from supervisor.cli.acting.inputs import show_inputs
from supervisor.cli.looking.show import show_info
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.core.errors import InputRefused

if TYPE_CHECKING:
    from supervisor.core.receipts import Receipt
    from supervisor.sessions.surface.handle import Session

HELP: Final = "/help lists what begins with a slash, /quit leaves."
_WORDS: Final = (
    ("/steer TEXT", "guide the turn that runs"),
    ("/interrupt [TEXT]", "interrupt the turn that runs, and go on with the text"),
    ("/inputs", "list what waits"),
    ("/cancel PLACE", "take back what waits at that place"),
    ("/why", "say what it waits for"),
    ("/show", "show the session"),
    ("/quit", "leave"),
    ("//TEXT", "send a text that begins with a slash"),
)

_Follow: TypeAlias = Callable[[Screen, "Session", str], Awaitable[None]]


async def follow(screen: Screen, session: Session, line: str) -> bool:
    """Do what the line says; gives False if it says to leave. Raises why it cannot be done."""
    word, _, rest = line.strip().partition(" ")
    if word in ("/quit", "/exit"):
        return False
    if not word.startswith("/") or word.startswith("//"):
        text = line[1:] if word.startswith("//") else line
        _note(screen, await session.send(text))
        return True
    known = _KNOWN.get(word)
    if known is None:
        raise InputRefused(f"nothing is called {word}", hint="/help lists what there is")
    await known(screen, session, rest.strip())
    return True


def _note(screen: Screen, receipt: Receipt) -> None:
    if receipt.status == "queued":
        screen.note(Cell(f"  queued, at place {receipt.position}", "dim"))
    elif receipt.status == "staged":
        screen.note(Cell("  steering", "dim"))


async def _help(screen: Screen, _: Session, __: str) -> None:
    for word, what in _WORDS:
        screen.note(f"  {word:<19}{what}")


async def _steer(screen: Screen, session: Session, text: str) -> None:
    _note(screen, await session.steer(text))


async def _interrupt(screen: Screen, session: Session, text: str) -> None:
    report = await session.interrupt("turn", reason="/interrupt", replace_with=text or None)
    if not report.matched:
        screen.note(Cell("  nothing was running", "dim"))


async def _inputs(screen: Screen, session: Session, _: str) -> None:
    show_inputs(screen, await session.inputs())


async def _cancel(screen: Screen, session: Session, place: str) -> None:
    for waiting in await session.inputs():
        if place in (str(waiting.position), waiting.id):
            await session.cancel_input(waiting.id)
            screen.note(Cell(f"  cancelled: {waiting.text}", "dim"))
            return
    raise InputRefused(f"nothing waits at {place!r}", hint="/inputs lists what waits")


async def _why(screen: Screen, session: Session, _: str) -> None:
    screen.note(str(await session.why()))


async def _show(screen: Screen, session: Session, _: str) -> None:
    info = await session.info()
    if screen.as_json:
        screen.data(info)
    else:
        show_info(screen, info)


_KNOWN: Final[dict[str, _Follow]] = {
    "/help": _help,
    "/steer": _steer,
    "/interrupt": _interrupt,
    "/inputs": _inputs,
    "/cancel": _cancel,
    "/why": _why,
    "/show": _show,
}
