"""Spawns that are repeated, given up half way, or come to nothing: a child is whole, or is not."""

from __future__ import annotations

import hashlib
from functools import partial

import attrs
import pytest
import trio

from actors.testing import settle
from supervisor import (
    AgentStartFailed,
    IdempotencyConflict,
    Limits,
    Phase,
    Session,
    Supervisor,
)
from supervisor.core.creation import SpawnRequest
from supervisor.core.ids import SessionId
from supervisor.core.state import Failure
from supervisor.handles import submission
from supervisor.store.codec import decode_plain, encode, encode_plain
from tests.support.fake_agents import AgentRun, FakeAgent, Interrupted, records
from tests.support.session_states import SlowStartAgent, phase_of
from tests.support.tree_queries import all_at_once, all_infos, check_tree_counts, ends, refusal

# The same spawn again -----------------------------------------------------------------------------


async def test_a_repeated_spawn_returns_the_same_child(
    session: Session, child_agent: FakeAgent
) -> None:
    one = await session.spawn("child-agent", "errand", idempotency_key="k")
    again = await session.spawn("child-agent", "errand", idempotency_key="k")
    await settle()

    assert again == one
    assert len(child_agent.runs) == 1
    assert len(await records(session, "child_started")) == 1


async def test_a_spawn_repeated_from_a_later_turn_or_by_the_user_returns_the_same_child(
    session: Session, fake_agent: FakeAgent
) -> None:
    one = await spawn_in_a_turn(session, fake_agent)
    again = await spawn_in_a_turn(session, fake_agent)
    by_user = await session.spawn("child-agent", "errand", idempotency_key="k")

    assert one == again == by_user.id
    assert (await session.info()).children == (one,)


