"""`understudy usage`: turns, tokens and cost by session, tree, agent or day, and budgets."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from supervisor.cli.async_runner import run_reading
from supervisor.cli.options import Count, json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.session_cells import shorten_ids
from supervisor.cli.target import all_sessions, find_session, open_target
from supervisor.cli.text_format import Cell, format_context, format_duration, format_timestamp

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.info import Info
    from supervisor.core.session_values import ContextUse

_BAR_WIDTH: Final = 20
_DAY_SECONDS: Final = 86_400.0
_NEARLY_SPENT: Final = 0.8


@attrs.define
class UsedBy:
    """What a session, a tree, an agent or a day has used; seconds are those of turns.

    `session_id` is that of the session or of the root of the tree: several may have one name.
    """

    name: str
    session_id: str | None = attrs.field(default=None, kw_only=True)
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    wall_seconds: float = 0.0
    # Of a session; None if its agent has not said.
    context: ContextUse | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class BudgetUse:
    """A budget of a session with its descendants: used and allowed."""

    session_id: str
    session: str
    name: str
    used: float
    allowed: float


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@click.option(
    "--by",
    type=click.Choice(["session", "tree", "agent", "day"]),
    default="tree",
    show_default=True,
    help="What a line stands for.",
)
@click.option(
    "--days",
    default=7,
    show_default=True,
    metavar="COUNT",
    type=Count(1),
    help="With --by day: how many days.",
)
@state_option
@json_option
def usage(*, session: str | None, by: str, days: int, state: str | None, as_json: bool) -> int:
    """Show turns, tokens and cost of all sessions or of one tree, and a bar for each budget.

    A tree includes its stopped and deleted sessions. The time is that of turns; by session and by
    agent, a session has that of its deleted children too.
    """
    screen = Screen(as_json=as_json)
    return run_reading(screen, state, partial(_usage, screen, state, session, by, days))


async def _usage(
    screen: Screen, state: str | None, session: str | None, by: str, days: int
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        infos = await _find(sup, session)
        lines = await _by_day(sup, infos, days) if by == "day" else _grouped(infos, by)
    budgets = [one for info in infos for one in _budgets(info)]
    if screen.as_json:
        screen.data({"items": lines, "next": None, "budgets": budgets})
        return
    if not lines:
        screen.note("Nothing was used.")
    else:
        _show(screen, by, lines)
    for one in budgets:
        screen.line(*_bar(one, has_box_characters=screen.has_box_characters))


def _show(screen: Screen, by: str, lines: list[UsedBy]) -> None:
    short = shorten_ids(one.session_id for one in lines if one.session_id is not None)
    has_context = any(one.context is not None for one in lines)
    heading = [by.upper(), *(["ID"] if short else []), "TURNS", "TOKENS", "COST", "TIME"]
    if has_context:
        heading.append("CONTEXT")
    screen.table(heading, (_row(one, short, has_context=has_context) for one in lines))


async def _find(sup: Target, session: str | None) -> list[Info]:
    """Return all sessions, or one session and its descendants, ancestors first."""
    if session is None:
        return [info async for info in all_sessions(sup)]
    top = await (await find_session(sup, session)).info()
    found, ids = [top], {top.id}
    async for info in all_sessions(sup, root=top.root):
        if info.parent in ids:
            found.append(info)
            ids.add(info.id)
    return found


def _grouped(infos: list[Info], by: str) -> list[UsedBy]:
    seconds = _own_seconds(infos)
    if by == "session":
        return [_own(info, seconds[info.id]) for info in infos]
    if by == "tree":
        ids = {info.id for info in infos}
        tops = (info for info in infos if info.parent not in ids)
        return [UsedBy(_name(top), *_spent(top), session_id=top.id) for top in tops]
    agents: dict[str, UsedBy] = {}
    for info in infos:
        own, line = _own(info, seconds[info.id]), agents.setdefault(info.agent, UsedBy(info.agent))
        line.turns += own.turns
        line.tokens += own.tokens
        line.cost += own.cost
        line.wall_seconds += own.wall_seconds
    return sorted(agents.values(), key=lambda line: (-line.cost, -line.tokens, line.name))


def _own_seconds(infos: list[Info]) -> dict[str, float]:
    """Return the time of each session's own turns, and of those of its deleted children."""
    seconds = {info.id: info.spent.wall_seconds for info in infos}
    for info in infos:
        if info.parent in seconds:
            seconds[info.parent] -= info.spent.wall_seconds
    # The sessions are not read at one moment, so that a child may be ahead of its parent.
    return {session_id: max(own, 0.0) for session_id, own in seconds.items()}


