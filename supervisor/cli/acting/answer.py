"""`understudy answer`: decide what an agent asks."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.options import json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.screen import Screen

_DECISIONS = ["allow_once", "allow_always", "reject_once", "reject_always"]


@click.command()
@click.argument("request", metavar="REQUEST")
@click.argument("decision", type=click.Choice(_DECISIONS))
@json_option
def answer(*, request: str, decision: str, as_json: bool) -> int:
    """Decide what an agent asks; `understudy inbox` has the requests."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_answer, screen, request, decision))


async def _answer(screen: Screen, request: str, decision: str) -> None:
    async with open_target(screen) as sup:
        await sup.answer(request, decision)  # type: ignore[arg-type]  # click has looked
    if screen.as_json:
        screen.data({"request_id": request, "decision": decision})
    else:
        screen.line(f"{request}: {decision}")
