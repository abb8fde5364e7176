"""`understudy show` and `understudy why`: details of a session, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.async_runner import run_reading
from supervisor.cli.options import json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.session_cells import outcome_text
from supervisor.cli.target import find_session, open_target
from supervisor.cli.text_format import (
    Cell,
    badge_cell,
    counted,
    format_age,
    format_duration,
    format_timestamp,
)
from supervisor.core.errors import SupervisorError

if TYPE_CHECKING:
    from supervisor.core.creation import Message
    from supervisor.core.info import Info
    from supervisor.handles.session import Session


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
        if state is None and screen.is_terminal and not screen.as_json:
            await _mark_seen(found, info)
    if screen.as_json:
        screen.data(info if said is None else {"info": info, "transcript": said})
        return
    show_info(screen, info)
    for message in said or ():
        _show_message(screen, message)


async def _mark_seen(session: Session, info: Info) -> None:
    """Tell the daemon that a person has opened the session; while it cannot write, nothing."""
    if info.last_seq > info.seen_seq and not info.archived:
        with suppress(SupervisorError):
            await session.seen(info.last_seq)


def show_info(screen: Screen, info: Info) -> None:
    """Print the session field by field; empty fields are left out."""
    screen.fields(_fields(info, time.time()))


def _fields(info: Info, now: float) -> Iterator[tuple[str, Cell | str]]:
    yield "id", Cell(info.id, "bold")
    yield "badge", badge_cell(info.badge)
    yield from _outcome_fields(info, now)
    yield from _nonempty(
        ("name", info.name),
        ("title", info.title),
        ("key", info.key),
        ("agent", info.agent),
        ("phase", f"{info.phase}{', archived' if info.archived else ''}"),
        ("waits for", info.waiting_for),
        ("stopped", _with_detail(info.stop_reason, info.stop_detail)),
        ("failure", _failure(info)),
        ("workspace", info.workspace),
        ("tags", ", ".join(info.tags)),
        ("custom", ", ".join(f"{name}={value}" for name, value in info.custom.items())),
    )
    yield from _tree_fields(info, now)
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


def _tree_fields(info: Info, now: float) -> Iterator[tuple[str, str]]:
    if info.parent is not None:
        role = f", as {info.role}" if info.role else ""
        yield "below", f"{info.parent} (depth {info.depth}{role}, {info.lifetime})"
    yield from _nonempty(("children", ", ".join(info.children)))
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
    if screen.as_json:
        screen.data(answer)
        return
    for waits in answer.chain:
        screen.line(str(waits), Cell(f", for {format_duration(waits.seconds)}", "dim"))
    if answer.cycle:
        circle = " -> ".join((*answer.cycle, answer.cycle[0]))
        screen.line(Cell(f"They wait for each other: {circle}", "red"))