def _own(info: Info, seconds: float) -> UsedBy:
    used = info.usage
    tokens = used.input_tokens + used.output_tokens
    return UsedBy(
        _name(info),
        info.turns,
        tokens,
        used.cost,
        seconds,
        session_id=info.id,
        context=info.context,
    )


def _spent(info: Info) -> tuple[int, int, float, float]:
    spent = info.spent
    return spent.turns, spent.tokens, spent.cost, spent.wall_seconds


def _name(info: Info) -> str:
    return info.name or info.id


async def _by_day(sup: Target, infos: Iterable[Info], days: int) -> list[UsedBy]:
    """Return the usage of the last days from the records of turns that have ended."""
    since = time.time() - days * _DAY_SECONDS
    found: dict[str, UsedBy] = {}
    for info in infos:
        if info.updated_at < since or not info.turns:
            continue
        for turn in await sup.session(info.id).history():
            for record in turn.records:
                if record.kind == "turn_ended" and record.at >= since:
                    day = format_timestamp(record.at).split()[0]
                    _add_turn(found.setdefault(day, UsedBy(day)), record.body)
    return [found[day] for day in sorted(found)]


def _add_turn(line: UsedBy, body: Mapping[str, Any]) -> None:
    used = Counter(body.get("usage") or {})
    line.turns += 1
    line.tokens += used["input_tokens"] + used["output_tokens"]
    line.cost += used["cost"]
    line.wall_seconds += body.get("seconds") or 0.0


def _budgets(info: Info) -> Iterator[BudgetUse]:
    for name in ("turns", "tokens", "cost", "wall_seconds"):
        allowed = getattr(info.limits, name)
        if allowed is not None:
            yield BudgetUse(info.id, _name(info), name, getattr(info.spent, name), allowed)


def _row(line: UsedBy, short: Mapping[str, str], *, has_context: bool) -> tuple[Cell | str, ...]:
    seconds = format_duration(line.wall_seconds) if line.wall_seconds else ""
    named = [Cell(line.name, "bold")]
    if line.session_id is not None:
        named.append(Cell(short[line.session_id], "dim"))
    cells: list[Cell | str] = [
        *named,
        str(line.turns),
        str(line.tokens),
        f"{line.cost:.4g}",
        seconds,
    ]
    if has_context:
        cells.append("" if line.context is None else format_context(line.context))
    return tuple(cells)


def _bar(one: BudgetUse, *, has_box_characters: bool) -> list[Cell]:
    share = 1.0 if one.allowed <= 0 else min(one.used / one.allowed, 1.0)
    full, empty = ("█", "░") if has_box_characters else ("#", "-")
    filled = int(share * _BAR_WIDTH)
    style = "red" if share >= 1 else "yellow" if share >= _NEARLY_SPENT else "green"
    bar = full * filled + empty * (_BAR_WIDTH - filled)
    shown = format_duration if one.name == "wall_seconds" else _number
    unit = "time" if one.name == "wall_seconds" else one.name
    return [
        Cell(one.session, "bold"),
        Cell("  "),
        Cell(bar, style),
        Cell(f"  {shown(one.used)}/{shown(one.allowed)} {unit}"),
    ]


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
