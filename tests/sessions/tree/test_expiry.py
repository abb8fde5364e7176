"""Children that live apart: detached from their parents, or for a time only."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Limits,
    Session,
    SessionNotActive,
    Supervisor,
)
from tests.support.fake_agents import FakeAgent, records
from tests.support.session_states import SlowStartAgent, phase_of
from tests.support.tree_queries import all_at_once, check_tree_counts, ends, reason_of, refusal

# Detached -----------------------------------------------------------------------------------------


async def test_a_detached_child_outlives_its_parent_and_is_still_counted(
    sup: Supervisor, child_agent: FakeAgent
) -> None:
    root = await sup.create("fake", limits=Limits(max_descendants=2))
    child = await root.spawn("child-agent", "x", lifetime="detached")
    below = await child.spawn("child-agent", "y")
    await root.stop()

    assert await phase_of(child) == "running"
    assert (await child.info()).root == root.id
    assert (await refusal(below.spawn("child-agent", "z"))).limit == "max_descendants"
    await check_tree_counts(sup)


async def test_children_of_an_expired_detached_child_stop_with_it(session: Session) -> None:
    child = await session.spawn("child-agent", "x", lifetime="detached")
    below = await child.spawn("child-agent", "y")
    await session.stop()
    between = await phase_of(below)
    await child.stop()

    assert between == "running"
    assert await reason_of(below) == "parent_stopped"


async def test_a_detached_child_resumes_without_its_parent(session: Session) -> None:
    child = await session.spawn("child-agent", "x", lifetime="detached")
    await session.stop()
    await child.stop()
    await child.resume()

    assert await phase_of(child) == "idle"


# Time to live -------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["running", "idle", "suspended"])
async def test_a_child_expires_in_every_phase(
    sup: Supervisor, session: Session, child_agent: FakeAgent, state: str
) -> None:
    child = await session.spawn("child-agent", "x", ttl_seconds=50.0, suspend_after_seconds=20.0)
    at_work = await child_agent.next_run()
    if state != "running":
        at_work.finish()
    await trio.sleep(30.0 if state == "suspended" else 1.0)
    before = await phase_of(child)
    info = await child.wait_stopped()

    assert before == state
    assert trio.current_time() == pytest.approx(50.0)
    assert (info.stop_reason, info.badge) == ("ttl_expired", "stopped")
    await settle()
    assert [one.body["reason"] for one in await ends(session)] == ["ttl_expired"]
    await check_tree_counts(sup)


async def test_the_ttl_of_a_child_starts_at_admission(
    session: Session, slow: SlowStartAgent
) -> None:
    outcome = await all_at_once(partial(session.spawn, "slow", "x", ttl_seconds=5.0))

    assert trio.current_time() == pytest.approx(5.0)
    (child,) = outcome
    if isinstance(child, Session):
        assert await reason_of(child) == "ttl_expired"


async def test_an_expired_child_stops_with_its_descendants(session: Session) -> None:
    child = await session.spawn("child-agent", "x", ttl_seconds=5.0)
    below = await child.spawn("child-agent", "y")
    await child.wait_stopped()

    assert await reason_of(below) == "parent_stopped"


async def test_after_its_time_nothing_brings_a_child_back(session: Session) -> None:
    child = await session.spawn("child-agent", "x", ttl_seconds=5.0)
    await child.wait_stopped()

    assert (await refusal(child.resume())).limit == "expiry"
    with pytest.raises(SessionNotActive):
        await child.send("come back")


async def test_a_child_that_is_stopped_and_back_still_has_its_time(session: Session) -> None:
    child = await session.spawn("child-agent", "x", ttl_seconds=50.0)
    await child.stop()
    await trio.sleep(10.0)
    await child.resume()
    await trio.sleep(39.0)
    before = await phase_of(child)
    await trio.sleep(2.0)

    assert (before, await reason_of(child)) == ("idle", "ttl_expired")


async def test_a_child_that_was_stopped_is_not_stopped_again_by_its_time(
    session: Session,
) -> None:
    child = await session.spawn("child-agent", "x", ttl_seconds=50.0)
    await child.stop()
    await trio.sleep(100.0)

    assert await reason_of(child) == "user_cancelled"
    assert len(await records(child, "session_stopped")) == 1
