"""`understudy send`, `steer` and `inputs`: send inputs, steer, and change queued inputs."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.async_runner import run_async, run_reading, run_requests
from supervisor.cli.failures import OK
from supervisor.cli.options import DURATION, TEXT, Count, input_text, json_option
from supervisor.cli.output import Screen
from supervisor.cli.result_output import show_receipt, show_result
from supervisor.cli.target import Access, find_id, find_session, open_target
from supervisor.cli.text_format import Cell, format_age

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.handles.session import Session
    from supervisor.handles.shapes import Input


@click.command()
@click.argument("session", metavar="ID")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--when-busy",
    default="queue",
    show_default=True,
    type=click.Choice(["queue", "steer", "interrupt", "reject"]),
    help="What happens while a turn runs.",
)
@click.option(
    "--if-stopped",
    default="resume",
    show_default=True,
    type=click.Choice(["resume", "reject"]),
    help="What happens if the session is stopped.",
)
@click.option("--ttl", "ttl_seconds", metavar="TIME", type=DURATION, help="Expires after: 10m.")
@click.option(
    "--key",
    "idempotency_key",
    metavar="KEY",
    type=TEXT,
    help="Idempotency key: accept the input only once.",
)
@click.option("--wait", is_flag=True, help="Wait for the end of the turn and print its text.")
@json_option
def send(
    *,
    session: str,
    words: tuple[str, ...],
    wait: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - click's options
) -> int:
    """Send an input to a session; without TEXT, or with -, it is read from standard input.

    A stopped session is resumed for it, unless --if-stopped says reject.
    """
    screen = Screen(as_json=as_json)
    text = input_text(words)
    work = partial(_send, screen, session, text, options, wait=wait)
    # A result is awaited on trio, over restarts of the daemon.
    return run_async(screen, work) if wait else run_requests(screen, work)


async def _send(
    screen: Screen, session: str, text: str, options: dict[str, Any], *, wait: bool
) -> int:
    async with open_target(screen, start=True) as sup:
        found = await find_session(sup, session)
        info = await found.info()
        receipt = await found.send(text, **options)
        if info.phase == "stopped":
            screen.note(f"{info.name or info.id} was stopped; this input resumes it.")
        if not wait:
            show_receipt(screen, receipt)
            return OK
        return show_result(screen, await found.result(receipt.input_id))


@click.command()
@click.argument("session", metavar="ID")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@json_option
def steer(*, session: str, words: tuple[str, ...], as_json: bool) -> int:
    """Steer the running turn; fails if no turn runs."""
    screen = Screen(as_json=as_json)
    return run_requests(screen, partial(_steer, screen, session, input_text(words)))


async def _steer(screen: Screen, session: str, text: str) -> None:
    async with open_target(screen) as sup:
        show_receipt(screen, await (await find_session(sup, session)).steer(text))


@click.command()
@click.argument("session", metavar="ID")
@click.option(
    "--edit", nargs=2, metavar="INPUT TEXT", type=(TEXT, TEXT), help="Change the text of an input."
)
@click.option(
    "--move",
    nargs=2,
    metavar="INPUT PLACE",
    type=(TEXT, Count(1)),
    help="Move an input to a place; the first is 1.",
)
@click.option(
    "--promote", metavar="INPUT", type=TEXT, help="Use an input to steer the running turn."
)
@click.option("--cancel", metavar="INPUT", type=TEXT, help="Cancel an input.")
@json_option
def inputs(*, session: str, as_json: bool, **changes: Any) -> int:  # noqa: ANN401 - click's options
    """List the accepted inputs that have not run yet, in order, after your change.

    INPUT is the place of an input, from 1, or a part of its id. With --json, positions count from
    0, as in the API.
    """
    screen = Screen(as_json=as_json)
    # The list is also read from the store of a daemon that does not run.
    return run_reading(screen, None, partial(_inputs, screen, session, changes))


async def _inputs(screen: Screen, session: str, changes: dict[str, Any]) -> None:
    access: Access = "live" if any(changes.values()) else "read"
    async with open_target(screen, access=access) as sup:
        found = await find_session(sup, session)
        await _apply_changes(screen, found, await _with_whole_ids(sup, found, changes, session))
        show_inputs(screen, await found.inputs())


async def _with_whole_ids(
    sup: Target, session: Session, changes: dict[str, Any], typed: str
) -> dict[str, Any]:
    """Return the changes with the whole ids of their inputs; `typed` names the session."""
    whole = dict(changes)
    for name in ("promote", "cancel"):
        if changes[name]:
            whole[name] = await _find_input(sup, session, changes[name], typed)
    for name in ("edit", "move"):
        if changes[name]:
            text, value = changes[name]
            whole[name] = (await _find_input(sup, session, text, typed), value)
    return whole


async def _find_input(sup: Target, session: Session, text: str, typed: str) -> str:
    """Return the id of the input at a place, which counts from 1, or with this part of an id."""
    if text.isdecimal():
        for waiting in await session.inputs():
            if text == str(waiting.position + 1):
                return waiting.id
    return await find_id(sup, "input", text, session=session, typed=typed)


async def _apply_changes(screen: Screen, session: Session, changes: dict[str, Any]) -> None:
    if changes["edit"]:
        await session.edit_input(*changes["edit"])
    if changes["move"]:
        input_id, place = changes["move"]
        await session.move_input(input_id, place - 1)
    if changes["promote"]:
        receipt = await session.promote_input(changes["promote"])
        if receipt.status == "queued":
            screen.note("The agent cannot be steered; the input stays queued.")
    if changes["cancel"]:
        await session.cancel_input(changes["cancel"])


def show_inputs(screen: Screen, waiting: list[Input]) -> None:
    """Print the queued inputs in order; for people, places count from 1."""
    if screen.as_json:
        screen.data({"items": waiting, "next": None})
        return
    if not waiting:
        screen.note("No queued inputs.")
        return
    now = time.time()
    rows = [
        (
            str(one.position + 1),
            Cell(one.id, "bold"),
            one.status,
            format_age(now - one.accepted_at),
            one.text,
        )
        for one in waiting
    ]
    screen.table(("PLACE", "INPUT", "STATUS", "SINCE", "TEXT"), rows, shrinkable=[4])
