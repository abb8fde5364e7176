"""News of an agent are records of a turn, whenever the agent sends them; see acp/agent_news.py."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core import agent_events
from supervisor.core.ids import TurnId
from supervisor.core.state import ContextUse, Usage
from supervisor.drivers.acp.agent import scripted_process
from supervisor.drivers.acp.agent_news import MAX_PENDING_NEWS
from supervisor.drivers.acp.turn_result import TurnActivity, classify_turn_end
from supervisor.drivers.acp.updates import Updates
from tests.support.acp_driver import open_harness
from tests.support.acp_updates import call, progress, spent, text, written
from tests.support.driver_context import FakeDriverContext

NEXT = TurnId("turn_2")


def notice(title: object = "careful", **fields: object) -> dict[str, Any]:
    return {"sessionUpdate": "notice", "severity": "warning", "title": title, **fields}


def compaction(status: str = "completed") -> dict[str, Any]:
    return {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": status}


def subagent(**fields: object) -> dict[str, Any]:
    return {"sessionUpdate": "subagent_update", "sessionId": "child", **fields}


# Notices ----------------------------------------------------------------------------------


async def test_a_notice_is_a_record(turn_context: FakeDriverContext, updates: Updates) -> None:
    await updates.on_update(notice(description="the disk is nearly full"))
    await updates.on_update(notice("hello", severity=None))

    assert written(turn_context, "notice") == [
        {"severity": "warning", "text": "careful", "detail": "the disk is nearly full"},
        {"severity": "info", "text": "hello", "detail": None},
    ]


@pytest.mark.parametrize("title", [None, "", "  ", 4])
async def test_a_notice_without_a_title_is_reported_as_unknown(
    turn_context: FakeDriverContext, updates: Updates, title: object
) -> None:
    await updates.on_update(notice(title))

    (warning,) = written(turn_context, "warning")
    assert warning["text"] == "the agent sent a notice without a title, which was ignored"


async def test_news_between_turns_are_records_of_the_next_turn(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    updates.end_turn()
    for _ in range(2 * MAX_PENDING_NEWS):
        await updates.on_update(notice())
    turn_context.begin(NEXT)
    updates.begin_turn(NEXT)

    assert {turn for turn, *_ in turn_context.output} == {NEXT}
    assert len(written(turn_context, "notice")) == MAX_PENDING_NEWS


async def test_replayed_news_are_no_records_except_notices(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    updates.end_turn()
    with updates.replaying_history():
        await updates.on_update(compaction())
        await updates.on_update(notice())
    turn_context.begin(NEXT)
    updates.begin_turn(NEXT)

    assert [kind for _, kind, _ in turn_context.output] == ["notice"]


# The end of a turn ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "outcome", "error"),
    [("info", "completed", None), ("warning", "completed", None), ("error", "failed", "no: why")],
)
async def test_a_turn_with_nothing_but_the_notice_of_an_error_has_failed(
    updates: Updates, severity: str, outcome: str, error: str | None
) -> None:
    await updates.on_update(notice("no", severity=severity, description="why"))

    end = classify_turn_end("end_turn", text="", activity=updates.end_turn())

    assert (end.outcome, end.error) == (outcome, error)


async def test_a_turn_with_work_survives_the_notice_of_an_error(updates: Updates) -> None:
    await updates.on_update(notice(severity="error"))
    await updates.on_update(call())

    activity = updates.end_turn()

    assert classify_turn_end("end_turn", text="", activity=activity).outcome == "completed"
    alone = TurnActivity(news=1, error_notice="no")
    assert classify_turn_end("end_turn", text="done", activity=alone).outcome == "completed"


async def test_a_turn_that_only_compacts_is_completed(updates: Updates) -> None:
    await updates.on_update(compaction())

    end = classify_turn_end("end_turn", text="", activity=updates.end_turn())

    assert end.outcome == "completed"


# The context ------------------------------------------------------------------------------


async def test_a_context_that_shrinks_is_reported_without_usage(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(spent(used=900, size=1000))
    await updates.on_update(spent(used=100, size=1000))
    await updates.on_update(spent(used=100, size=1000))

    reports = turn_context.all(agent_events.UsageReported)
    assert [(report.usage, report.context) for report in reports] == [
        (Usage(900), ContextUse(900, 1000)),
        (Usage(), ContextUse(100, 1000)),
    ]


async def test_a_context_that_was_reported_before_the_turn_is_reported_at_its_end(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    updates.end_turn()
    await updates.on_update(spent(used=900, size=0))
    updates.begin_turn(NEXT)
    updates.end_turn()
    updates.begin_turn(NEXT)
    updates.end_turn()

    (report,) = turn_context.all(agent_events.UsageReported)
    assert (report.turn, report.usage, report.context) == (NEXT, Usage(), ContextUse(900))


# Names of tools ---------------------------------------------------------------------------


async def test_a_tool_name_that_comes_late_is_written_once(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call(title="List files"))
    await updates.on_update(progress(name="bash"))
    await updates.on_update(progress(name="bash"))

    names = [body["update"].get("name") for body in written(turn_context, "tool_update")]
    assert [name for name in names if name] == ["bash"]
    assert updates.tool_report("c1").display_name == "bash"


async def test_a_tool_name_from_the_begin_is_the_name_of_the_call(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(call(name="bash", title="List files"))

    (started,) = turn_context.all(agent_events.CallStarted)
    (described,) = written(turn_context, "tool_update")
    assert (started.name, described["update"]) == ("bash", {"title": "List files"})


# Subagents --------------------------------------------------------------------------------


async def test_subagents_are_unknown_without_the_setting(
    turn_context: FakeDriverContext, updates: Updates
) -> None:
    await updates.on_update(subagent(title="Explorer"))

    (warning,) = written(turn_context, "warning")
    assert "an update of kind subagent_update" in warning["text"]


async def test_text_of_a_subagent_is_progress_and_no_record(
    turn_context: FakeDriverContext,
) -> None:
    updates = Updates(turn_context, has_subagents=True)
    updates.begin_turn(TurnId("turn_1"))
    await updates.on_update(subagent(title="Explorer", state={"state": "running"}))
    before = turn_context.progress

    updates.routed({"sessionId": "child", "update": text("hello")})
    updates.routed({"sessionId": "stranger", "update": text("hello")})

    assert turn_context.progress == before + 1
    assert [kind for _, kind, _ in turn_context.output] == ["subagent"]
    assert updates.subagent_name({"sessionId": "child"}) == "Explorer"


async def test_messages_between_subagents_are_no_records(turn_context: FakeDriverContext) -> None:
    updates = Updates(turn_context, has_subagents=True)
    updates.begin_turn(TurnId("turn_1"))

    await updates.on_update({"sessionUpdate": "session_message", "messageId": "m1"})

    assert turn_context.output == []


# A whole driver ---------------------------------------------------------------------------


async def test_the_agent_is_told_what_the_driver_handles() -> None:
    async with (
        open_harness() as plain,
        open_harness(agent=scripted_process(subagents=True)) as open_to_subagents,
    ):
        for harness in (plain, open_to_subagents):
            await harness.come_up()
        told = [
            harness.heard("initialize")[0]["clientCapabilities"]
            for harness in (plain, open_to_subagents)
        ]

    assert [one["session"]["notices"] for one in told] == [{}, {}]
    assert [one["session"]["compaction"] for one in told] == [{}, {}]
    assert [one.get("subagents") for one in told] == [None, {}]


async def test_a_driver_records_the_news_of_a_scripted_agent() -> None:
    script = "window 900 1000\ncompact 100 the work so far\nnotice info hello\nsay done"
    async with open_harness() as harness:
        await harness.come_up()
        ended = await harness.run(script)

        assert ended.outcome == "completed"
        assert harness.context.written("notice") == [
            {"severity": "info", "text": "hello", "detail": None}
        ]
        _, compacted = harness.context.written("agent_compaction")
        assert (compacted["tokens_before"], compacted["tokens_after"]) == (900, 100)
        assert compacted["summary"] == "the work so far"


async def test_a_driver_records_subagents_but_not_their_text() -> None:
    script = "subagent Explorer running I look around\nsubagent Explorer idle\nsay done"
    async with open_harness(agent=scripted_process(subagents=True)) as harness:
        await harness.come_up()
        await harness.run(script)

        states = [body["state"] for body in harness.context.written("subagent")]
        assert states == ["running", "idle"]
        assert harness.context.written("agent_text") == ["done"]


async def test_a_question_of_a_subagent_names_it_and_joins_no_call_of_the_agent() -> None:
    script = "subagent Explorer running\nsubagent-ask Explorer bash"
    async with open_harness(agent=scripted_process(subagents=True)) as harness:
        await harness.come_up()
        harness.order(script)
        asked = await harness.context.heard(agent_events.PermissionAsked)
        harness.driver.answer(asked.request, "allow_once")
        await harness.context.heard(agent_events.TurnEnded)

        assert (asked.tool, asked.question) == ("bash", "Explorer: bash")
        assert "Explorer: bash: allowed\n" in harness.context.written("agent_text")
