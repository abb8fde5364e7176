"""What agents report beside their work, from a scripted process to sessions and transcripts."""

from __future__ import annotations

from typing import Any

import orjson

from supervisor import ContextUse, Session
from supervisor.core.state import SessionState
from supervisor.drivers.acp.agent import scripted_process
from supervisor.store.codec import decode, encode
from supervisor.store.export.transcript import transcript_items
from tests.support.acp_supervisor import open_acp_supervisor, open_session
from tests.support.core_session import idle
from tests.support.fake_agents import records


async def bodies(session: Session, kind: str) -> list[Any]:
    return [record.body for record in await records(session) if record.kind == kind]


async def notes(session: Session) -> list[str]:
    items = transcript_items(await records(session))
    found = ((getattr(item, "text", ""), getattr(item, "detail", None)) for item in items)
    return [f"{text}: {detail}" for text, detail in found if detail and text != "warning"]


async def test_a_session_shows_the_context_of_its_agent() -> None:
    async with open_session() as (session, _):
        assert (await session.info()).context is None
        await session.prompt("window 900 1000")
        assert (await session.info()).context == ContextUse(900, 1000)

        await session.prompt("window 40 1000")
        assert (await session.info()).context == ContextUse(40, 1000)
        assert (await bodies(session, "usage"))[-1] == {
            "input_tokens": 0,
            "output_tokens": 0,
            "cost": 0.0,
            "context_used": 40,
            "context_size": 1000,
        }


async def test_a_new_chapter_has_no_context_until_it_is_reported() -> None:
    async with open_session() as (session, _):
        await session.prompt("window 900 1000")
        await session.clear()

        assert (await session.info()).context is None


async def test_notices_and_compactions_are_part_of_the_transcript() -> None:
    async with open_session() as (session, _):
        await session.prompt("window 900 1000\ncompact 100 the work\nnotice warning careful\nsay a")

        assert await notes(session) == [
            "The agent compacts its context: 900 tokens",
            "The agent has compacted its context: 900 tokens before, 100 after: the work",
            "Warning of the agent: careful",
        ]


async def test_a_turn_with_only_the_notice_of_an_error_fails() -> None:
    async with open_session() as (session, _):
        result = await session.prompt("notice error no credit is left")

        assert (result.outcome, result.error) == ("failed", "no credit is left")


async def test_subagents_are_lines_of_the_transcript_and_no_sessions() -> None:
    agent = scripted_process("agent", subagents=True)
    async with open_acp_supervisor(agent) as (sup, _):
        session = await sup.create("agent")
        await session.prompt("subagent Explorer running I look\nsubagent Explorer idle\nsay a")

        (info,) = (await sup.list()).items
        states = [body["state"] for body in await bodies(session, "subagent")]
        assert (info.id, states) == (session.id, ["running", "idle"])
        said = [getattr(item, "text", "") for item in transcript_items(await records(session))]
        assert [text for text in said if text.startswith("Subagent")] == [
            "Subagent Explorer runs",
            "Subagent Explorer is idle",
        ]


async def test_an_agent_reports_no_subagents_by_default() -> None:
    async with open_session() as (session, _):
        result = await session.prompt("subagent Explorer running")

        assert result.text == "subagent: the client shows no subagents\n"
        assert await bodies(session, "subagent") == []


async def test_a_named_tool_is_recorded_with_name_and_title() -> None:
    async with open_session() as (session, _):
        await session.prompt("named-tool bash List files")

        (started,) = await bodies(session, "tool_call")
        updates = [body["update"] for body in await bodies(session, "tool_update")]
        assert started["name"] == "bash"
        assert updates[0]["title"] == "List files"


def test_a_row_of_an_earlier_version_has_no_context() -> None:
    row = encode(idle().session.changed(context=ContextUse(9, 10)))
    fields = orjson.loads(row)
    assert fields.pop("context") == {"used": 9, "size": 10}

    assert decode(row, SessionState).context == ContextUse(9, 10)
    assert decode(orjson.dumps(fields), SessionState).context is None
