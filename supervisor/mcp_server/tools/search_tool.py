"""The tool `search`: messages with all words of a text, in the sessions that the caller reaches."""

from __future__ import annotations

from typing import Final

import attrs

from supervisor.core.errors import ConfigError
from supervisor.mcp_server.session_tool import (
    MAX_TEXT_CHARS,
    Answered,
    SessionTool,
    ToolContext,
    clip,
    described,
)

_MAX_HITS: Final = 100


@attrs.frozen(kw_only=True)
class SearchArguments:
    """The arguments of `search`."""

    text: str = described("the words, all of which a message must have")
    session: str | None = described("only in this session; default: in yours and all below", None)
    limit: int = described("messages at most", 20, minimum=1, maximum=_MAX_HITS)
    after: str | None = described("the next of the answer before", None)


@attrs.frozen(kw_only=True)
class FoundMessage:
    """A message; the words are marked with `[` and `]`."""

    session: str
    record: int = described("its number in the session")
    turn: str | None = None
    kind: str = described("user_text, agent_text ...")
    at: float = described("seconds since 1970")
    text: str


@attrs.frozen(kw_only=True)
class SearchAnswer:
    """The messages, the newest first."""

    messages: tuple[FoundMessage, ...] = described("with session, turn and record number")
    next: str | None = described("there is more: give it as after", None)


async def _run(context: ToolContext, given: SearchArguments) -> Answered:
    if not given.text.strip():
        raise ConfigError("text is blank", hint="give words to search for")
    target = None if given.session is None else await context.find(given.session)
    hits = await context.search(
        given.text, target, before=_position(given.after), limit=given.limit + 1
    )
    shown = hits[: given.limit]
    answer = SearchAnswer(
        messages=tuple(
            FoundMessage(
                session=hit.session_id,
                record=hit.seq,
                turn=hit.turn_id,
                kind=hit.kind,
                at=hit.at,
                text=clip(hit.snippet),
            )
            for hit in shown
        ),
        next=str(shown[-1].position) if len(hits) > given.limit else None,
    )
    lines = [f"{hit.session} #{hit.record}: {hit.text}" for hit in answer.messages]
    return answer, clip("\n".join(lines), MAX_TEXT_CHARS) or "nothing found"


def _position(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or not 0 < len(text) <= len(str(2**63)) - 1:
        raise ConfigError("after is no position", hint="give the next of the answer before")
    return int(text)


TOOL: Final = SessionTool(
    name="search",
    title="Search messages",
    description=(
        "Find messages of your own session and of the sessions below that contain all given words,"
        " the newest first."
    ),
    arguments=SearchArguments,
    answer=SearchAnswer,
    run=_run,
    is_read_only=True,
)
