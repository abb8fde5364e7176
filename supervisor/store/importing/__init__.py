"""A session that comes from elsewhere: our own JSON lines, or the files of picoclaw and ggcode.

`read` is pure: lines in, facts out. What it gives can be stored under any new id, and replays
without surprise: whatever would not is refused here, with the number of its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, get_args

from supervisor.core.errors import ConfigError, ImportFailed, shown

from .ggcode import read_ggcode
from .imported import Imported
from .own import read_own
from .picoclaw import read_picoclaw

__all__ = ["FORMATS", "Format", "ImportFailed", "Imported", "read"]

Format: TypeAlias = Literal["jsonl", "picoclaw", "ggcode"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def read(
    format: Format,  # noqa: A002 - the word that every surface uses for it
    lines: Iterable[str],
    *,
    meta: str | None = None,
    at: float = 0.0,
) -> Imported:
    r"""The session that the lines of a file tell of.

    `lines` as a text file gives them, split at "\n" only; open it with `errors="surrogateescape"`,
    so that bytes which are no text are reported with the number of their line. `meta` is the text
    of picoclaw's file beside it, if there is one. `at` is the time of what has none of its own.
    Raises `ImportFailed`.
    """
    if isinstance(lines, str):
        lines = lines.split("\n")
    match format:
        case "jsonl":
            return read_own(lines)
        case "picoclaw":
            return read_picoclaw(lines, meta, at)
        case "ggcode":
            return read_ggcode(lines, at)
        case _:
            raise ConfigError(
                f"there is no import format {shown(format)}", hint=f"one of {', '.join(FORMATS)}"
            )
