"""`understudy log` and `understudy watch`: print records, each as one line."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, Final

import click

from supervisor.cli.async_runner import run_async
from supervisor.cli.options import Count, json_option, state_option
from supervisor.cli.output import Screen, json_text
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell, format_duration, format_time
from supervisor.core.errors import RecordNotFound, short_repr
from supervisor.core.records import KINDS, Record, Reset

_STYLES: Final = {
    "agent_text": "green",
    "user_text": "cyan",
    "thought": "dim",
    "error": "red",
    "stalled": "red",
    "quiet": "yellow",
    "interrupted": "yellow",
    "spawn_refused": "red",
    "agent_restarting": "yellow",
    "permission_asked": "magenta",
    "warning": "yellow",
}
# The body fields that are printed first, by kind. Other kinds are printed completely.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "session_created": ("agent", "name"),
    "session_stopped": ("reason", "detail"),
    "agent_attached": ("agent_session_id", "pid"),
    "input_accepted": ("when_busy", "text"),
    "input_settled": ("outcome", "detail", "input_id"),
    "steered": ("how", "input_id"),
    "turn_started": ("source", "turn_id"),
    "user_text": ("text",),
    "agent_text": ("text",),
    "thought": ("text",),
    "turn_ended": ("outcome", "error", "stop_reason"),
    "tool_call": ("name", "input", "call_id"),
    "tool_update": ("name", "update"),
    "tool_ended": ("name", "outcome", "result"),
    "permission_asked": ("tool", "question"),
    "permission_answered": ("decision", "by"),
    "interrupted": ("scope", "step", "reason"),
    "child_started": ("agent", "name", "child"),
    "child_ended": ("name", "child", "outcome", "reason", "text"),
    "spawn_refused": ("agent", "limit", "detail"),
    "quiet": ("waits_for", "detail"),
    "stalled": ("waits_for", "detail"),
    "progress_resumed": ("was",),
    "seen": ("seq",),
}
# The counts of an interrupt, printed if they are not zero.
_COUNTS: Final = ("matched", "stopped", "unreachable")
KIND_WIDTH: Final = 19


def record_cells(record: Record, *, seq_width: int = 4) -> list[Cell]:
    """Return the record as the cells of one line."""
    return [
        Cell(f"{record.seq:>{seq_width}}  {format_time(record.at)}  ", "dim"),
        Cell(f"{record.kind:<{KIND_WIDTH}}  ", _STYLES.get(record.kind, "bold")),
        Cell(body_text(record)),
    ]


def body_text(record: Record) -> str:
    """Return the contents of the record, without its kind."""
    body = record.body
    if record.kind == "agent_restarting":
        return f"attempt {body.get('attempt')}, in {_seconds_text(body.get('after_seconds'))}"
    names = _FIELDS.get(record.kind)
    if names is None:
        return ", ".join(_all_fields("", body))
    said = [_value_text(body[name]) for name in names if body.get(name) not in (None, "", {}, [])]
    if record.kind == "interrupted":
        said += [f"{body[name]} {name}" for name in _COUNTS if body.get(name)]
    seconds = body.get("seconds")
    if seconds is not None:
        said.append(_seconds_text(seconds))
    return ", ".join(said)


def _all_fields(path: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield all values with their paths; null and false are left out."""
    for name, value in body.items():
        way = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _all_fields(way, value)
        elif value is not None and value is not False:
            yield f"{way}={_value_text(value)}"


def _value_text(value: Any) -> str:  # noqa: ANN401 - bodies have many types
    return value if isinstance(value, str) else json_text(value)


def _seconds_text(value: Any) -> str:  # noqa: ANN401 - bodies have many types
    return format_duration(value) if isinstance(value, int | float) else "a while"


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
    for kind in kinds:
        _require_kind(kind)
    work = partial(_log, screen, state, session, after=after, last=last, kinds=frozenset(kinds))
    return run_async(screen, work)


def _require_kind(kind: str) -> None:
    if kind in KINDS:
        return
    close = difflib.get_close_matches(kind, KINDS, n=1)
    guess = f" Did you mean {close[0]}?" if close else f" Kinds are {', '.join(sorted(KINDS))}."
    raise click.BadParameter(f"{short_repr(kind)} is not a kind of record.{guess}")


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
                await _print_all(screen, everything)
            return
        from supervisor.core.records import Gap  # noqa: PLC0415 - late

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
                elif isinstance(item, Reset):
                    screen.warn(f"the session has {item.last} records; all of them follow")


async def _print_all(screen: Screen, everything: AsyncIterator[Record]) -> None:
    while True:
        try:
            async for record in everything:
                _print_record(screen, record, whose=record.session_id)
        except RecordNotFound as error:
            screen.warn(f"{error.args[0]}; all records follow")
        else:
            return


def _print_record(screen: Screen, record: Record, *, whose: str | None = None) -> None:
    if screen.as_json:
        screen.data(record)
        return
    cells = record_cells(record)
    if whose is not None:
        cells.insert(0, Cell(f"{whose}  ", "bold"))
    screen.line(*screen.fit(cells))
