"""A session in a form that leaves the house: markdown, JSON lines, or one page of HTML.

`export` is pure and lazy: records in, pieces of text out, one turn in memory at most. `story`
makes of records what a person reads, `markdown` and `page` write it down, `lines` writes the
records as they are, which is what can be imported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias, get_args

from supervisor.core.errors import ConfigError, shown
from supervisor.core.info import Info
from supervisor.core.records import Record

from .lines import write_lines
from .markdown import write_markdown
from .page import write_page
from .story import tell
from .summary import covered

Format: TypeAlias = Literal["markdown", "jsonl", "html"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def export(
    format: Format,  # noqa: A002 - the word that every surface uses for it
    info: Info,
    records: Iterable[Record],
    *,
    redact: bool = False,
) -> Iterator[str]:
    """The session as pieces of text, which are made as they are asked for.

    `records` are its own, from the first on and in order. With `redact`, everything that looks
    like a secret is covered, in every format; without it, JSON lines are verbatim. Raises
    `ConfigError` at once for a format that there is not.
    """
    shown_info = covered(info) if redact else info
    match format:
        case "jsonl":
            return write_lines(shown_info, records, redact=redact)
        case "markdown":
            return write_markdown(shown_info, tell(records, redact=redact))
        case "html":
            return write_page(shown_info, tell(records, redact=redact))
        case _:
            raise ConfigError(
                f"there is no export format {shown(format)}", hint=f"one of {', '.join(FORMATS)}"
            )
