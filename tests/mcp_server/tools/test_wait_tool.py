"""The tools `send` and `wait`: receipts, news, cursors, and what counts as waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Session, Settings, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.tool_calls import CallingSession


class Waiting:
    """A wait under way, and the time that it took once it has answered."""

    def __init__(self, caller: CallingSession, **given: Any) -> None:  # noqa: ANN401 - arguments
        self._caller, self._given = caller, given
        self.answer: Mapping[str, Any] | None = None
        self.seconds = 0.0
        self._done = trio.Event()

    async def run(self) -> None:
        began = trio.current_time()
        self.answer = (await self._caller.answer("wait", **self._given)).structured
        self.seconds = trio.current_time() - began
        self._done.set()

    async def result(self) -> Mapping[str, Any]:
        await self._done.wait()
        assert self.answer is not None
        return self.answer


@pytest.fixture
async def child(sup: Supervisor, parent: CallingSession) -> Session:
    """Return a child whose task has not ended."""
    made = await parent.call("spawn", text="errand", agent="child-agent", name="tom", role="scout")
    return sup.session(made["session"])


@pytest.fixture
async def child_run(child: Session, child_agent: FakeAgent) -> AgentRun:
    return await child_agent.next_run()


# send -------------------------------------------------------------------------------------------


async def test_an_input_of_a_parent_is_queued_while_the_child_is_busy(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    receipt = await parent.call("send", session=child.id, text="more")

    (waiting,) = await child.inputs()
    assert (receipt["status"], receipt["input"]) == ("queued", waiting.id)
    accepted = await records(child, "input_accepted")
    assert [one.body["source"] for one in accepted] == ["parent", "parent"]


@pytest.mark.parametrize("named", ["tom", "scout"])
async def test_a_child_is_named_by_its_name_or_its_role(
    parent: CallingSession, child: Session, child_run: AgentRun, named: str
) -> None:
    receipt = await parent.call("send", session=named, text="left", when_busy="steer")

    assert (receipt["session"], receipt["status"]) == (child.id, "staged")


async def test_a_role_of_several_children_is_ambiguous(
    parent: CallingSession, child: Session
) -> None:
    other = await parent.call("spawn", text="x", agent="child-agent", role="scout")

    refused = await parent.refusal("send", session="scout", text="x")

    assert (refused["code"], refused["retry"]) == ("ambiguous_id", "never")
    assert child.id in refused["detail"]
    assert other["session"] in refused["detail"]


async def test_the_same_key_sends_once(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    first = await parent.call("send", session="tom", text="x", idempotency_key="k")
    again = await parent.call("send", session="tom", text="x", idempotency_key="k")

    assert first == again
    assert len(await child.inputs()) == 1


async def test_a_busy_child_may_reject(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    refused = await parent.refusal("send", session="tom", text="x", when_busy="reject")

    assert refused["code"] == "input_refused"


async def test_nothing_is_sent_without_a_running_turn(
    session: Session, run: AgentRun, parent: CallingSession, child: Session
) -> None:
    run.finish()
    await session.wait_idle()

    assert (await parent.refusal("send", session="tom", text="x"))["code"] == "not_running"


async def test_an_agent_does_not_send_to_itself(parent: CallingSession) -> None:
    refused = await parent.refusal("send", session=parent.id, text="x")

    assert (refused["code"], refused["retry"]) == ("permission_denied", "never")


# wait -------------------------------------------------------------------------------------------


async def test_a_wait_ends_when_the_turn_ends(
    parent: CallingSession, child: Session, child_run: AgentRun, nursery: trio.Nursery
) -> None:
    wait = Waiting(parent)
    nursery.start_soon(wait.run)
    await trio.sleep(10)
    child_run.finish("it is done")

    answer = await wait.result()

    assert (answer["reason"], answer["running"], wait.seconds) == ("news", [], 10)
    (one,) = answer["sessions"]
    assert (one["session"], one["name"], one["role"]) == (child.id, "tom", "scout")
    assert (one["outcome"], one["text"], one["badge"]) == ("completed", "it is done", "idle")
    assert one["has_news"]


async def test_a_wait_without_news_times_out_and_says_who_is_at_work(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    began = trio.current_time()

    answer = await parent.call("wait", seconds=7)

    assert (answer["reason"], answer["running"]) == ("timeout", [child.id])
    assert trio.current_time() - began == pytest.approx(7)
    (one,) = answer["sessions"]
    assert (one["badge"], one["waits_for"], one["has_news"]) == ("running", "model", False)
    assert "text" not in one


async def test_a_child_that_has_ended_before_the_wait_is_news(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("early")
    await child.wait_idle()

    answer = await parent.call("wait")

    assert (answer["reason"], answer["sessions"][0]["text"]) == ("news", "early")


async def test_a_cursor_brings_only_later_news(
    parent: CallingSession,
    child: Session,
    child_run: AgentRun,
    child_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    child_run.finish("one")
    first = await parent.call("wait")
    await parent.call("send", session="tom", text="again")
    second_run = await child_agent.next_run()

    wait = Waiting(parent, after=first["cursor"])
    nursery.start_soon(wait.run)
    await trio.sleep(3)
    assert wait.answer is None
    second_run.finish("two")

    answer = await wait.result()
    assert (answer["sessions"][0]["text"], wait.seconds) == ("two", 3)


async def test_nothing_between_two_waits_is_missed(
    parent: CallingSession, child: Session, child_run: AgentRun, child_agent: FakeAgent
) -> None:
    first = await parent.call("wait", seconds=1)
    child_run.finish("one")
    await child.wait_idle()
    await child.send("by a person")  # another turn runs when the next wait begins
    await child_agent.next_run()

    answer = await parent.call("wait", after=first["cursor"])

    (one,) = answer["sessions"]
    assert (answer["reason"], one["text"], one["badge"]) == ("news", "one", "running")
    assert answer["running"] == [child.id]


async def test_an_old_cursor_brings_its_news_again(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    old = await parent.call("wait", seconds=1)
    child_run.finish("one")
    first = await parent.call("wait", after=old["cursor"])

    again = await parent.call("wait", after=old["cursor"])

    assert again["sessions"] == first["sessions"]
    assert again["reason"] == "news"


async def test_a_cursor_keeps_sessions_that_a_wait_does_not_name(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("one")
    first = await parent.call("wait")
    other = await parent.call("spawn", text="x", agent="echo", name="ann")
    second = await parent.call("wait", sessions=["ann"], after=first["cursor"])

    third = await parent.call("wait", sessions=["tom"], after=second["cursor"])

    assert second["sessions"][0]["session"] == other["session"]
    assert not third["sessions"][0]["has_news"]


async def test_a_wait_ends_at_once_when_nothing_can_come(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("one")
    first = await parent.call("wait")
    began = trio.current_time()

    answer = await parent.call("wait", after=first["cursor"])

    assert (answer["reason"], answer["running"]) == ("news", [])
    assert not answer["sessions"][0]["has_news"]
    assert trio.current_time() == began


async def test_a_wait_for_all_ends_with_the_last(
    parent: CallingSession,
    child: Session,
    child_run: AgentRun,
    child_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    await parent.call("spawn", text="x", agent="child-agent")
    second_run = await child_agent.next_run()
    wait = Waiting(parent, until="all")
    nursery.start_soon(wait.run)
    await trio.sleep(2)
    child_run.finish("first")
    await trio.sleep(2)
    assert wait.answer is None
    second_run.finish("second")

    answer = await wait.result()

    assert [one["text"] for one in answer["sessions"]] == ["first", "second"]
    assert wait.seconds == 4


async def test_a_session_that_stops_is_news_of_each_kind(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    first = await parent.call("wait", seconds=1)
    await child.stop()

    for kind in ("turn", "stopped", "any"):
        answer = await parent.call("wait", after=first["cursor"], **{"for": kind})
        (one,) = answer["sessions"]
        assert (one["has_news"], one["badge"]) == (True, "stopped")
        assert one["stop_reason"] == "user_cancelled"


async def test_a_stop_is_reported_once(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    await child.stop()
    answer = await parent.call("wait")
    assert answer["sessions"][0]["has_news"]

    refused = await parent.refusal("wait", after=answer["cursor"])
    named = await parent.call("wait", sessions=[child.id], after=answer["cursor"])

    assert refused["code"] == "not_running"
    assert not named["sessions"][0]["has_news"]


async def test_a_second_stop_is_news_again(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    await child.stop()
    first = await parent.call("wait")
    await child.resume()
    await child.stop()

    answer = await parent.call("wait", after=first["cursor"], **{"for": "stopped"})

    assert answer["sessions"][0]["has_news"]


async def test_a_question_of_a_child_is_attention(
    parent: CallingSession, child: Session, child_run: AgentRun, nursery: trio.Nursery
) -> None:
    first = await parent.call("wait", seconds=1)
    wait = Waiting(parent, after=first["cursor"], **{"for": "attention"})
    nursery.start_soon(wait.run)
    await trio.sleep(5)
    asking = child_run.begin(child_run.turn.ask("may I?", tool="look"))

    answer = await wait.result()

    (one,) = answer["sessions"]
    assert (one["badge"], one["attention"][0]["kind"]) == ("waiting-for-you", "permission")
    assert wait.seconds == 5
    child_run.finish()
    await settle()
    assert asking.done.is_set()


async def test_a_long_text_is_cut_and_said_so(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    child_run.finish("x" * 10_000)

    (one,) = (await parent.call("wait"))["sessions"]

    assert (len(one["text"]), one["is_truncated"]) == (4_000, True)


async def test_a_session_that_is_deleted_meanwhile_is_left_out(
    sup: Supervisor,
    parent: CallingSession,
    child_run: AgentRun,
    child_agent: FakeAgent,
    nursery: trio.Nursery,
) -> None:
    other = await parent.call("spawn", text="x", agent="child-agent")
    other_run = await child_agent.next_run()
    wait = Waiting(parent, until="all")
    nursery.start_soon(wait.run)
    await trio.sleep(1)
    await sup.delete(child_run.turn.session_id)
    await trio.sleep(1)
    other_run.finish()

    answer = await wait.result()

    assert [one["session"] for one in answer["sessions"]] == [other["session"]]
    assert wait.seconds == 2


# What counts as waiting -------------------------------------------------------------------------


async def test_why_knows_the_sessions_of_a_wait(
    session: Session,
    parent: CallingSession,
    child: Session,
    child_run: AgentRun,
    nursery: trio.Nursery,
) -> None:
    wait = Waiting(parent, seconds=20)
    nursery.start_soon(wait.run)
    await settle()

    why = await session.why()
    assert [one.session_id for one in why.chain] == [session.id, child.id]
    assert (await session.info()).waiting_for == "child"
    await wait.result()
    assert (await session.why()).waits_for == "model"


async def test_a_parent_that_waits_for_a_working_child_is_not_stalled(
    session: Session, parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    cursor = None
    for _ in range(20):
        await child_run.do(child_run.turn.say("progress"))
        cursor = (await parent.call("wait", seconds=50, after=cursor))["cursor"]

    assert await records(session, "quiet", "stalled") == []


async def test_a_wait_that_would_close_a_cycle_is_refused(
    sup: Supervisor,
    session: Session,
    parent: CallingSession,
    child: Session,
    child_run: AgentRun,
) -> None:
    asking = child_run.begin(sup.session(session.id).wait_idle())
    await settle()
    with sup._parts.registry.awaiting(child.id, session.id):
        refused = await parent.refusal("wait", sessions=["tom"])

    assert (refused["code"], refused["retry"]) == ("input_refused", "never")
    assert "wait for ever" in refused["detail"]
    child_run.finish()
    await asking.done.wait()


async def test_a_wait_for_oneself_is_refused(parent: CallingSession) -> None:
    refused = await parent.refusal("wait", sessions=[parent.id])

    assert refused["code"] == "input_refused"


async def test_a_wait_without_children_is_refused(parent: CallingSession) -> None:
    refused = await parent.refusal("wait")

    assert (refused["code"], refused["retry"]) == ("not_running", "later")


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 0},
        {"seconds": 51},
        {"after": "nonsense"},
        {"after": "s_1:x"},
        {"for_": "turn"},
        {"for": "nothing"},
        {"sessions": ["x"] * 101},
    ],
)
async def test_an_invalid_wait_is_refused(parent: CallingSession, given: dict[str, Any]) -> None:
    refused = await parent.refusal("wait", **given)

    assert (refused["code"], refused["retry"]) == ("config_error", "never")
    assert "for_" not in f"{refused}" or "for_" in given


async def test_concurrent_waits_of_a_session_are_bounded(
    parent: CallingSession, child: Session, child_run: AgentRun, nursery: trio.Nursery
) -> None:
    waits = [Waiting(parent, seconds=30) for _ in range(9)]
    for wait in waits:
        nursery.start_soon(wait.run)
    answers = [await wait.result() for wait in waits]

    refused = [one for one in answers if "code" in one]
    assert [(one["code"], one["retry"]) for one in refused] == [("too_many_waits", "after")]
    assert (await parent.call("wait", seconds=1))["reason"] == "timeout"


async def test_a_wait_of_a_client_that_has_gone_leaves_nothing(
    sup: Supervisor, session: Session, parent: CallingSession, child_run: AgentRun
) -> None:
    with trio.move_on_after(5):
        await parent.call("wait")
    await settle()

    assert sup._parts.registry.slot(session.id).progress.awaited_sessions == []
    calls = await records(session, "mcp_call")
    assert [one.body["outcome"] for one in calls] == ["ok", "cancelled"]
    assert calls[1].body["seconds"] == 5


async def test_the_longest_wait_is_a_setting(
    sup: Supervisor, parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    await sup.reload(settings=Settings(max_tool_wait_seconds=120))
    (described,) = [one for one in parent.tools.tools_for(parent.caller) if one.name == "wait"]
    assert described.input_schema["properties"]["seconds"]["maximum"] == 120

    began = trio.current_time()
    await parent.call("wait", seconds=120)
    assert trio.current_time() - began == 120
    await parent.refusal("wait", seconds=121)

    await sup.reload(settings=Settings(max_tool_wait_seconds=10))
    await parent.call("wait")
    assert trio.current_time() - began == 130
