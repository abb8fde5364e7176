"""The tool `export` of an assistant: a session as text, in portions."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from supervisor.mcp_server.session_tool import (
    MAX_TEXT_CHARS,
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
)


@attrs.frozen(kw_only=True)
class ExportArguments:
    """The arguments of `export`."""

    session: str = described("id, name, key or path of a session")
    format: Literal["markdown", "jsonl"] = described(
        "markdown for people, jsonl with every record", "markdown"
    )
    redact: bool = described("mask what looks like a token or a password", default=True)
    start: int = described(
        "the first character: the next of the answer before", 0, minimum=0, maximum=2**40
    )
    max_chars: int = described("characters at most", 16_000, minimum=1, maximum=100_000)


@attrs.frozen(kw_only=True)
class ExportAnswer:
    """A portion of the exported text."""

    session: str = described("the id of the session")
    text: str = described("the portion")
    next: int | None = described("there is more: give it as start", None)
    total_chars: int = described("the length of the whole text")


async def _run(context: ToolContext, given: ExportArguments) -> Answered:
    target = await context.find(given.session)
    whole = await context.subtree.session(target).export(given.format, redact=given.redact)
    end = given.start + given.max_chars
    answer = ExportAnswer(
        session=target,
        text=whole[given.start : end],
        next=end if end < len(whole) else None,
        total_chars=len(whole),
    )
    return answer, clip(answer.text, MAX_TEXT_CHARS) or "no more text"


TOOL: Final = SessionTool(
    name="export",
    title="Export a session",
    description="Return a whole session as text, in portions.",
    arguments=ExportArguments,
    answer=ExportAnswer,
    run=_run,
    is_read_only=True,
)
