"""Hooks in front of children, hooks that use the supervisor, and hooks when it leaves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Change,
    Deny,
    HookEvent,
    InputRefused,
    Permissions,
    Session,
    Settings,
    SpawnRefused,
    Stop,
    Supervisor,
)
from supervisor.sessions.hooks import BlockingPoint
from tests.support.fake_agents import (
    AgentAction,
    AgentRun,
    FakeAgent,
    Interrupted,
    records,
    waiting_texts,
)
from tests.support.fake_hooks import (
    DEADLINE,
    RecordingHook,
    check_stopped_by_hook,
    refused,
    slow_hook,
)

# Children -----------------------------------------------------------------------------------------


async def test_spawning_a_child_needs_the_consent_of_hooks(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("spawn_before", ask)
    await run.do(
        run.turn.spawn("echo", "errand", name="Kim", role="tester", on_end="wake", ttl_seconds=9)
    )

    assert (ask.only.session_id, ask.only.turn_id) == (session.id, run.turn.id)
    data = dict(ask.only.data)
    assert data.pop("permissions") == (await session.info()).permissions
    assert data == {
        "agent": "echo",
        "text": "errand",
        "name": "Kim",
        "role": "tester",
        "lifetime": "with_parent",
        "on_end": "wake",
        "ttl_seconds": 9,
    }


async def test_the_spawn_hook_of_a_users_spawn_has_no_turn(
    sup: Supervisor, session: Session
) -> None:
    ask = RecordingHook()
    sup.hooks.add("spawn_before", ask)
    await session.spawn("echo", "errand")

    assert (ask.only.session_id, ask.only.turn_id) == (session.id, None)


async def test_a_hook_may_narrow_the_options_of_a_child(sup: Supervisor, session: Session) -> None:
    narrow = Permissions(tools=["read"], mode="deny_all")
    sup.hooks.add("spawn_before", RecordingHook(Change(permissions=narrow, ttl_seconds=10.0)))
    child = await session.spawn("fake", "errand")
    info = await child.info()

    assert info.permissions == narrow
    assert info.expires_at == pytest.approx(info.created_at + 10.0)
    await trio.sleep(11.0)
    assert (await child.info()).stop_reason == "ttl_expired"


@pytest.mark.parametrize(
    "more",
    [
        Change(permissions=Permissions(tools=["bash", "rm"], mode="deny_all")),
        Change(permissions=Permissions(tools=["bash"], mode="approve_all")),
        Change(ttl_seconds=61.0),
        Change(ttl_seconds=None),
        Change(text="something else"),
        Change(lifetime="detached"),
    ],
    ids=str,
)
@pytest.mark.parametrize("required", [False, True])
async def test_a_hook_never_widens_a_child(
    sup: Supervisor, session: Session, more: Change, *, required: bool
) -> None:
    sup.hooks.add("spawn_before", RecordingHook(more), required=required)
    rights = Permissions(tools=["bash"], mode="approve_reads")
    spawn = session.spawn("fake", "errand", permissions=rights, ttl_seconds=60.0)
    if required:
        await refused(spawn, SpawnRefused, "required")
        return
    info = await (await spawn).info()

    assert (info.permissions, info.lifetime) == (rights, "with_parent")
    assert info.expires_at == pytest.approx(info.created_at + 60.0)


async def test_narrowing_by_a_hook_binds_the_descendants(sup: Supervisor, session: Session) -> None:
    narrow = Permissions(tools=["read"])
    sup.hooks.add("spawn_before", RecordingHook(Change(permissions=narrow)), once=True)
    child = await session.spawn("fake", "errand")
    with pytest.raises(SpawnRefused):
        await child.spawn("fake", "errand", permissions=Permissions(tools=["bash"]))


async def test_a_denied_child_is_never_created(sup: Supervisor, session: Session) -> None:
    sup.hooks.add("spawn_before", RecordingHook(Deny("too many")))
    with pytest.raises(SpawnRefused) as caught:
        await session.spawn("echo", "errand")
    await settle()

    assert (caught.value.limit, bool(caught.value.hint)) == ("hook", True)
    assert [info.id for info in (await sup.list()).items] == [session.id]
    assert (await session.info()).children == ()
    (noted,) = await records(session, "spawn_refused")
    assert noted.body["limit"] == "hook"


async def test_a_hook_that_stops_at_a_child_ends_the_parent(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("spawn_before", RecordingHook(Stop("enough")))

    # The agent hears of it, unless its turn is over before that.
    with pytest.raises((SpawnRefused, Interrupted)):
        await run.do(run.turn.spawn("echo", "errand"))

    await check_stopped_by_hook(session, "enough")


async def test_a_repeated_spawn_asks_once(sup: Supervisor, session: Session) -> None:
    ask = RecordingHook()
    sup.hooks.add("spawn_before", ask)
    sup.hooks.add("spawn_before", slow_hook(1.0))
    made: list[str] = []

    async def spawn() -> None:
        made.append((await session.spawn("echo", "errand", idempotency_key="k")).id)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(spawn)

    assert (len(ask.events), len(set(made))) == (1, 1)


async def test_a_parent_that_stops_while_hooks_are_asked_has_no_child(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    sup.hooks.add("spawn_before", slow_hook(2.0))
    action = AgentAction(session.spawn("fake", "errand"))
    nursery.start_soon(action.run)
    await trio.sleep(1.0)
    await session.stop()
    await refused(action.wait(), SpawnRefused)

    assert sup._parts.admission.tree.live == set()


async def test_caps_hold_for_concurrent_spawns_in_hooks(sup: Supervisor, session: Session) -> None:
    sup.hooks.add("spawn_before", slow_hook(1.0))
    results: list[str] = []

    async def spawn() -> None:
        try:
            await session.spawn("fake", "errand")
            results.append("made")
        except SpawnRefused as refusal:
            results.append(refusal.limit)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(spawn)

    assert sorted(results) == ["made"] * 5 + ["max_children"] * 15


async def test_no_hook_admits_a_child_while_the_tree_is_interrupted(
    sup: Supervisor, session: Session, shielded_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    child = await session.spawn("shielded", "errand")
    await shielded_agent.next_run()
    sup.hooks.add("spawn_before", slow_hook(2.0))
    action = AgentAction(session.spawn("echo", "x"))
    nursery.start_soon(action.run)
    await trio.sleep(1.0)
    nursery.start_soon(session.interrupt, "tree")
    await refused(action.wait(), SpawnRefused)

    assert (await session.info()).children == (child.id,)


async def test_a_stop_of_a_child_by_a_hook_notifies_its_parent(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("fake", "errand")
    sup.hooks.add("input_submitted", RecordingHook(Stop("enough")))
    await refused(child.send("more"), InputRefused)
    await check_stopped_by_hook(child, "enough")
    await settle()

    reasons = [one.body["reason"] for one in await records(session, "child_ended")]
    assert reasons[-1] == "hook_stopped"


async def test_the_first_turn_of_a_child_is_its_parents(sup: Supervisor, session: Session) -> None:
    ask = RecordingHook()
    sup.hooks.add("turn_start", ask)
    child = await session.spawn("echo", "errand")
    await child.wait()

    assert (ask.only.session_id, ask.only.data["source"]) == (child.id, "parent")
    assert ask.texts == ["errand"]


# Hooks that use the supervisor --------------------------------------------------------------------


async def test_a_hook_may_use_the_supervisor(sup: Supervisor, session: Session) -> None:
    async def translate(event: HookEvent) -> Change:
        helper = await sup.create("echo")
        result = await helper.prompt(event.data["text"].upper())
        await helper.stop()
        return Change(text=result.text)

    hook = sup.hooks.add("prompt_assembled", translate)
    sup.hooks.add("turn_start", lambda e: hook.remove() if e.session_id != session.id else None)
    echo = await sup.create("echo")
    session = echo
    result = await echo.prompt("hello")

    assert "HELLO" in result.text


async def test_hooks_that_lead_to_themselves_end(sup: Supervisor) -> None:
    depth = 0

    async def again(_: HookEvent) -> None:
        nonlocal depth
        depth += 1
        await sup.create("echo")

    sup.hooks.add("session_create", again)
    await sup.create("echo")

    assert depth <= 8
    assert trio.current_time() <= DEADLINE


async def test_a_hook_that_prompts_its_own_session_ends_at_its_deadline(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    async def circular(_: HookEvent) -> None:
        await session.prompt("and this first")

    sup.hooks.add("turn_start", circular, once=True)
    await session.send("hello")
    run = await fake_agent.next_run()

    assert trio.current_time() == DEADLINE
    assert run.turn.text == "hello"
    assert await waiting_texts(session) == ["and this first"]


async def test_a_hook_that_calls_stop_on_its_session_does_not_hang(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    async def by_hand(_: HookEvent) -> None:
        await session.stop()

    sup.hooks.add("turn_start", by_hand)
    await session.send("hello")
    with trio.fail_after(1.0):
        info = await session.wait_stopped()

    assert info.stop_reason == "user_cancelled"
    assert fake_agent.runs == []


# Once, and leaving --------------------------------------------------------------------------------


async def test_a_once_hook_runs_once_for_all_sessions(sup: Supervisor) -> None:
    ask = RecordingHook(Deny("no"))
    sessions = [await sup.create("echo") for _ in range(5)]
    sup.hooks.add("turn_start", ask, once=True)
    outcomes: list[str] = []

    async def prompt(session: Session) -> None:
        outcomes.append((await session.prompt("hello")).outcome)

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(prompt, session)

    assert len(ask.events) == 1
    assert sorted(outcomes) == ["completed"] * 4 + ["failed"]


@pytest.mark.parametrize(
    "point", ["session_create", "input_submitted", "turn_start", "spawn_before"]
)
@pytest.mark.parametrize("seconds", [1.0, 1000.0])
async def test_leaving_is_not_held_up_by_hooks(point: BlockingPoint, seconds: float) -> None:
    settings = Settings(exit_seconds=2.0)
    async with trio.open_nursery() as nursery:
        async with supervisor.open(settings=settings) as sup:
            session = await sup.create("echo")
            sup.hooks.add(point, slow_hook(seconds), deadline_seconds=seconds * 2)
            doing: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "session_create": lambda: sup.create("echo"),
                "input_submitted": lambda: session.send("hello"),
                "turn_start": lambda: session.send("hello"),
                "spawn_before": lambda: session.spawn("echo", "x"),
            }
            nursery.start_soon(AgentAction(doing[point]()).run)
            await trio.sleep(0.5)
            began = trio.current_time()
        assert trio.current_time() - began <= 2.0 + 11.0 + 5.0 + 2.0


async def test_a_stuck_hook_is_named_when_it_delays_the_exit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stubborn(_: HookEvent) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(1000.0)

    async with supervisor.open(settings=Settings(exit_seconds=2.0)) as sup:
        session = await sup.create("echo")
        sup.hooks.add("turn_start", stubborn, deadline_seconds=1.0)
        await session.prompt("hello")

    assert trio.current_time() == 1000.0
    assert "stubborn" in caplog.text


async def test_hooks_that_create_sessions_recursively_are_bounded(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    made: list[str] = []

    async def consult(_: HookEvent) -> None:
        helper = await sup.create("echo")
        made.append(helper.id)
        if len(made) < 100:  # or a failure would take all of our memory
            await helper.prompt("what do you think?")

    sup.hooks.add("turn_start", consult)
    await session.send("hello")
    await fake_agent.next_run()

    assert len(made) <= 10


async def test_observers_that_create_sessions_recursively_are_bounded(sup: Supervisor) -> None:
    made: list[str] = []

    async def again(_: HookEvent) -> None:
        if len(made) < 100:
            made.append((await sup.create("echo")).id)

    sup.hooks.add("session_start", again)
    await sup.create("echo")
    await settle()

    assert len(made) <= 10
