"""Reading of one configuration file, with the line of each key.

The TOML parser of the standard library does not report lines. So each statement is found and parsed
again: it is the smallest number of lines that parses alone.

Rule 1: a configuration names commands, so a file that another user could have written is refused.
Rule 2: opening a file never blocks, and a file larger than `MAX_BYTES` is refused.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import orjson

from .sources import InvalidValue, KeyPath, escape_unprintable

# Each further line parses the statement again, only to find its line.
MAX_STATEMENT_LINES: Final = 100


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each key and table of a valid TOML text.

    After a statement of more than `MAX_STATEMENT_LINES` lines the rest has no lines, because a
    missing line is better than a wrong one.
    """
    found: dict[tuple[str, ...], int] = {}
    lines = text.replace("\r\n", "\n").split("\n")
    table: tuple[str, ...] = ()
    at = 0
    while at < len(lines):
        count = _statement_length(lines, at)
        if count is None:
            break
        statement = tomllib.loads("\n".join(lines[at : at + count]))
        if lines[at].lstrip().startswith("["):
            table = _table_path(statement)
            found.setdefault(table, at + 1)
        else:
            for path in _key_paths(statement):
                found[table + path] = at + 1
        at += count
    return found


def _statement_length(lines: list[str], at: int) -> int | None:
    """Return the number of lines of the statement at a line; None if it is too long."""
    for count in range(1, MAX_STATEMENT_LINES + 1):
        if at + count > len(lines):
            break
        try:
            tomllib.loads("\n".join(lines[at : at + count]))
        except ValueError:
            continue
        return count
    return None


def _table_path(statement: dict[str, Any]) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    inside: Any = statement
    while isinstance(inside, dict) and inside:
        ((name, inside),) = inside.items()
        path += (name,)
    return path


def _key_paths(statement: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, value in statement.items():
        yield (name,)
        if isinstance(value, dict):
            for path in _key_paths(value):
                yield (name, *path)


MAX_BYTES: Final = 256 * 1024


@attrs.frozen
class FileContents:
    """The tables of a file, and the line of each key."""

    tables: dict[str, Any]
    lines: dict[KeyPath, int] = attrs.field(factory=dict)


def read_file(path: Path) -> FileContents:
    """Return the contents of a TOML file, or of a JSON file by its suffix.

    Raise FileNotFoundError if the file does not exist, and InvalidValue if it is malformed,
    unreadable or not trusted.
    """
    text = _read_text(path)
    if path.suffix == ".json":
        return FileContents(_from_json(text))
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise InvalidValue("is nested too deeply", hint="a configuration has four levels") from None
    except ValueError as error:  # TOMLDecodeError, or a number that is too long
        raise InvalidValue(
            f"is not TOML: {escape_unprintable(str(error))}", hint="correct that line"
        ) from None
    return FileContents(tables, key_lines(text))


def distrust_reason(
    owner: int, group: int, mode: int, *, our_user: int, our_group: int
) -> tuple[str, str] | None:
    """Return why the owner or mode of a file makes it unsafe, and what to do; None if it is safe.

    Our own group may write: on many systems each user has a private group.
    """
    if owner not in (our_user, 0):
        return (
            f"belongs to user {owner}",
            "it could run commands as you: change its owner with `chown`",
        )
    if mode & stat.S_IWOTH:
        return "is writable by all users", "run `chmod o-w` on it"
    if mode & stat.S_IWGRP and group != our_group:
        return f"is writable by group {group}", "run `chmod g-w` on it"
    return None


def _read_text(path: Path) -> str:
    try:
        # Without NONBLOCK, opening a named pipe blocks until it has a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise InvalidValue(
            f"cannot be read: {error.strerror}", hint="check its mode and owner"
        ) from None
    except ValueError:  # a NUL in the path
        raise InvalidValue("is not a path", hint="remove the NUL character") from None
    try:
        _require_trusted(os.fstat(descriptor))
        data = _read_bytes(descriptor)
    except OSError as error:
        raise InvalidValue(f"cannot be read: {error.strerror}", hint="check the disk") from None
    finally:
        os.close(descriptor)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"is not UTF-8 at byte {error.start}", hint="save it as UTF-8") from None


def _require_trusted(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidValue("is not a regular file", hint="give the path of a file")
    reason = distrust_reason(
        found.st_uid,
        found.st_gid,
        found.st_mode,
        our_user=os.geteuid(),
        our_group=os.getegid(),
    )
    if reason is not None:
        raise InvalidValue(reason[0], hint=reason[1])


def _read_bytes(descriptor: int) -> bytes:
    data = b""
    while piece := os.read(descriptor, MAX_BYTES + 1 - len(data)):
        data += piece
        if len(data) > MAX_BYTES:
            hint = "check that it is a configuration"
            raise InvalidValue(f"is larger than {MAX_BYTES} bytes", hint=hint)
    return data


def _from_json(text: str) -> dict[str, Any]:
    try:
        tables = orjson.loads(text)
    except ValueError as error:
        raise InvalidValue(
            f"is not JSON: {escape_unprintable(str(error))}", hint="correct that line"
        ) from None
    if not isinstance(tables, dict):
        raise InvalidValue("is not a JSON object", hint="`understudy config --json` prints one")
    return tables
