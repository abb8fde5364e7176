"""The tools `interrupt` and `stop`: exactly the scope, and only sessions below."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import Session, Supervisor
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.tool_calls import CallingSession


@pytest.fixture
async def child_run(parent: CallingSession, child_agent: FakeAgent) -> AgentRun:
    """Return the running turn of a child called tom."""
    await parent.call("spawn", text="errand", agent="child-agent", name="tom")
    return await child_agent.next_run()


@pytest.fixture
def child(sup: Supervisor, child_run: AgentRun) -> Session:
    return sup.session(child_run.turn.session_id)


# interrupt ---------------------------------------------------------------------------------------


async def test_a_turn_of_a_child_is_interrupted(
    parent: CallingSession, run: AgentRun, child: Session, child_run: AgentRun
) -> None:
    report = await parent.call("interrupt", session="tom", reason="enough")

    assert (report["matched"], report["stopped"], report["ladder_step"]) == (1, 1, "ask")
    assert (await child.info()).last_outcome.outcome == "interrupted"  # type: ignore[union-attr]
    assert not run.over.is_set()
    (record,) = await records(child, "interrupted")
    assert record.body["reason"] == "enough"


async def test_a_named_turn_that_is_over_is_not_mistaken_for_the_next(
    parent: CallingSession, child: Session, child_run: AgentRun, child_agent: FakeAgent
) -> None:
    child_run.finish()
    await child.wait_idle()
    await child.send("next")
    next_run = await child_agent.next_run()

    report = await parent.call("interrupt", session="tom", ids=[child_run.turn.id])

    assert (report["already_over"], report["stopped"]) == (1, 0)
    assert not next_run.over.is_set()


async def test_tool_calls_are_interrupted_and_the_turn_goes_on(
    parent: CallingSession, child_run: AgentRun
) -> None:
    one, other, kept = [await child_run.open_call(name) for name in ("look", "bash", "look")]

    report = await parent.call(
        "interrupt", session="tom", scope="tool_call", ids=[one.id, other.id, "call_never"]
    )

    assert (report["matched"], report["stopped"], report["unknown"]) == (2, 2, 1)
    assert not kept.left.is_set()
    assert not child_run.over.is_set()


async def test_a_replacement_runs_next(
    parent: CallingSession, child: Session, child_run: AgentRun, child_agent: FakeAgent
) -> None:
    report = await parent.call("interrupt", session="tom", replace_with="rather this")

    second_run = await child_agent.next_run()
    assert second_run.turn.text == "rather this"
    accepted = await records(child, "input_accepted")
    assert (accepted[-1].body["input_id"], accepted[-1].body["source"]) == (
        report["input"],
        "parent",
    )


async def test_work_is_replaced_only_inside_a_turn(
    session: Session, run: AgentRun, parent: CallingSession, child_run: AgentRun
) -> None:
    run.finish()
    await session.wait_idle()

    refused = await parent.refusal("interrupt", session="tom", replace_with="x")
    assert refused["code"] == "not_running"
    assert (await parent.call("interrupt", session="tom"))["stopped"] == 1


@pytest.mark.parametrize(
    "given",
    [
        {"scope": "tool_call"},
        {"scope": "tool_call", "ids": ["c"], "replace_with": "x"},
        {"scope": "turn", "ids": ["a", "b"]},
        {"scope": "tree", "ids": ["a"]},
        {"ids": ["x"] * 51},
        {"scope": "world"},
    ],
)
async def test_an_invalid_interrupt_is_refused(
    parent: CallingSession, child_run: AgentRun, given: dict[str, Any]
) -> None:
    refused = await parent.refusal("interrupt", session="tom", **given)

    assert refused["code"] == "config_error"
    assert not child_run.over.is_set()


async def test_an_agent_does_not_interrupt_itself(parent: CallingSession, run: AgentRun) -> None:
    assert (await parent.refusal("interrupt", session=parent.id))["code"] == "permission_denied"
    await settle()
    assert not run.over.is_set()


# stop --------------------------------------------------------------------------------------------


async def test_a_child_is_stopped_and_its_place_is_free(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    answer = await parent.call("stop", session="tom")

    assert (answer["is_stopped"], answer["badge"], answer["stop_reason"]) == (
        True,
        "stopped",
        "user_cancelled",
    )
    assert (await parent.call("agents"))["left"]["children"] == 5
    again = await parent.call("stop", session=child.id)
    assert again["is_stopped"]


async def test_a_stop_after_the_turn_waits_a_bounded_time(
    parent: CallingSession, child: Session, child_run: AgentRun
) -> None:
    began = trio.current_time()

    answer = await parent.call("stop", session="tom", when="after_turn")

    assert (answer["is_stopped"], trio.current_time() - began) == (False, 45)
    child_run.finish()
    await child.wait_stopped()


async def test_an_agent_does_not_stop_itself(parent: CallingSession, session: Session) -> None:
    assert (await parent.refusal("stop", session=parent.id))["code"] == "permission_denied"
    assert (await session.info()).badge == "running"
