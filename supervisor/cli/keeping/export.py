"""`understudy export`: a session as a page to read, or as lines to import."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import click
import trio

from supervisor.cli.ground.finding import find_session
from supervisor.cli.ground.options import json_option, state_option
from supervisor.cli.ground.running import run_async
from supervisor.cli.ground.target import open_target
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.safe import safe
from supervisor.cli.terminal.screen import Screen
from supervisor.cli.terminal.times import size


@click.command()
@click.argument("session", metavar="ID")
@click.option(
    "--format",
    "form",
    default="markdown",
    show_default=True,
    type=click.Choice(["markdown", "jsonl", "html"]),
    help="markdown and html are for reading, jsonl can be imported.",
)
@click.option("-o", "--output", metavar="PATH", type=click.Path(), help="Write it into this file.")
@click.option("--redact", is_flag=True, help="Cover what looks like a token or a password.")
@state_option
@json_option
def export(
    *,
    session: str,
    form: str,
    output: str | None,
    redact: bool,
    state: str | None,
    as_json: bool,
) -> int:
    """Write all that happened in a session, to standard output or into a file.

    The file is whole or not there at all, and only you can read it.
    """
    screen = Screen(as_json=as_json)
    work = partial(_export, screen, state, session, form, output=output, redact=redact)
    return run_async(screen, work)


async def _export(
    screen: Screen,
    state: str | None,
    session: str,
    form: str,
    *,
    output: str | None,
    redact: bool,
) -> None:
    async with (
        open_target(screen, state=state, access="read") as sup,
        progress(screen, "exporting"),
    ):
        found = await find_session(sup, session)
        text = await found.export(form, redact=redact)  # type: ignore[arg-type]  # click has looked
    if output is None:
        _print(screen, found.id, form, text)
        return
    data = text.encode()
    await trio.to_thread.run_sync(_write, Path(output), data)
    if screen.as_json:
        screen.data({"session_id": found.id, "format": form, "path": output, "bytes": len(data)})
    else:
        screen.note(f"Wrote {size(len(data))} to {output}.")


def _print(screen: Screen, session_id: str, form: str, text: str) -> None:
    if screen.as_json:
        screen.data({"session_id": session_id, "format": form, "text": text})
    elif screen.is_terminal:
        screen.line(text.rstrip("\n"))
    else:
        # A file or a program: to the letter, for it may be imported again.
        screen.write(text if text.isascii() else _writable(text))


def _writable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return safe(text)
    return text


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, readable by its owner only."""
    descriptor, name = tempfile.mkstemp(".unfinished", f".{path.name}.", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
