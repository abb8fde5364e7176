"""`understudy watch`: what happens in a session, as it happens."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import Count, json_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell
from supervisor.cli.terminal.screen import Screen
from supervisor.core.records import Record

from .records import cells_of


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@click.option(
    "-n",
    "--last",
    default=10,
    show_default=True,
    metavar="COUNT",
    type=Count(0),
    help="Begin with so many that are there already.",
)
@click.option("--after", metavar="N", type=Count(0), help="Begin after record N instead.")
@json_option
def watch(*, session: str | None, last: int, after: int | None, as_json: bool) -> int:
    """Print what happens in a session, or in all of them, until you press Ctrl-C.

    If the daemon leaves, this waits until it is back, and goes on where it was. Of a session,
    records are counted from 1 on; of all of them, in the order in which they were written.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_watch, screen, session, last, after))


async def _watch(screen: Screen, session: str | None, last: int, after: int | None) -> None:
    async with open_target(screen) as sup:
        if session is None:
            if after is None:
                after = max(0, (await sup.stats()).last_position - last)
            async with sup.watch(after=after) as everything:
                async for record in everything:
                    _show(screen, record, whose=record.session_id)
            return
        from supervisor.sessions.shell.feed import Gap  # noqa: PLC0415 - late

        found = await find_session(sup, session)
        if after is None:
            after = max(0, (await found.info()).last_seq - last)
        async with found.watch(after=after) as feed:
            async for item in feed:
                if isinstance(item, Record):
                    _show(screen, item)
                elif isinstance(item, Gap):
                    screen.warn(f"records {item.first} to {item.last} came too fast to be shown")


def _show(screen: Screen, record: Record, *, whose: str | None = None) -> None:
    if screen.as_json:
        screen.data(record)
        return
    cells = cells_of(record)
    if whose is not None:
        cells.insert(0, Cell(f"{whose}  ", "bold"))
    screen.line(*screen.fit(cells))
