"""Children: what they get, what is said of them, and what is refused before they begin."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import (
    AgentUnknown,
    ConfigError,
    InputRefused,
    InputTooLarge,
    Limits,
    Phase,
    Restart,
    Session,
    SessionKey,
    SpawnRefused,
    Supervisor,
)
from supervisor.drivers.python import AgentDied
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.session_states import SlowStartAgent, phase_of
from tests.support.tree_queries import all_infos, begin, check_tree_counts, refusal

# What a child gets --------------------------------------------------------------------------------


async def test_a_child_has_parent_root_and_depth(session: Session) -> None:
    child = await session.spawn(
        "child-agent", "errand", role="tester", name="Tom", ttl_seconds=60.0
    )
    info = await child.info()

    assert (info.kind, info.agent, info.name, info.role) == (
        "spawned",
        "child-agent",
        "Tom",
        "tester",
    )
    assert (info.parent, info.root, info.depth) == (session.id, session.id, 1)
    assert (info.lifetime, info.expires_at) == ("with_parent", info.created_at + 60.0)


async def test_a_grandchild_has_the_root_of_its_tree(child: Session, session: Session) -> None:
    info = await (await child.spawn("child-agent", "deeper")).info()

    assert (info.parent, info.root, info.depth) == (child.id, session.id, 2)


async def test_a_child_is_at_work_when_spawn_answers(child: Session, child_run: AgentRun) -> None:
    info = await child.info()

    assert (child_run.turn.text, child_run.turn.session_id) == ("errand", child.id)
    assert (info.phase, info.turn_id) == (Phase.RUNNING, child_run.turn.id)


async def test_a_child_without_options_inherits_its_parents_options(sup: Supervisor) -> None:
    limits = Limits(max_children=2, max_depth=2, tokens=500)
    parent = await sup.create("fake", workspace="/w/x", limits=limits)
    info = await (await parent.spawn("child-agent", "errand")).info()

    assert info.workspace == "/w/x"
    assert (info.limits.max_children, info.limits.max_depth) == (2, 2)
    assert info.limits.tokens is None  # that is its parent's, and shown there


async def test_a_child_takes_every_option_of_a_root(session: Session) -> None:
    child = await session.spawn(
        "child-agent", "x", title="T", tags=["a"], custom={"k": "v"}, queue_cap=1
    )
    info = await child.info()

    assert (info.title, info.tags, info.custom) == ("T", ("a",), {"k": "v"})


async def test_a_parent_lists_its_live_children(session: Session, child: Session) -> None:
    other = await session.spawn("child-agent", "other")
    assert (await session.info()).children == (child.id, other.id)

    await child.stop()
    assert (await session.info()).children == (other.id,)


async def test_children_are_found_by_parent_and_by_root(sup: Supervisor, session: Session) -> None:
    child = await session.spawn("child-agent", "x")
    below = await child.spawn("child-agent", "y")

    assert [one.id for one in (await sup.list(parent=session.id)).items] == [child.id]
    found = (await sup.list(root=session.id)).items
    assert [one.id for one in found] == [session.id, child.id, below.id]


# Records ------------------------------------------------------------------------------------------


async def test_both_sides_write_down_that_a_child_began(session: Session, child: Session) -> None:
    (started,) = await records(session, "child_started")
    (accepted,) = await records(child, "input_accepted")
    (turn,) = await records(child, "turn_started")

    assert (started.body["child"], started.body["agent"]) == (child.id, "child-agent")
    assert (started.body["role"], started.body["text"]) == ("worker", "errand")
    assert (accepted.body["text"], accepted.body["source"]) == ("errand", "parent")
    assert turn.body["source"] == "parent"


async def test_later_inputs_of_a_parent_have_source_parent(
    sup: Supervisor, run: AgentRun, child_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("child-agent", "errand"))
    (await child_agent.next_run()).finish()
    await settle()
    await run.do(child.send("more"))

    accepted = await records(sup.session(child.id), "input_accepted")
    assert [one.body["source"] for one in accepted] == ["parent", "parent"]


async def test_a_refused_spawn_is_on_record(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=0))
    await refusal(parent.spawn("child-agent", "errand"))
    await settle()

    (refused,) = await records(parent, "spawn_refused")
    body = refused.body
    assert (body["agent"], body["limit"], body["used"], body["allowed"]) == (
        "child-agent",
        "max_children",
        0,
        0,
    )


# What is checked first ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   ", None, 7])
async def test_a_spawn_needs_a_text(session: Session, text: str) -> None:
    with pytest.raises(InputRefused):
        await session.spawn("child-agent", text)


async def test_a_spawn_with_too_long_text_takes_no_slot(sup: Supervisor) -> None:
    parent = await sup.create("fake", max_text_bytes=10, limits=Limits(max_children=1))
    with pytest.raises(InputTooLarge):
        await parent.spawn("child-agent", "x" * 11)

    await parent.spawn("child-agent", "short", max_text_bytes=10)
    await check_tree_counts(sup)


async def test_a_spawn_of_an_unknown_agent_takes_no_slot(sup: Supervisor, session: Session) -> None:
    with pytest.raises(AgentUnknown):
        await session.spawn("nobody", "errand")

    assert (await session.info()).children == ()
    await check_tree_counts(sup)


@pytest.mark.parametrize(
    "options",
    [
        {"role": ""},
        {"lifetime": "forever"},
        {"on_end": "sing"},
        {"limits": 3},
        {"permissions": "all"},
        {"idempotency_key": " "},
        {"queue_cap": 0},
        {"nonsense": 1},
    ],
)
async def test_invalid_spawn_options_are_refused(
    sup: Supervisor, session: Session, options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        await session.spawn("child-agent", "errand", **options)  # type: ignore[arg-type]

    await check_tree_counts(sup)


@pytest.mark.parametrize("seconds", [0, -1, -0.5])
async def test_a_time_that_is_over_already_is_refused(session: Session, seconds: float) -> None:
    with pytest.raises(SpawnRefused) as refused:
        await session.spawn("child-agent", "errand", ttl_seconds=seconds)

    assert refused.value.limit == "expiry"


@pytest.mark.parametrize("seconds", [float("nan"), "1", True])
async def test_a_time_to_live_is_a_number(session: Session, seconds: float) -> None:
    with pytest.raises(InputRefused):
        await session.spawn("child-agent", "errand", ttl_seconds=seconds)


async def test_a_child_has_no_key(sup: Supervisor, session: Session) -> None:
    options: dict[str, Any] = {"key": SessionKey("child-agent", "channel", "peer")}
    with pytest.raises(ConfigError):
        await session.spawn("child-agent", "errand", **options)

    await check_tree_counts(sup)


async def test_a_spawn_with_a_lone_surrogate_takes_no_slot(
    sup: Supervisor, session: Session
) -> None:
    with pytest.raises(InputRefused):
        await session.spawn("child-agent", "\ud800")

    assert (await session.info()).children == ()
    await check_tree_counts(sup)


# Parents in other phases --------------------------------------------------------------------------


async def test_a_parent_may_spawn_while_its_agent_starts(
    sup: Supervisor, slow: SlowStartAgent, nursery: trio.Nursery
) -> None:
    nursery.start_soon(sup.create, "slow")
    await settle()
    (parent,) = await all_infos(sup)
    child = await sup.session(parent.id).spawn("child-agent", "errand")
    slow.report_start()
    await settle()

    assert (parent.phase, await phase_of(child)) == ("starting", "running")
    await check_tree_counts(sup)


async def test_a_parent_may_spawn_while_its_agent_restarts(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    parent = await sup.create("fake", restart=Restart(backoff_seconds=1000.0))
    (await begin(parent, fake_agent)).fail(AgentDied("on purpose"))
    await settle()
    child = await parent.spawn("child-agent", "errand")

    assert (await phase_of(parent), await phase_of(child)) == ("restarting", "running")
    await check_tree_counts(sup)
