"""`understudy log` and `understudy watch`: print records."""

from __future__ import annotations

from functools import partial

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.columns import Cell
from supervisor.cli.options import Count, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.record_text import record_cells
from supervisor.cli.target import find_session, open_target
from supervisor.core.records import Record


@click.command()
@click.argument("session", metavar="ID")
@click.option("--after", default=0, metavar="N", type=Count(0), help="Only after record N.")
@click.option("-n", "--last", metavar="COUNT", type=Count(1), help="Only the last COUNT records.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind; may be repeated."
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
    """Print the records of a session, one per line; with --json as stored.

    `understudy watch ID` also prints later records.
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
            screen.line(*screen.fit(record_cells(record, seq_width=width)))


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@click.option(
    "-n",
    "--last",
    default=10,
    show_default=True,
    metavar="COUNT",
    type=Count(0),
    help="Number of existing records to print first.",
)
@click.option("--after", metavar="N", type=Count(0), help="Start after record N instead.")
@json_option
def watch(*, session: str | None, last: int, after: int | None, as_json: bool) -> int:
    """Print records of a session, or of all sessions, as they are written, until Ctrl-C.

    If the daemon stops, this waits until it is back and continues. Records of one session are
    numbered from 1; those of all sessions in the order in which they were written.
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
                    _print_record(screen, record, whose=record.session_id)
            return
        from supervisor.core.feed_items import Gap  # noqa: PLC0415 - late

        found = await find_session(sup, session)
        if after is None:
            after = max(0, (await found.info()).last_seq - last)
        async with found.watch(after=after) as feed:
            async for item in feed:
                if isinstance(item, Record):
                    _print_record(screen, item)
                elif isinstance(item, Gap):
                    screen.warn(
                        f"records {item.first} to {item.last} were skipped: output too slow"
                    )


def _print_record(screen: Screen, record: Record, *, whose: str | None = None) -> None:
    if screen.as_json:
        screen.data(record)
        return
    cells = record_cells(record)
    if whose is not None:
        cells.insert(0, Cell(f"{whose}  ", "bold"))
    screen.line(*screen.fit(cells))
