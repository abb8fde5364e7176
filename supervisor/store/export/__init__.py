"""Export of a session as markdown, JSON lines, or one page of HTML.

`export` is pure and lazy: it takes records and yields pieces of text, with at most one turn in
memory. `transcript` turns records into readable items, `markdown` and `html` render them, `jsonl`
writes the records verbatim, which is the format that can be imported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias, get_args

from supervisor.core.errors import ConfigError, short_repr
from supervisor.core.info import Info
from supervisor.core.records import Record

from .html import write_html
from .jsonl import write_jsonl
from .markdown import write_markdown
from .transcript import transcript_items
from .values import redacted_info

ExportFormat: TypeAlias = Literal["markdown", "jsonl", "html"]
EXPORT_FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)


def export(
    format: ExportFormat,  # noqa: A002 - the name in all interfaces
    info: Info,
    records: Iterable[Record],
    *,
    redact: bool = False,
) -> Iterator[str]:
    """Yield the exported session in pieces, each computed when it is requested.

    `records` are those of the session, in order from the first. With `redact`, text that looks like
    a secret is replaced in every format; without `redact`, JSON lines are verbatim. Raise
    `ConfigError` at once for an unknown format.
    """
    shown_info = redacted_info(info) if redact else info
    match format:
        case "jsonl":
            return write_jsonl(shown_info, records, redact=redact)
        case "markdown":
            return write_markdown(shown_info, transcript_items(records, redact=redact))
        case "html":
            return write_html(shown_info, transcript_items(records, redact=redact))
        case _:
            raise ConfigError(
                f"there is no export format {short_repr(format)}",
                hint=f"one of {', '.join(EXPORT_FORMATS)}",
            )
