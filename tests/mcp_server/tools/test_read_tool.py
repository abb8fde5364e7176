"""The tool `read`: results, transcripts, tool calls and plans, in portions."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import settle
from supervisor import Session, Supervisor
from supervisor.mcp_server.session_text import TextPosition, parse_position
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.tool_calls import CallingSession


@pytest.fixture
async def child_run(parent: CallingSession, child_agent: FakeAgent) -> AgentRun:
    """Return the running turn of a child called tom."""
    await parent.call("spawn", text="errand", agent="child-agent", name="tom")
    return await child_agent.next_run()


@pytest.fixture
def child(sup: Supervisor, child_run: AgentRun) -> Session:
    return sup.session(child_run.turn.session_id)


async def read_all(parent: CallingSession, what: str, **given: Any) -> tuple[str, int]:  # noqa: ANN401 - arguments
    """Return the whole text, and the number of portions that it came in."""
    text, count, after = "", 0, None
    while True:
        answer = await parent.call("read", session="tom", what=what, after=after, **given)
        text, count, after = text + answer["text"], count + 1, answer.get("next")
        if after is None:
            return text, count


async def test_a_result_has_the_text_and_the_outcome(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("it is done")
    await child.wait_idle()

    answer = await parent.call("read", session="tom")

    assert (answer["text"], answer["outcome"]) == ("it is done", "completed")
    assert answer["turn"] == child_run.turn.id
    assert "next" not in answer


async def test_a_session_without_a_result_has_none(
    parent: CallingSession, child_run: AgentRun
) -> None:
    answer = await parent.call("read", session="tom")

    assert answer["text"] == ""
    assert "outcome" not in answer


async def test_a_failed_turn_says_why(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.fail(ValueError("no such file"))
    await child.wait_idle()

    answer = await parent.call("read", session="tom")

    assert answer["outcome"] == "failed"
    assert "no such file" in answer["error"]


@pytest.mark.parametrize("max_chars", [1, 7, 1_000])
async def test_a_long_result_comes_in_portions(
    parent: CallingSession, child: Session, child_run: AgentRun, max_chars: int
) -> None:
    whole = "0123456789" * 2
    child_run.finish(whole)
    await child.wait_idle()

    text, count = "", 0
    after = None
    while True:
        answer = await parent.call("read", session="tom", after=after, max_chars=max_chars)
        text, count, after = text + answer["text"], count + 1, answer.get("next")
        await settle()
        if after is None:
            break
        if not count % 15:  # the rate of calls
            await child.info()
            import trio  # noqa: PLC0415

            await trio.sleep(1)

    assert text == whole
    assert count == -(-len(whole) // max_chars)


async def test_a_transcript_has_the_messages_with_their_authors(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    await child_run.do(child_run.turn.say("half "))
    await child_run.do(child_run.turn.think("secretly"))
    await child_run.do(child_run.turn.say("and half"))
    child_run.finish()
    await child.wait_idle()

    text, _ = await read_all(parent, "transcript")

    assert [line for line in text.splitlines() if line] == [
        line for line in text.splitlines() if "user: errand" in line or "agent: " in line
    ]
    assert "half " in text
    assert "and half" in text
    assert "secretly" not in text


async def test_portions_of_a_transcript_make_the_whole(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    await child_run.do(child_run.turn.say("x" * 10_000))
    child_run.finish()
    await child.wait_idle()

    whole, _ = await read_all(parent, "transcript", max_chars=100_000)
    portions, count = await read_all(parent, "transcript", max_chars=1_000)
    entries, _ = await read_all(parent, "transcript", limit=1)

    assert whole == portions == entries
    assert count > 10


async def test_a_position_brings_only_what_came_since(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    await child_run.do(child_run.turn.say("early"))
    child_run.finish()
    await child.wait_idle()
    first = await parent.call("read", session="tom", what="transcript")
    await child.append("agent", "late")

    answer = await parent.call("read", session="tom", what="transcript", after=first["position"])

    assert "late" in answer["text"]
    assert "early" not in answer["text"]


async def test_a_transcript_begins_with_the_chapter(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("early")
    await child.wait_idle()
    await child.clear()
    await child.append("user", "late")

    text, _ = await read_all(parent, "transcript")

    assert ("late" in text, "errand" in text) == (True, False)


async def test_tool_calls_have_their_input_and_their_result(
    parent: CallingSession, child_run: AgentRun
) -> None:
    call = await child_run.open_call("bash", {"command": "ls"})
    call.call.result("a file")
    await call.close()
    await settle()

    text, _ = await read_all(parent, "tools")

    began, ended = text.splitlines()
    assert "bash" in began
    assert '"ls"' in began
    assert "completed" in ended


async def test_a_plan_is_the_last_one(parent: CallingSession, child_run: AgentRun) -> None:
    await child_run.do(child_run.turn.plan(["old"]))
    entry = {"content": "write", "status": "pending"}
    await child_run.do(child_run.turn.plan([entry, "test"]))
    await child_run.do(child_run.turn.say("x"))
    child_run.finish()
    await settle()

    text, _ = await read_all(parent, "plan")

    assert text == "- write (pending)\n- test"


async def test_an_agent_reads_its_own_session(parent: CallingSession, session: Session) -> None:
    answer = await parent.call("read", session=parent.id, what="transcript")

    assert "user: lead" in answer["text"]


@pytest.mark.parametrize(
    "given",
    [{"after": "x"}, {"after": "1:2:3"}, {"limit": 0}, {"max_chars": 0}, {"what": "secrets"}],
)
async def test_an_invalid_read_is_refused(parent: CallingSession, given: dict[str, Any]) -> None:
    refused = await parent.refusal("read", session=parent.id, **given)

    assert refused["code"] == "config_error"


def test_a_position_has_one_text_form() -> None:
    for position in (TextPosition(), TextPosition(7), TextPosition(7, 3)):
        assert parse_position(str(position)) == position
