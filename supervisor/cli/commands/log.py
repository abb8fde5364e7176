"""`understudy log` and `understudy watch`: print a session as text that flows, or its records."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import click

from supervisor.cli.async_runner import run_async, run_reading
from supervisor.cli.options import Count, json_option, state_option
from supervisor.cli.output import Screen, json_text
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import Cell, format_duration, format_time
from supervisor.core.errors import RecordNotFound, short_repr
from supervisor.core.records import KINDS, Gap, Item, Record, Reset

F = TypeVar("F", bound=Callable[..., Any])

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
    "notice": "yellow",
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
    "permission_answered": ("decision", "text", "by"),
    "interrupted": ("scope", "step", "reason"),
    "child_started": ("agent", "name", "child"),
    "child_ended": ("name", "child", "outcome", "reason", "text"),
    "spawn_refused": ("agent", "limit", "detail"),
    "quiet": ("waits_for", "detail"),
    "stalled": ("waits_for", "detail"),
    "progress_resumed": ("was",),
    "seen": ("seq",),
    "notice": ("severity", "text", "detail"),
    "agent_compaction": ("status", "tokens_before", "tokens_after", "error", "summary"),
    "subagent": ("title", "subagent_id", "state", "detail", "description"),
    "mcp_call": ("tool", "outcome", "target", "caller", "refused"),
}
# The counts of an interrupt, printed if they are not zero.
_COUNTS: Final = ("matched", "stopped", "unreachable")
KIND_WIDTH: Final = 19
_LAST_RECORDS: Final = 10
_LAST_AS_TEXT: Final = 50


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


_FORM_HELP: Final = {
    "--text": "Print text that flows (default for one session).",
    "--records": "Print records, one per line.",
}


def form_options(function: F) -> F:
    """Add the options `--text` and `--records`."""
    for name, form in (("--records", "records"), ("--text", "text")):
        option = click.option(name, "form", flag_value=form, help=_FORM_HELP[name])
        function = option(function)
    return function


@click.command()
@click.argument("session", metavar="ID")
@form_options
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
    form: str | None,
    after: int,
    last: int | None,
    kinds: tuple[str, ...],
    state: str | None,
    as_json: bool,
) -> int:
    """Print what happened in a session, as text that flows.

    With --records, --kind or --json, print its records instead, one per line; with --json as
    stored. `understudy watch ID` also prints what follows, `understudy attach ID` opens a screen.
    """
    screen = Screen(as_json=as_json)
    for kind in kinds:
        _require_kind(kind)
    _refuse_text_of(form, "--kind" if kinds else "--json" if as_json else None)
    is_text = not (form == "records" or kinds or as_json)
    work = partial(
        _log,
        screen,
        state,
        session,
        after=after,
        last=last,
        kinds=frozenset(kinds),
        show=_show_text if is_text else _show_records,
    )
    return run_reading(screen, state, work)


def _refuse_text_of(form: str | None, other: str | None) -> None:
    if form == "text" and other is not None:
        raise click.UsageError(f"{other} prints records; leave --text out.")


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
    show: Callable[[Screen, list[Record]], None],
) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        turns = await (await find_session(sup, session)).history()
    records = [
        record
        for turn in turns
        for record in turn.records
        if record.seq > after and (not kinds or record.kind in kinds)
    ]
    show(screen, records if last is None else records[-last:])


def _show_text(screen: Screen, records: list[Record]) -> None:
    from supervisor.cli.transcript.printer import TranscriptPrinter  # noqa: PLC0415 - late

    printer = TranscriptPrinter(screen)
    printer.print_all(records)
    printer.end_line()


def _show_records(screen: Screen, records: list[Record]) -> None:
    width = len(str(records[-1].seq)) if records else 1
    for record in records:
        if screen.as_json:
            screen.data(record)
        else:
            screen.line(*screen.fit(record_cells(record, seq_width=width)))


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@form_options
@click.option(
    "-n",
    "--last",
    metavar="COUNT",
    type=Count(0),
    help="Number of existing records to print first (default 10; as text 50).",
)
@click.option("--after", metavar="N", type=Count(0), help="Start after record N instead.")
@json_option
def watch(
    *, session: str | None, form: str | None, last: int | None, after: int | None, as_json: bool
) -> int:
    """Print a session, as text that flows, or the records of all sessions, until Ctrl-C.

    With --records or --json, records of the session are printed as they are written. If the daemon
    stops, this waits until it is back and continues. Records of one session are numbered from 1;
    those of all sessions in the order in which they were written.
    """
    screen = Screen(as_json=as_json)
    _refuse_text_of(form, "--json" if as_json else None)
    if session is None and form == "text":
        raise click.UsageError("--text needs the ID of a session.")
    is_text = session is not None and form != "records" and not as_json
    if last is None:
        last = _LAST_AS_TEXT if is_text else _LAST_RECORDS
    if session is None:
        return run_async(screen, partial(_watch_all, screen, last, after))
    work = partial(watch_session, screen, session, last=last, after=after, is_text=is_text)
    return run_async(screen, work)


async def _watch_all(screen: Screen, last: int, after: int | None) -> None:
    async with open_target(screen) as sup:
        if after is None:
            after = max(0, (await sup.stats()).last_position - last)
        async with sup.watch(after=after) as everything:
            await _print_all(screen, everything)


async def _print_all(screen: Screen, everything: AsyncIterator[Record]) -> None:
    while True:
        try:
            async for record in everything:
                _print_record(screen, record, whose=record.session_id)
        except RecordNotFound as error:
            screen.warn(f"{error.args[0]}; all records follow")
        else:
            return


async def watch_session(
    screen: Screen,
    session: str,
    *,
    last: int = _LAST_RECORDS,
    after: int | None = None,
    is_text: bool = False,
) -> None:
    """Print the last records of the session, or those after a number, and all that follow."""
    from supervisor.cli.transcript.printer import TranscriptPrinter  # noqa: PLC0415 - late

    printer = TranscriptPrinter(screen)
    show = printer.print_item if is_text else partial(_print_item, screen)
    async with open_target(screen) as sup:
        found = await find_session(sup, session)
        if after is None:
            after = max(0, (await found.info()).last_seq - last)
        async with found.watch(after=after) as feed:
            async for item in feed:
                show(item)
    printer.end_line()


def _print_item(screen: Screen, item: Item) -> None:
    if isinstance(item, Record):
        _print_record(screen, item)
    elif isinstance(item, Gap):
        screen.warn(f"records {item.first} to {item.last} were skipped: output too slow")
    elif isinstance(item, Reset):
        screen.warn(f"the session has {item.last} records; all of them follow")


def _print_record(screen: Screen, record: Record, *, whose: str | None = None) -> None:
    if screen.as_json:
        screen.data(record)
        return
    cells = record_cells(record)
    if whose is not None:
        cells.insert(0, Cell(f"{whose}  ", "bold"))
    screen.line(*screen.fit(cells))
