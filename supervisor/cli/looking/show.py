"""`understudy show`: all that is known of a session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.columns import Cell, badge
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import ago, duration, stamp

if TYPE_CHECKING:
    from supervisor.core.creation import Message
    from supervisor.core.info import Info


@click.command()
@click.argument("session", metavar="ID")
@click.option("-t", "--transcript", is_flag=True, help="What was said, too.")
@state_option
@json_option
def show(*, session: str, transcript: bool, state: str | None, as_json: bool) -> int:
    """Show all that is known of a session, and with --transcript what was said in it.

    ID is a session's id, the beginning or the end of it, its name or its key.
    """
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_show, screen, state, session, transcript=transcript))


async def _show(screen: Screen, state: str | None, session: str, *, transcript: bool) -> None:
    async with open_target(screen, state=state, access="read") as sup:
        found = await find_session(sup, session)
        info = await found.info()
        said = await found.transcript() if transcript else None
    if screen.as_json:
        screen.data(info if said is None else {"info": info, "transcript": said})
        return
    show_info(screen, info)
    for message in said or ():
        _show_message(screen, message)


def show_info(screen: Screen, info: Info) -> None:
    """The session, field by field; what there is nothing to say of is left out."""
    screen.fields(_fields(info, time.time()))


def _fields(info: Info, now: float) -> Iterator[tuple[str, Cell | str]]:
    yield "id", Cell(info.id, "bold")
    yield "badge", badge(info.badge)
    yield from _given(
        ("name", info.name),
        ("title", info.title),
        ("key", info.key),
        ("agent", info.agent),
        ("phase", f"{info.phase}{', archived' if info.archived else ''}"),
        ("waits for", info.waiting_for),
        ("stopped", _together(info.stop_reason, info.stop_detail)),
        ("failure", _failure(info)),
        ("workspace", info.workspace),
        ("tags", ", ".join(info.tags)),
        ("custom", ", ".join(f"{name}={value}" for name, value in info.custom.items())),
    )
    yield from _family(info, now)
    yield from _work(info)
    for name, at in (("created", info.created_at), ("active", info.last_active_at)):
        yield name, f"{stamp(at)} ({ago(now - at)})"


def _family(info: Info, now: float) -> Iterator[tuple[str, str]]:
    if info.parent is not None:
        role = f", as {info.role}" if info.role else ""
        yield "below", f"{info.parent} (depth {info.depth}{role}, {info.lifetime})"
    yield from _given(("children", ", ".join(info.children)))
    if info.expires_at is not None:
        left = info.expires_at - now
        yield "expires", f"{stamp(info.expires_at)} (in {duration(left)})" if left > 0 else "now"


def _work(info: Info) -> Iterator[tuple[str, str]]:
    counted = (("turn", info.turns), ("message", info.messages), ("tool call", info.tool_calls))
    yield "counts", ", ".join(f"{number} {name}{'s' * (number != 1)}" for name, number in counted)
    yield from _given(
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
    return None if failure is None else _together(failure.kind, failure.detail)


def _together(what: str | None, detail: str | None) -> str | None:
    return f"{what}: {detail}" if what and detail else what


def _given(*pairs: tuple[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if value:
            yield name, value


def _show_message(screen: Screen, message: Message) -> None:
    steered = " (steered)" if message.steered else ""
    screen.line()
    style = "cyan" if message.role == "user" else "green"
    screen.line(Cell(f"{message.role}{steered}, {stamp(message.at)}", style))
    screen.line(message.text.rstrip("\n"))