async def test_a_childs_fingerprint_of_release_0_1_0_with_its_turn_still_matches(
    session: Session, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(submission, "fingerprint", fingerprint_0_1_0)
        one = await spawn_in_a_turn(session, fake_agent)

    assert await spawn_in_a_turn(session, fake_agent) == one
    with pytest.raises(IdempotencyConflict):
        await session.spawn("child-agent", "another", idempotency_key="k")


async def spawn_in_a_turn(session: Session, agent: FakeAgent) -> SessionId:
    """Spawn with the key "k" from a new turn of the session; return the child's id."""
    await session.send("go")
    run = await agent.next_run()
    child = await run.do(run.turn.spawn("child-agent", "errand", idempotency_key="k"))
    run.finish()
    await settle()
    return child.id


def fingerprint_0_1_0(request: SpawnRequest) -> str:
    """Return the fingerprint that release 0.1.0 stored, which includes the turn."""
    names = {"spec": "plan", "explicit_terms": "chosen"}
    # Its default, which is None now.
    terms = attrs.evolve(request.spec.terms, permission_timeout_seconds=300.0)
    request = attrs.evolve(request, spec=attrs.evolve(request.spec, terms=terms))
    fields = {names.get(name, name): value for name, value in decode_plain(encode(request)).items()}
    assert fields["turn"] is not None
    return hashlib.sha256(encode_plain(fields).encode()).hexdigest()


async def test_concurrent_spawns_with_one_key_make_one_child(session: Session) -> None:
    spawn = partial(session.spawn, "child-agent", "errand", idempotency_key="k")

    children = await all_at_once(*[spawn] * 50)

    assert len(set(children)) == 1
    assert (await session.info()).children == (children[0].id,)  # type: ignore[attr-defined]


async def test_a_key_used_for_another_child_is_a_conflict(session: Session) -> None:
    await session.spawn("child-agent", "errand", idempotency_key="k")

    with pytest.raises(IdempotencyConflict):
        await session.spawn("child-agent", "another", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await session.spawn("child-agent", "errand", ttl_seconds=5.0, idempotency_key="k")


async def test_concurrent_different_spawns_with_one_key_are_a_conflict(
    session: Session,
) -> None:
    results = await all_at_once(
        *(partial(session.spawn, "child-agent", text, idempotency_key="k") for text in "ab")
    )

    assert {type(result) for result in results} == {Session, IdempotencyConflict}


async def test_keys_are_the_parents_own(sup: Supervisor, session: Session) -> None:
    other = await sup.create("fake")
    one = await session.spawn("child-agent", "errand", idempotency_key="k")

    assert await other.spawn("child-agent", "errand", idempotency_key="k") != one


async def test_a_repeated_spawn_needs_no_room(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    one = await parent.spawn("child-agent", "errand", idempotency_key="k")

    assert await parent.spawn("child-agent", "errand", idempotency_key="k") == one
    assert await records(parent, "spawn_refused") == []


async def test_a_refused_spawn_may_be_tried_again_under_its_key(sup: Supervisor) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    first = await parent.spawn("child-agent", "first")
    await refusal(parent.spawn("child-agent", "errand", idempotency_key="k"))
    await first.stop()

    assert (
        await phase_of(await parent.spawn("child-agent", "errand", idempotency_key="k"))
        == "running"
    )


# Giving up ----------------------------------------------------------------------------------------


async def test_a_cancelled_spawn_leaves_a_complete_child(
    sup: Supervisor, session: Session, slow: SlowStartAgent
) -> None:
    with trio.move_on_after(1.0) as patience:
        await session.spawn("slow", "errand")
    (child,) = (await session.info()).children
    slow.report_start()
    await settle()

    assert patience.cancelled_caught
    assert await phase_of(sup.session(child)) == "running"
    await check_tree_counts(sup)


async def test_a_cancelled_spawn_is_found_by_its_key(
    session: Session, slow: SlowStartAgent
) -> None:
    with trio.move_on_after(1.0):
        await session.spawn("slow", "errand", idempotency_key="k")
    slow.report_start()

    child = await session.spawn("slow", "errand", idempotency_key="k")

    assert (await session.info()).children == (child.id,)


async def test_a_turn_interrupted_during_a_spawn_leaves_a_complete_child(
    sup: Supervisor, session: Session, run: AgentRun, slow: SlowStartAgent
) -> None:
    action = run.begin(run.turn.spawn("slow", "errand"))
    await settle()
    await session.interrupt("turn")
    slow.report_start()
    await settle()

    with pytest.raises(Interrupted):
        await action.wait()
    (child,) = (await session.info()).children
    assert await phase_of(sup.session(child)) == "running"
    assert len(await records(session, "child_started")) == 1


@pytest.mark.parametrize("pauses", range(12))
async def test_a_spawn_cancelled_at_any_moment_leaves_all_or_nothing(
    sup: Supervisor, session: Session, pauses: int
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.spawn, "child-agent", "errand")
        for _ in range(pauses):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    await settle()

    children = (await session.info()).children
    assert len(children) == len(await records(session, "child_started")) <= 1
    await check_tree_counts(sup)


@pytest.mark.parametrize("pauses", range(16))
async def test_a_parent_stopped_during_a_spawn_leaves_no_child(
    sup: Supervisor, session: Session, pauses: int
) -> None:
    elder = await session.spawn("child-agent", "elder")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(all_at_once, partial(session.spawn, "child-agent", "errand"))
        for _ in range(pauses):
            await trio.lowlevel.checkpoint()
        await session.stop()

    assert await phase_of(elder) == "stopped"
    assert {one.phase for one in await all_infos(sup)} == {Phase.STOPPED}
    assert len(await ends(session)) == len(await records(session, "child_started"))
    await check_tree_counts(sup)


async def test_a_parent_stopped_while_a_child_starts_stops_the_child(
    sup: Supervisor, session: Session, slow: SlowStartAgent, nursery: trio.Nursery
) -> None:
    nursery.start_soon(all_at_once, partial(session.spawn, "slow", "errand"))
    await settle()
    (child,) = (await session.info()).children
    await session.stop()

    assert (await sup.session(child).info()).stop_reason == "parent_stopped"
    await check_tree_counts(sup)


# Agents that do not start -------------------------------------------------------------------------


@pytest.fixture
def broken(slow: SlowStartAgent) -> SlowStartAgent:
    slow.waits, slow.failure = False, Failure("startup", "no such program")
    return slow


async def test_a_child_with_a_failed_start_releases_its_slot(
    sup: Supervisor, broken: SlowStartAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_children=1))
    with pytest.raises(AgentStartFailed):
        await parent.spawn("slow", "errand")

    assert await phase_of(await parent.spawn("child-agent", "errand")) == "running"
    assert [one.body["reason"] for one in await ends(parent)] == ["start_failed"]
    await check_tree_counts(sup)


async def test_a_child_with_a_failed_start_counts_as_a_spawn(
    sup: Supervisor, broken: SlowStartAgent
) -> None:
    parent = await sup.create("fake", limits=Limits(max_spawns=1))
    with pytest.raises(AgentStartFailed):
        await parent.spawn("slow", "errand")

    assert (await refusal(parent.spawn("child-agent", "errand"))).limit == "max_spawns"


async def test_a_child_with_a_failed_start_keeps_its_first_input(
    sup: Supervisor, session: Session, broken: SlowStartAgent
) -> None:
    with pytest.raises(AgentStartFailed):
        await session.spawn("slow", "errand")
    (child,) = [one for one in await all_infos(sup) if one.parent]
    broken.failure = None
    await sup.session(child.id).resume()
    await settle()

    assert (child.stop_reason, child.queued) == ("start_failed", 1)
    assert await phase_of(sup.session(child.id)) == "running"


async def test_a_repeated_spawn_fails_as_the_first_did(
    session: Session, broken: SlowStartAgent
) -> None:
    for _ in range(2):
        with pytest.raises(AgentStartFailed):
            await session.spawn("slow", "errand", idempotency_key="k")
