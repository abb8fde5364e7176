"""`understudy ps`: sessions, one a line."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.ground.options import Count, json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell, badge
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import ago

if TYPE_CHECKING:
    from supervisor.cli.ground.target import Target
    from supervisor.core.info import Info

HEADERS = ("ID", "AGENT", "BADGE", "TURNS", "QUEUED", "ACTIVE", "NAME: TITLE")


@click.command()
@state_option
@click.option("-a", "--all", "with_stopped", is_flag=True, help="Stopped sessions, too.")
@click.option("--agent", metavar="NAME", help="Only sessions of this agent.")
@click.option("--phase", metavar="PHASE", help="Only sessions in this phase.")
@click.option("--badge", metavar="BADGE", help="Only sessions with this badge.")
@click.option("--tag", metavar="TAG", help="Only sessions with this tag.")
@click.option("--text", metavar="TEXT", help="Only with this in the name, the title or the key.")
@click.option(
    "--limit",
    default=100,
    show_default=True,
    metavar="COUNT",
    type=Count(1),
    help="So many.",
)
@json_option
def ps(*, state: str | None, as_json: bool, with_stopped: bool, limit: int, **filters: Any) -> int:  # noqa: ANN401 - click's options
    """List sessions, the oldest first; those that are stopped only if they are asked for."""
    screen = Screen(as_json=as_json)
    asked = {name: value for name, value in filters.items() if value is not None}
    # Whoever names a phase or a badge has said whom he means.
    everyone = with_stopped or "phase" in asked or "badge" in asked
    return run_async(screen, partial(_ps, screen, state, asked, everyone=everyone, limit=limit))


async def _ps(
    screen: Screen, state: str | None, asked: dict[str, Any], *, everyone: bool, limit: int
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        found, hidden, cursor = await _gather(sup, asked, everyone=everyone, limit=limit)
        # In which phase they are nobody can tell. To find them all rows are gone through.
        damaged = (await sup.stats()).damaged if everyone else ()
    if screen.as_json:
        screen.data({"items": found, "next": cursor} | ({"damaged": damaged} if everyone else {}))
        return
    if found:
        now = time.time()
        screen.table(HEADERS, [_row(info, now) for info in found], stretch=[len(HEADERS) - 1])
    if cursor is not None:
        screen.note(f"These are the first {len(found)}; --limit shows more.")
    elif hidden:
        screen.note(f"{hidden} stopped {_sessions(hidden)} not shown; --all shows them.")
    elif not found and not damaged:
        screen.note("No sessions.")
    for session_id in damaged:
        screen.note(f"{session_id} cannot be read; `understudy repair {session_id}` says why.")


async def _gather(
    sup: Target, asked: dict[str, Any], *, everyone: bool, limit: int
) -> tuple[list[Info], int, str | None]:
    """Those to show, how many stopped ones were left out, and where the rest begins."""
    found: list[Info] = []
    hidden = 0
    cursor: str | None = None
    while True:
        page = await sup.list(**asked, limit=limit - len(found), cursor=cursor)
        for info in page.items:
            if everyone or info.phase != "stopped":
                found.append(info)
            else:
                hidden += 1
        cursor = page.next
        if cursor is None or len(found) >= limit:
            return found, hidden, cursor


def _row(info: Info, now: float) -> tuple[Cell | str, ...]:
    return (
        info.id,
        info.agent,
        badge(info.badge),
        str(info.turns),
        str(info.queued) if info.queued else "",
        ago(now - info.last_active_at),
        ": ".join(said for said in (info.name, info.title) if said),
    )


def _sessions(count: int) -> str:
    return "session is" if count == 1 else "sessions are"
