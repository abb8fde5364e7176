"""`understudy log`: what happened in a session, record by record."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import Count, json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.screen import Screen

from .records import cells_of


@click.command()
@click.argument("session", metavar="ID")
@click.option("--after", default=0, metavar="N", type=Count(0), help="After record N.")
@click.option("-n", "--last", metavar="COUNT", type=Count(1), help="Only the last ones.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Only of this kind; again for more."
)
@state_option
@json_option
def log(
    *,
    session: str,
    after: int,
    last: int | None,
    kinds: tuple[str, ...],
    state: str | None,
    as_json: bool,
) -> int:
    """Print the records of a session, one a line; with --json each as it is stored.

    `understudy watch ID` goes on with what comes.
    """
    screen = Screen(as_json=as_json)
    work = partial(_log, screen, state, session, after=after, last=last, kinds=frozenset(kinds))
    return run_async(screen, work)


async def _log(
    screen: Screen,
    state: str | None,
    session: str,
    *,
    after: int,
    last: int | None,
    kinds: frozenset[str],
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        turns = await (await find_session(sup, session)).history()
    records = [
        record
        for turn in turns
        for record in turn.records
        if record.seq > after and (not kinds or record.kind in kinds)
    ]
    if last is not None:
        records = records[-last:]
    width = len(str(records[-1].seq)) if records else 1
    for record in records:
        if screen.as_json:
            screen.data(record)
        else:
            screen.line(*screen.fit(cells_of(record, seq_width=width)))
