"""`understudy inbox` and `understudy answer`: list and decide permission requests."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from supervisor.cli.async_runner import run_async, run_reading
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen, json_text
from supervisor.cli.target import open_target
from supervisor.cli.text_format import Cell, format_age, format_duration
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.sessions.inbox import PermissionRequest


_MAX_CHARACTERS: Final = 4_000


@click.command()
@json_option
def inbox(*, as_json: bool) -> int:
    """List pending permission requests, oldest first; decide with `understudy answer`."""
    screen = Screen(as_json=as_json)
    return run_reading(screen, None, partial(_inbox, screen))


async def _inbox(screen: Screen) -> None:
    async with open_target(screen) as sup:
        requests = await sup.permissions()
    if screen.as_json:
        screen.data(requests)
        return
    if not requests:
        screen.note("No pending requests.")
        return
    now = time.time()
    for one in requests:
        about = f"  {one.session_id}  {one_line(one.tool)}  {format_age(now - one.asked_at)}"
        screen.line(Cell(one.id, "bold"), Cell(about, "dim"), _time_left(one, now))
        screen.line("    ", one_line(one.question))
        if one.input:
            screen.line("    ", request_input_text(one))
        screen.line("    ", Cell(", ".join(one.options), "dim"))
    screen.note("Decide with `understudy answer REQUEST DECISION`.")


def _time_left(request: PermissionRequest, now: float) -> Cell:
    if request.expires_at is None:
        return Cell("")
    left = format_duration(request.expires_at - now)
    return Cell(f"  rejected in {left} if nobody answers", "yellow")


def request_input_text(request: PermissionRequest) -> str:
    """Return the tool's input, cut to a maximum, which users read before they decide."""
    text = json_text(request.input)
    more = len(text) - _MAX_CHARACTERS
    return text if more <= 0 else f"{text[:_MAX_CHARACTERS]}… and {more} more characters"


_DECISIONS = ["allow_once", "allow_always", "reject_once", "reject_always"]


@click.command()
@click.argument("request", metavar="REQUEST")
@click.argument("decision", metavar="DECISION", type=click.Choice(_DECISIONS))
@json_option
def answer(*, request: str, decision: str, as_json: bool) -> int:
    """Answer a permission request; `understudy inbox` lists them.

    DECISION is allow_once, allow_always, reject_once or reject_always.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_answer, screen, request, decision))


async def _answer(screen: Screen, request: str, decision: str) -> None:
    async with open_target(screen) as sup:
        await sup.answer(request, decision)  # type: ignore[arg-type]  # click has checked it
    if screen.as_json:
        screen.data({"request_id": request, "decision": decision})
    else:
        screen.line(f"{request}: {decision}")
