"""`understudy search`: find messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.columns import Cell
from supervisor.cli.options import Count, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.target import find_session, open_target
from supervisor.cli.times import format_timestamp
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.sessions.maintenance_reports import SearchHit


@click.command()
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option("--session", metavar="ID", help="Only in this session.")
@click.option(
    "--limit",
    default=20,
    show_default=True,
    metavar="COUNT",
    type=Count(1),
    help="Maximum number of messages.",
)
@click.option("--cursor", metavar="NEXT", help="Continue a page; --json prints `next`.")
@state_option
@json_option
def search(
    *,
    words: tuple[str, ...],
    session: str | None,
    limit: int,
    cursor: str | None,
    state: str | None,
    as_json: bool,
) -> int:
    """Find the messages of users and agents that contain all words, newest first."""
    screen = Screen(as_json=as_json)
    text = " ".join(words)
    work = partial(_search, screen, state, text, session=session, limit=limit, cursor=cursor)
    return run_async(screen, work)


async def _search(
    screen: Screen,
    state: str | None,
    text: str,
    *,
    session: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        where = None if session is None else (await find_session(sup, session)).id
        page = await sup.search(text, session=where, limit=limit, cursor=cursor)
    if screen.as_json:
        screen.data(page)
        return
    for hit in page.items:
        _show(screen, hit)
    if page.next is not None:
        screen.note(f"Only the last {len(page.items)} are shown; --limit shows more.")
    elif not page.items:
        screen.note("No message contains these words. Whole words are matched, in any order.")


def _show(screen: Screen, hit: SearchHit) -> None:
    who = "user" if hit.kind == "user_text" else hit.agent
    title = f"  {hit.title}" if hit.title else ""
    screen.line(
        *screen.fit(
            [
                Cell(hit.session_id, "bold"),
                Cell(f"  {format_timestamp(hit.at)}  {hit.seq}  {who}{title}", "dim"),
            ]
        )
    )
    screen.line("    ", one_line(hit.snippet))
