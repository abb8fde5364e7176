"""`understudy export` and `understudy import`: sessions to files, and sessions from files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio

from supervisor.cli.async_runner import run_async
from supervisor.cli.failures import ERROR, OK, FileNotThere, require_file
from supervisor.cli.options import json_option, state_option
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.safe import safe
from supervisor.cli.target import all_sessions, find_session, load_configuration, open_target
from supervisor.cli.text_format import Cell, format_size
from supervisor.core.errors import NotStorable, SessionNotFound

from .run import BUILT_IN

if TYPE_CHECKING:
    from supervisor.cli.target import Target


_REPLACED: Final = ", in place of the file that was there"


@click.command()
@click.argument("session", metavar="[ID]", required=False)
@click.option(
    "--format",
    "form",
    default="markdown",
    show_default=True,
    type=click.Choice(["markdown", "jsonl", "html", "sqlite"]),
    help="markdown and html are for reading, jsonl can be imported, sqlite is a database.",
)
@click.option("-o", "--output", metavar="PATH", type=click.Path(), help="Write to this file.")
@click.option("--tree", is_flag=True, help="Also its descendants; only with --format sqlite.")
@click.option("--all", "every", is_flag=True, help="All sessions; only with --format sqlite.")
@click.option("--redact", is_flag=True, help="Redact text that looks like a secret.")
@state_option
@json_option
def export(
    *,
    session: str | None,
    form: str,
    output: str | None,
    tree: bool,
    every: bool,
    redact: bool,
    state: str | None,
    as_json: bool,
) -> int:
    """Export a session to standard output or to a file.

    The file is written completely or not at all, and only you can read it; a file that is there is
    replaced. The format sqlite needs --output, and can hold several sessions: a tree, or all.
    """
    screen = Screen(as_json=as_json)
    if output is not None:
        output = _require_place_for_file(output)
    if form == "sqlite":
        if output is None:
            raise click.UsageError("--format sqlite needs --output PATH.")
        if (session is None) != every or (tree and every):
            raise click.UsageError("Write an ID, or --all.")
        database = partial(_export_database, screen, state, session, output)
        return run_async(screen, partial(database, tree=tree, redact=redact))
    if tree or every:
        raise click.UsageError("--tree and --all need --format sqlite.")
    if session is None:
        raise click.UsageError("Missing argument 'ID'.")
    work = partial(_export, screen, state, session, form, output=output, redact=redact)
    return run_async(screen, work)


def _require_place_for_file(output: str) -> str:
    """Return the path of the file to write, with links followed.

    Raise `FileNotThere` or click's `UsageError` unless an export may replace what is there: a store
    or a device would be lost. Raise `ConfigError` for a name that SQLite gives a meaning.
    """
    from supervisor.store.new_file import refuse_sqlite_name  # noqa: PLC0415 - late
    from supervisor.store.sqlite.inspection import looks_like_store  # noqa: PLC0415 - late

    path = Path(output)
    if path.is_dir() or output.endswith("/"):
        raise click.UsageError(f"{output} is a directory; name a file.")
    if not path.parent.is_dir():
        raise FileNotThere(f"there is no directory {path.parent}", hint="create it first")
    target = path.resolve()
    refuse_sqlite_name(target)
    if target.exists() and not target.is_file():
        raise click.UsageError(f"{output} is not a regular file; name another one.")
    if target.exists() and looks_like_store(target):
        raise click.UsageError(f"{output} is an understudy store; name another file.")
    return str(target) if path.is_symlink() else output


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
        _print_export(screen, found.id, form, text)
        return
    data = text.encode()
    is_there = os.path.exists(output)  # noqa: ASYNC240, PTH110 - fast
    await trio.to_thread.run_sync(_write_file, Path(output), data)
    if screen.as_json:
        screen.data({"session_id": found.id, "format": form, "path": output, "bytes": len(data)})
    else:
        screen.note(f"Wrote {format_size(len(data))} to {output}{_REPLACED if is_there else ''}.")


async def _export_database(
    screen: Screen, state: str | None, session: str | None, output: str, *, tree: bool, redact: bool
) -> int:
    """Fetch each session as `jsonl` and write all of them into one database."""
    from supervisor.store.export.sqlite_export import write_sqlite  # noqa: PLC0415 - late

    failed = 0
    is_there = os.path.exists(output)  # noqa: ASYNC240, PTH110 - fast
    with tempfile.TemporaryDirectory() as folder:
        texts: list[Path] = []
        async with (
            open_target(screen, state=state, access="read") as sup,
            progress(screen, "exporting"),
        ):
            for number, one in enumerate(await _selected(sup, session, tree=tree)):
                try:
                    text = await sup.session(one).export("jsonl", redact=redact)
                except NotStorable as error:  # other sessions are exported all the same
                    screen.warn(f"session {one} is left out: {error}")
                    failed += 1
                    continue
                except SessionNotFound:  # deleted since it was listed
                    screen.warn(f"session {one} is left out: it was deleted meanwhile")
                    continue
                texts.append(Path(folder, f"{number}.jsonl"))
                await trio.to_thread.run_sync(texts[-1].write_text, text, "utf-8")
        async with progress(screen, "writing"):
            made = (one.read_text("utf-8") for one in texts)
            count, size = await trio.to_thread.run_sync(
                _write_database, Path(output), made, write_sqlite
            )
    if screen.as_json:
        screen.data({"sessions": count, "format": "sqlite", "path": output, "bytes": size})
    else:
        noun = "session" if count == 1 else "sessions"
        told = _REPLACED if is_there else ""
        screen.note(f"Wrote {count} {noun}, {format_size(size)}, to {output}{told}.")
    return ERROR if failed else OK


async def _selected(sup: Target, session: str | None, *, tree: bool) -> list[str]:
    """Return the ids of the sessions to export: all, one, or one with its descendants."""
    if session is None:
        return [info.id async for info in all_sessions(sup)]
    found = await find_session(sup, session)
    if not tree:
        return [found.id]
    root = (await found.info()).root
    chosen = {found.id}
    async for info in all_sessions(sup, root=root):  # in order of creation: parents come first
        if info.parent in chosen:
            chosen.add(info.id)
    return sorted(chosen)


def _write_database(
    path: Path, texts: Iterator[str], write: Callable[[Path, Iterator[str]], int]
) -> tuple[int, int]:
    """Write the database to a temporary file, and replace `path` with it when it is complete.

    Return the number of sessions and of bytes.
    """
    descriptor, name = tempfile.mkstemp(".unfinished", f".{path.name}.", path.parent)
    os.close(descriptor)
    try:
        count = write(Path(name), texts)
        size = Path(name).stat().st_size
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # users do not know the temporary name
        raise
    return count, size


def _print_export(screen: Screen, session_id: str, form: str, text: str) -> None:
    if screen.as_json:
        screen.data({"session_id": session_id, "format": form, "text": text})
    elif screen.is_terminal:
        screen.line(text.rstrip("\n"))
    else:
        # A file or a program: unchanged, because it may be imported again.
        screen.write(text if text.isascii() else _encodable(text))


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return safe(text)
    return text


def _write_file(path: Path, data: bytes) -> None:
    """Write the file completely or not at all, readable by its owner only."""
    descriptor, name = tempfile.mkstemp(".unfinished", f".{path.name}.", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@click.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--format",
    "form",
    default="jsonl",
    show_default=True,
    type=click.Choice(["jsonl", "picoclaw", "ggcode"]),
    help="Our own format, or that of another program.",
)
@click.option("--agent", metavar="NAME", help="Agent of the new session.")
@state_option
@json_option
def import_(
    *, paths: tuple[str, ...], form: str, agent: str | None, state: str | None, as_json: bool
) -> int:
    """Create a stopped session from each file; it has the rights of a new session."""
    screen = Screen(as_json=as_json)
    return run_async(screen, partial(_import, screen, state, paths, form, agent))


async def _import(
    screen: Screen, state: str | None, paths: tuple[str, ...], form: str, agent: str | None
) -> None:
    known = {*BUILT_IN, *(one.name for one in load_configuration(None).agents)}
    async with open_target(screen, state=state, access="keep") as sup:
        for path in paths:
            require_file(path)
            async with progress(screen, f"importing {path}"):
                made = await sup.import_(path, form, agent=agent)  # type: ignore[arg-type]  # click has looked
                info = await made.info()
            if info.agent not in known:
                screen.warn(
                    f"agent {info.agent} is not configured:"
                    " the session can be read, but cannot be resumed"
                )
            if screen.as_json:
                screen.data(info)
            else:
                told = f"  {info.title}" if info.title else ""
                screen.line(Cell(info.id, "bold"), Cell(f"  {info.last_seq} records{told}"))
