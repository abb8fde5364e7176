"""Import of sessions from our own JSON lines, or from files of picoclaw and ggcode.

`read_import` is pure: it takes lines and returns facts. The result can always be stored under a new
id and replayed; other input is refused with the line number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, get_args

from supervisor.core.errors import ConfigError, ImportFailed, short_repr

from .builder import ImportedSession
from .ggcode import read_ggcode
from .native import read_native
from .picoclaw import read_picoclaw

__all__ = ["IMPORT_FORMATS", "ImportFailed", "ImportFormat", "ImportedSession", "read_import"]

ImportFormat: TypeAlias = Literal["jsonl", "picoclaw", "ggcode"]
IMPORT_FORMATS: Final[tuple[ImportFormat, ...]] = get_args(ImportFormat)


def read_import(
    format: ImportFormat,  # noqa: A002 - the name in all interfaces
    lines: Iterable[str],
    *,
    meta: str | None = None,
    at: float = 0.0,
) -> ImportedSession:
    r"""Return the session that the lines of a file describe.

    Raise `ImportFailed` if they are invalid. `lines` are those of a text file, split at "\n" only.
    Open it with `errors="surrogateescape"`, so that bytes that are not text are reported with their
    line number. `meta` is the text of picoclaw's meta file, if there is one. `at` is the time of
    entries without a time.
    """
    if isinstance(lines, str):
        lines = lines.split("\n")
    match format:
        case "jsonl":
            return read_native(lines)
        case "picoclaw":
            return read_picoclaw(lines, meta, at)
        case "ggcode":
            return read_ggcode(lines, at)
        case _:
            raise ConfigError(
                f"there is no import format {short_repr(format)}",
                hint=f"one of {', '.join(IMPORT_FORMATS)}",
            )
