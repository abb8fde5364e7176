"""The tools `tree` and `why`: the caller and what is below, and nothing else."""

from __future__ import annotations

import pytest

from supervisor import Session, Supervisor
from supervisor.mcp_server.session_tools import SessionTools
from tests.support.fake_agents import FakeAgent
from tests.support.tool_calls import CallingSession


class Family:
    """A top with two children, of which the first, `mid`, has a child of its own."""

    def __init__(self, top: Session, mid: Session, aunt: Session, low: Session) -> None:
        self.top, self.mid, self.aunt, self.low = top, mid, aunt, low


@pytest.fixture
async def family(sup: Supervisor) -> Family:
    top = await sup.create("echo", name="top")
    mid = await top.spawn("echo", "mid", name="mid")
    aunt = await top.spawn("echo", "aunt", name="aunt")
    return Family(top, mid, aunt, await mid.spawn("echo", "low", name="low", role="digger"))


# tree -------------------------------------------------------------------------------------------


async def test_a_tree_has_the_caller_and_those_below(tools: SessionTools, family: Family) -> None:
    answer = await tools.call("tree", {}, CallingSession(tools, family.mid.id).caller)

    rows = answer.structured["sessions"]
    assert [(row["session"], row.get("parent"), row["level"]) for row in rows] == [
        (family.mid.id, None, 0),
        (family.low.id, family.mid.id, 1),
    ]
    assert (rows[1]["name"], rows[1]["role"], rows[1]["outcome"]) == (
        "low",
        "digger",
        "completed",
    )
    said = f"{answer.structured} {answer.text}"
    assert not [one for one in (family.top, family.aunt) if one.id in said]
    assert "aunt" not in said


async def test_a_tree_begins_where_it_is_asked_to(tools: SessionTools, family: Family) -> None:
    caller = CallingSession(tools, family.top.id)

    whole = (await caller.call("tree"))["sessions"]
    part = (await caller.call("tree", session="mid"))["sessions"]

    assert [row["name"] for row in whole] == ["top", "mid", "low", "aunt"]
    assert [(row["name"], row["level"]) for row in part] == [("mid", 0), ("low", 1)]
    assert "parent" not in part[0]


async def test_a_tree_shows_stopped_sessions_if_asked(tools: SessionTools, family: Family) -> None:
    caller = CallingSession(tools, family.top.id)
    await family.mid.stop()

    live = (await caller.call("tree"))["sessions"]
    every = (await caller.call("tree", stopped=True))["sessions"]

    assert [row["name"] for row in live] == ["top", "aunt"]
    assert [row["name"] for row in every] == ["top", "mid", "low", "aunt"]
    assert every[1]["stop_reason"] == "user_cancelled"


async def test_a_stopped_session_above_a_live_one_is_shown(
    sup: Supervisor, tools: SessionTools
) -> None:
    top = await sup.create("echo")
    mid = await top.spawn("echo", "x")
    await mid.spawn("echo", "y", lifetime="detached", name="left")
    await mid.stop()

    rows = (await CallingSession(tools, top.id).call("tree"))["sessions"]

    assert [row["level"] for row in rows] == [0, 1, 2]
    assert rows[2]["name"] == "left"


async def test_a_session_whose_parent_is_deleted_is_shown_below_the_next(
    sup: Supervisor, tools: SessionTools
) -> None:
    top = await sup.create("echo")
    mid = await top.spawn("echo", "x")
    low = await mid.spawn("echo", "y", lifetime="detached")
    await sup.delete(mid.id)

    rows = (await CallingSession(tools, top.id).call("tree"))["sessions"]

    assert [(row["session"], row["level"]) for row in rows] == [(top.id, 0), (low.id, 1)]


# why --------------------------------------------------------------------------------------------


async def test_why_says_what_a_child_waits_for(
    parent: CallingSession, child_agent: FakeAgent
) -> None:
    child = await parent.call("spawn", text="errand", agent="child-agent", name="tom")
    child_run = await child_agent.next_run()
    await child_run.open_call("bash")

    answer = await parent.call("why", session="tom")

    assert answer["waits_for"] == "tool"
    (link,) = answer["chain"]
    assert (link["session"], link["detail"]) == (child["session"], "bash")


async def test_why_of_ones_own_session_needs_no_argument(parent: CallingSession) -> None:
    answer = await parent.call("why")

    assert (answer["session"], answer["waits_for"]) == (parent.id, "model")


async def test_why_follows_a_chain_only_inside(
    sup: Supervisor,
    parent: CallingSession,
    child_agent: FakeAgent,
) -> None:
    foreign = await sup.create("child-agent")
    await foreign.send("stay")
    await child_agent.next_run()
    child = await parent.call("spawn", text="errand", agent="child-agent")
    await child_agent.next_run()

    with sup._parts.registry.awaiting(child["session"], foreign.id):
        answer = await parent.answer("why", session=child["session"])

    (link,) = answer.structured["chain"]
    assert (link["waits_for"], link["detail"]) == ("child", "another session")
    assert foreign.id not in f"{answer.structured} {answer.text}"
