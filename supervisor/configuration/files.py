"""Reading one file: only if it is ours to obey, and only so much.

Rule 1: a configuration names commands, so a file that somebody else could have written is not read.
Rule 2: nothing is opened that could block, and no file is read that is larger than any that was
        written by hand.
"""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

import attrs
import orjson

from .lines import lines_of
from .sources import KeyPath, Wrong, printable

MOST_BYTES: Final = 256 * 1024


@attrs.frozen
class Read:
    """What a file says, and on which line it says it."""

    tables: dict[str, Any]
    lines: dict[KeyPath, int] = attrs.field(factory=dict)


def read_file(path: Path) -> Read:
    """Read a TOML file, or JSON if its name says so.

    Raises `FileNotFoundError` if there is none, and `Wrong` if it cannot be read or is not to be.
    """
    text = _text_of(path)
    if path.suffix == ".json":
        return Read(_from_json(text))
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise Wrong("is nested too deeply", hint="a configuration has four levels") from None
    except ValueError as error:  # TOMLDecodeError, or a number that is too long
        raise Wrong(f"is no TOML: {printable(str(error))}", hint="mend that line") from None
    return Read(tables, lines_of(text))


def why_not_trusted(
    owner: int, group: int, mode: int, *, our_user: int, our_group: int
) -> tuple[str, str] | None:
    """What is wrong with a file of that owner, group and mode, and what to do; None if nothing.

    Our own group may write: on many systems everybody has one to himself.
    """
    if owner not in (our_user, 0):
        return f"belongs to user {owner}", "it could run commands as you: make it your own"
    if mode & stat.S_IWOTH:
        return "can be changed by everybody", "take that right away with `chmod o-w`"
    if mode & stat.S_IWGRP and group != our_group:
        return f"can be changed by group {group}", "take that right away with `chmod g-w`"
    return None


def _text_of(path: Path) -> str:
    try:
        # Without NONBLOCK, opening a pipe waits for somebody to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise Wrong(f"cannot be read: {error.strerror}", hint="see to its rights") from None
    except ValueError:  # a NUL in the path
        raise Wrong("is no path", hint="leave out the NUL") from None
    try:
        _refuse_unless_ours(os.fstat(descriptor))
        data = _bytes_of(descriptor)
    except OSError as error:
        raise Wrong(f"cannot be read: {error.strerror}", hint="see to the disk") from None
    finally:
        os.close(descriptor)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Wrong(f"is no UTF-8 at byte {error.start}", hint="save it as UTF-8") from None


def _refuse_unless_ours(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Wrong("is no regular file", hint="give the path of a file")
    complaint = why_not_trusted(
        found.st_uid,
        found.st_gid,
        found.st_mode,
        our_user=os.geteuid(),
        our_group=os.getegid(),
    )
    if complaint is not None:
        raise Wrong(complaint[0], hint=complaint[1])


def _bytes_of(descriptor: int) -> bytes:
    data = b""
    while piece := os.read(descriptor, MOST_BYTES + 1 - len(data)):
        data += piece
        if len(data) > MOST_BYTES:
            hint = "is it a configuration at all?"
            raise Wrong(f"is larger than {MOST_BYTES} bytes", hint=hint)
    return data


def _from_json(text: str) -> dict[str, Any]:
    try:
        tables = orjson.loads(text)
    except ValueError as error:
        raise Wrong(f"is no JSON: {printable(str(error))}", hint="mend that line") from None
    if not isinstance(tables, dict):
        raise Wrong("is no JSON object", hint="`understudy config --json` prints one")
    return tables
