"""What the agent has used, and its own notices, as editors are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

import supervisor
from supervisor.acp_agent.usage_updates import UsageUpdates
from supervisor.core.ids import SessionId
from supervisor.core.records import Record
from supervisor.drivers.acp.agent import scripted_process
from tests.support.acp_editor import Editor, editing
from tests.support.acp_supervisor import open_acp_supervisor


@pytest.fixture
async def sup() -> AsyncIterator[supervisor.Supervisor]:
    agent = attrs.evolve(scripted_process("agent", ("--load",)), tools="off")
    async with open_acp_supervisor(agent) as (opened, _):
        yield opened


@pytest.fixture
async def editor(sup: supervisor.Supervisor) -> AsyncIterator[Editor]:
    async with editing(sup, agent="agent") as found:
        await found.start(session={"notices": {}})
        yield found


def told(editor: Editor) -> list[tuple[int, int]]:
    return [(one["used"], one["size"]) for one in editor.updates("usage_update")]


async def test_a_changed_context_is_told_before_the_prompt_is_answered(editor: Editor) -> None:
    session = await editor.new()
    assert told(editor) == []
    await editor.prompt(session, "window 500 1000\nsay on")
    assert told(editor) == [(500, 1000)]
    await editor.prompt(session, "say nothing new")
    await editor.prompt(session, "window 700 1000\nsay on")

    assert told(editor) == [(500, 1000), (700, 1000)]


async def test_another_editor_is_told_the_context_as_it_is_now(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await editor.prompt(session, "window 500 1000\nsay on")
    await editor.prompt(session, "window 700 1000\nsay on")
    async with editing(sup) as other:
        await other.start()
        await other.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await other.until(lambda: other.updates("usage_update"))

        assert told(other) == [(700, 1000)]


async def test_a_notice_of_the_agent_is_shown(editor: Editor) -> None:
    await editor.prompt(await editor.new(), "notice warning disk is full\nsay on")

    (notice,) = editor.updates("notice")
    assert (notice["severity"], notice["title"]) == ("warning", "disk is full")


# Figures ----------------------------------------------------------------------------------


def usage(seq: int, cost: float, **context: int) -> Record:
    body: dict[str, Any] = {"input_tokens": 1, "output_tokens": 1, "cost": cost, **context}
    return Record(SessionId("s_1"), seq, 1.0, None, "usage", body)


def test_the_cost_is_that_of_the_session() -> None:
    updates = UsageUpdates(5, 1.0, 10, 100)
    updates.add(usage(5, 7.0, context_used=99, context_size=100))  # is in the info
    updates.add(usage(6, 0.5))

    update = updates.changed()
    assert update is not None
    assert (update["used"], update["cost"]["amount"]) == (10, 1.5)
    assert updates.changed() is None


def test_a_context_of_unknown_size_is_not_told() -> None:
    updates = UsageUpdates(0, 0.0, None, None)
    updates.add(usage(1, 0.0, context_used=5))

    assert updates.changed() is None
