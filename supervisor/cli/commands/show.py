"""`understudy show` and `understudy why`: details of a session, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from supervisor.cli.async_runner import run_reading
from supervisor.cli.options import json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.session_cells import named_id, outcome_text
from supervisor.cli.session_fields import option_fields, rights_fields
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import (
    Cell,
    badge_cell,
    counted,
    format_age,
    format_context,
    format_duration,
    format_timestamp,
)
from supervisor.cli.wait_words import reason_words, wait_words, zombie_hint
from supervisor.cli.why_text import why_lines
from supervisor.core.errors import SupervisorError

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.core.creation import Message
    from supervisor.core.info import Info
    from supervisor.handles.session import Session

# Sessions beside the one that is shown whose names are asked for.
_MAX_NAMED: Final = 20


@click.command()
@click.argument("session", metavar="ID")
@click.option("-t", "--transcript", is_flag=True, help="Also print the messages.")
@state_option
@json_option
def show(*, session: str, transcript: bool, state: str | None, as_json: bool) -> int:
    """Show the details of a session, and with --transcript its messages.

    On a terminal the session counts as seen: `ps` lists it no longer as failed or finished.

    ID is a session's id, the beginning or end of the id, its name or its key.
    """
    screen = Screen(as_json=as_json)
    return run_reading(screen, state, partial(_show, screen, state, session, transcript=transcript))


async def _show(screen: Screen, state: str | None, session: str, *, transcript: bool) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        found = await find_session(sup, session)
        info = await found.info()
        said = await found.transcript() if transcript else None
        names = {} if screen.as_json else await _read_names(sup, _around(info))
        if state is None and screen.is_terminal and not screen.as_json:
            await _mark_seen(found, info)
    if screen.as_json:
        screen.data(info if said is None else {"info": info, "transcript": said})
        return
    show_info(screen, info, names)
    for message in said or ():
        _show_message(screen, message)


async def _mark_seen(session: Session, info: Info) -> None:
    """Tell the daemon that a person has opened the session; while it cannot write, nothing."""
    if info.last_seq > info.seen_seq and not info.archived:
        with suppress(SupervisorError):
            await session.seen(info.last_seq)


def _around(info: Info) -> tuple[str, ...]:
    return info.children if info.parent is None else (info.parent, *info.children)


def show_info(
    screen: Screen, info: Info, names: Mapping[str, str | None] = MappingProxyType({})
) -> None:
    """Print the session field by field, `names` beside ids; empty fields are left out."""
    screen.fields(_fields(info, names, time.time()))
    if info.waiting_for == "zombie":
        screen.wrapped_note(Cell(zombie_hint(info.name or info.id)))


def _fields(
    info: Info, names: Mapping[str, str | None], now: float
) -> Iterator[tuple[str, Cell | str]]:
    yield "id", Cell(info.id, "bold")
    yield "badge", badge_cell(info.badge)
    yield from _outcome_fields(info, now)
    yield from _nonempty(
        ("name", info.name),
        ("title", info.title),
        ("key", info.key),
        ("agent", info.agent),
        ("phase", f"{info.phase}{', archived' if info.archived else ''}"),
        ("waits for", wait_words(info.waiting_for) if info.waiting_for else None),
        ("stopped", _stopped(info)),
        ("failure", _failure(info)),
        ("workspace", info.workspace),
        ("tags", ", ".join(info.tags)),
        ("custom", ", ".join(f"{name}={value}" for name, value in info.custom.items())),
    )
    yield from option_fields(info)
    yield from rights_fields(info)
    yield from _tree_fields(info, names, now)
    yield from _work_fields(info)
    for name, at in (("created", info.created_at), ("active", info.last_active_at)):
        yield name, f"{format_timestamp(at)} ({format_age(now - at)})"


def _outcome_fields(info: Info, now: float) -> Iterator[tuple[str, Cell | str]]:
    """Yield how the last turn ended, and what a person should look at."""
    ended = outcome_text(info)
    if ended is not None and info.last_outcome is not None:
        is_good = info.last_outcome.outcome == "completed"
        age = format_age(now - info.last_outcome.at)
        yield "last turn", Cell(f"{ended} ({age})", None if is_good else "red")
    for item in info.attention:
        what = item.kind.replace("_", " ")
        yield "attention", Cell(f"{_with_detail(what, item.detail)}", "yellow")


def _tree_fields(
    info: Info, names: Mapping[str, str | None], now: float
) -> Iterator[tuple[str, str]]:
    if info.parent is not None:
        role = f", as {info.role}" if info.role else ""
        parent = named_id(info.parent, names.get(info.parent))
        yield "below", f"{parent} (depth {info.depth}{role}, {info.lifetime})"
    yield from _nonempty(
        ("children", ", ".join(named_id(one, names.get(one)) for one in info.children))
    )
    if info.expires_at is not None:
        left = info.expires_at - now
        yield (
            "expires",
            f"{format_timestamp(info.expires_at)} (in {format_duration(left)})"
            if left > 0
            else "now",
        )


def _work_fields(info: Info) -> Iterator[tuple[str, str]]:
    counts = (("turn", info.turns), ("message", info.messages), ("tool call", info.tool_calls))
    yield "counts", ", ".join(counted(number, name) for name, number in counts)
    yield from _nonempty(
        ("turn", info.turn_id),
        ("queued", str(info.queued) if info.queued else None),
        ("usage", _usage(info)),
        ("context", None if info.context is None else format_context(info.context)),
        ("restarts", str(info.restarts) if info.restarts else None),
        ("process", None if info.pid is None else str(info.pid)),
    )
    yield "records", f"{info.last_seq} (epoch {info.epoch}, generation {info.generation})"


def _usage(info: Info) -> str | None:
    used = info.usage
    if not (used.input_tokens or used.output_tokens or used.cost):
        return None
    return f"{used.input_tokens} tokens in, {used.output_tokens} out, cost {used.cost:g}"


def _failure(info: Info) -> str | None:
    failure = info.last_failure
    return None if failure is None else _with_detail(failure.kind, failure.detail)


def _stopped(info: Info) -> str | None:
    """Return why it stopped, in words and in the word of the API."""
    if info.stop_reason is None:
        return None
    said = f"{reason_words(info.stop_reason)} ({info.stop_reason})"
    return _with_detail(said, info.stop_detail)


def _with_detail(what: str | None, detail: str | None) -> str | None:
    return f"{what}: {detail}" if what and detail else what


def _nonempty(*pairs: tuple[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if value:
            yield name, value


def _show_message(screen: Screen, message: Message) -> None:
    steered = " (steered)" if message.steered else ""
    screen.line()
    style = "cyan" if message.role == "user" else "green"
    screen.line(Cell(f"{message.role}{steered}, {format_timestamp(message.at)}", style))
    screen.line(message.text.rstrip("\n"))


@click.command()
@click.argument("session", metavar="ID")
@json_option
def why(*, session: str, as_json: bool) -> int:
    """Explain why a session makes no progress: the chain of what it waits for."""
    screen = Screen(as_json=as_json)
    return run_reading(screen, None, partial(_why, screen, session))


async def _why(screen: Screen, session: str) -> None:
    async with open_target(screen, access="read") as sup:
        answer = await (await find_session(sup, session)).why()
        chain = [] if screen.as_json else [waits.session_id for waits in answer.chain]
        names = await _read_names(sup, chain)
    if screen.as_json:
        screen.data(answer)
        return
    for line in why_lines(answer, names):
        screen.wrapped_line(*line)
    if any(waits.waits_for == "zombie" for waits in answer.chain):
        screen.wrapped_note(Cell(zombie_hint(session)))


async def _read_names(sup: Target, session_ids: Sequence[str]) -> dict[str, str | None]:
    """Return the names of the first of the sessions."""
    found = [await sup.resolve(one, "session") for one in session_ids[:_MAX_NAMED]]
    return {match.id: match.name for page in found for match in page.items}
