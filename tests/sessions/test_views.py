"""All sessions at once: the tree as it stands, and sums that are the truth."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Info,
    Limits,
    Node,
    Phase,
    PythonAgent,
    Restart,
    Session,
    SessionNotFound,
    Stats,
    Supervisor,
    SupervisorError,
    Turn,
    Usage,
)
from supervisor.store import running_totals
from supervisor.store.pending import StoreState, WriteThrottle
from tests.support.fake_agents import AgentRun, FakeAgent, records

USED = ("input_tokens", "output_tokens", "cost")
Shape = tuple[str, tuple["Shape", ...]]


def shape(node: Node) -> Shape:
    return node.id, tuple(shape(child) for child in node.children)


async def shapes(sup: Supervisor, root: str | None = None) -> list[Shape]:
    return [shape(node) for node in await sup.tree(root)]


def leaf(session: Session) -> Shape:
    return session.id, ()


# The tree -----------------------------------------------------------------------------------------


async def test_the_tree_of_an_empty_store_is_empty(sup: Supervisor) -> None:
    assert await sup.tree() == ()
    await (await sup.create("fake")).stop()

    assert await sup.tree() == ()


async def test_the_tree_lists_children_in_the_order_of_creation(
    sup: Supervisor,
) -> None:
    one, two = await sup.create("fake"), await sup.create("fake")
    first = await one.spawn("fake", "x")
    other = await two.spawn("fake", "x")
    second = await one.spawn("fake", "x")
    below = await first.spawn("fake", "x")
    lowest = await below.spawn("fake", "x")

    assert await shapes(sup) == [
        (one.id, ((first.id, ((below.id, (leaf(lowest),)),)), leaf(second))),
        (two.id, (leaf(other),)),
    ]


async def test_a_node_has_all_fields_of_info(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    child = await session.spawn("fake", "x", name="Kim", role="tester")
    (top,) = await sup.tree()

    for node, handle in ((top, session), (top.children[0], child)):
        info = await handle.info()
        for name in info.__slots__ if hasattr(info, "__slots__") else vars(info):
            if name not in ("children", "__weakref__"):
                assert getattr(node, name) == getattr(info, name), name
    assert (await session.info()).children == (child.id,)


async def test_a_stopped_session_is_shown_while_a_descendant_is_live(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("fake", "x", lifetime="detached")
    grandchild = await child.spawn("fake", "x", lifetime="detached")
    over = await session.spawn("fake", "x")
    await over.stop()
    await child.stop()
    await session.stop()
    (top,) = await sup.tree()

    assert shape(top) == (session.id, ((child.id, (leaf(grandchild),)),))
    assert (top.phase, top.children[0].phase) == ("stopped", "stopped")
    await grandchild.stop()
    assert await sup.tree() == ()


async def test_suspended_sessions_stand_in_the_tree(sup: Supervisor, session: Session) -> None:
    child = await session.spawn("echo", "x", suspend_after_seconds=1.0)
    await trio.sleep(5.0)
    (top,) = await sup.tree()

    assert (top.children[0].id, top.children[0].phase) == (child.id, "suspended")


async def test_a_part_of_the_tree_is_shown_from_any_session_on(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("fake", "x")
    below = await child.spawn("fake", "x")
    await session.spawn("fake", "x")
    await sup.create("fake")

    assert await shapes(sup, child.id) == [(child.id, (leaf(below),))]
    assert await shapes(sup, below.id) == [leaf(below)]
    assert len((await sup.tree(session.id))[0].children) == 2


async def test_a_subtree_is_shown_for_a_top_in_any_phase(sup: Supervisor, session: Session) -> None:
    child = await session.spawn("fake", "x")
    await session.stop()

    assert await sup.tree() == ()
    assert await shapes(sup, child.id) == [leaf(child)]
    assert [node.id for node in await sup.tree(session.id)] == [session.id]


async def test_an_unknown_session_has_no_tree(sup: Supervisor) -> None:
    with pytest.raises(SessionNotFound) as caught:
        await sup.tree("s_nobody")

    assert caught.value.hint


async def test_children_of_a_deleted_session_are_still_shown(
    sup: Supervisor, session: Session
) -> None:
    child = await session.spawn("fake", "x", lifetime="detached")
    await sup.delete(session.id)

    assert await shapes(sup) == [leaf(child)]


async def test_a_resumed_session_keeps_its_position_in_the_tree(
    sup: Supervisor, session: Session
) -> None:
    first = await session.spawn("fake", "x")
    second = await session.spawn("fake", "x")
    await first.stop()
    assert await shapes(sup) == [(session.id, (leaf(second),))]
    await first.resume()

    assert await shapes(sup) == [(session.id, (leaf(first), leaf(second)))]


async def test_a_deep_tree_is_shown_to_its_end(sup: Supervisor) -> None:
    depth = 300
    wide = Limits(max_depth=depth, max_descendants=depth + 1, max_spawns=depth + 1)
    session = at = await sup.create("echo", limits=wide)
    for _ in range(depth):
        at = await at.spawn("echo", "x")
    (node,) = await sup.tree()
    seen = 0
    while node.children:
        (node,) = node.children
        seen += 1

    assert (seen, node.id, node.root) == (depth, at.id, session.id)


# What one says of those below ---------------------------------------------------------------------


async def test_info_children_lists_live_children(sup: Supervisor, session: Session) -> None:
    first = await session.spawn("fake", "x")
    second = await session.spawn("fake", "x")
    await first.stop()

    assert (await session.info()).children == (second.id,)
    assert (await second.info()).children == ()


async def test_usage_of_descendants_counts_for_ancestors(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "x"))
    below = await fake_agent.next_run()
    below.turn.usage(input_tokens=3, output_tokens=4, cost=0.5)
    run.turn.usage(input_tokens=10)
    await trio.sleep(8.0)
    below.finish()
    await settle()
    own, above = await sup.session(child.id).info(), await session.info()

    assert (own.spent.tokens, own.spent.cost, own.spent.turns) == (7, 0.5, 1)
    assert (above.spent.tokens, above.spent.cost, above.spent.turns) == (17, 0.5, 2)
    assert own.spent.wall_seconds == pytest.approx(8.0)
    assert above.spent.wall_seconds == pytest.approx(16.0)
    assert above.usage == Usage(10, 0, 0.0)


async def test_usage_of_a_deleted_child_stays_counted(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    child = await session.spawn("fake", "x")
    run = await fake_agent.next_run()
    run.turn.usage(input_tokens=3)
    run.finish()
    await settle()
    before = (await session.info()).spent
    await sup.delete(child.id)

    assert (await session.info()).spent == before
    assert before.tokens == 3


async def test_info_limits_are_the_effective_limits(sup: Supervisor) -> None:
    session = await sup.create("fake", limits=Limits(max_children=2, tokens=100))
    child = await session.spawn("fake", "x", limits=Limits(max_children=1, tokens=50))
    heir = await session.spawn("fake", "x")

    assert (await session.info()).limits.max_children == 2
    assert (await child.info()).limits.max_children == 1
    assert (await child.info()).limits.tokens == 50
    assert (await heir.info()).limits.max_children == 2
    await session.set(limits=Limits(max_children=3, tokens=200))
    assert (await session.info()).limits.tokens == 200


# Sums ---------------------------------------------------------------------------------------------


async def test_stats_of_an_empty_store_are_zero(sup: Supervisor) -> None:
    stats = await sup.stats()

    assert (stats.sessions, stats.live, stats.usage) == (0, 0, Usage())
    assert stats.phases == dict.fromkeys(map(str, Phase), 0)
    assert stats.badges == {}


async def test_stats_sum_sessions_turns_and_usage(
    sup: Supervisor,
    session: Session,
    run: AgentRun,
    shielded_session: Session,
    shielded_run: AgentRun,
) -> None:
    await session.send("more")
    await run.open_call("bash")
    run.begin(run.turn.ask("may I?", tool="bash"))
    await shielded_session.interrupt()
    await (await sup.create("echo")).stop()
    stats = await sup.stats()

    assert (stats.sessions, stats.live, stats.running_turns, stats.queued) == (3, 2, 1, 1)
    assert (stats.permissions, stats.tool_calls, stats.zombies) == (1, 1, 1)
    assert stats.badges == {"waiting-for-you": 1, "unhealthy": 1, "stopped": 1}


async def _live(turn: Turn) -> str:
    """Say, use, spend, spawn and fail, as the text has it."""
    rng = random.Random(turn.text)
    for _ in range(rng.randrange(5)):
        match rng.choice(["say", "tool", "usage", "spawn", "fail", "sleep", "ask"]):
            case "say":
                await turn.say("hello")
            case "tool":
                async with turn.tool("bash"):
                    await trio.sleep(rng.random())
            case "usage":
                turn.usage(input_tokens=rng.randrange(100), cost=0.25)
            case "spawn":
                await turn.spawn("lively", f"{turn.text}.")
            case "fail":
                raise ValueError(turn.text)
            case "ask":
                await turn.ask("may I?", tool="bash")
            case _:
                await trio.sleep(rng.random() * 100.0)
    return "done"


def counted(stats: Stats) -> dict[str, object]:
    return {
        "turns": stats.turns,
        "messages": stats.messages,
        "tool_calls": stats.tool_calls,
        "restarts": stats.restarts,
        "usage": stats.usage,
        "running": stats.running_turns,
        "queued": stats.queued,
    }


async def recounted(sup: Supervisor, infos: list[Info]) -> dict[str, object]:
    """The same sums from nothing but records."""
    kinds: Counter[str] = Counter()
    usage, messages = Usage(), 0
    for info in infos:
        found = await records(sup.session(info.id))
        kinds.update(record.kind for record in found)
        # What an agent says is counted when its turn is over.
        over = {record.turn_id for record in found if record.kind == "turn_ended"}
        messages += sum(one.kind == "agent_text" and one.turn_id in over for one in found)
        for record in found:
            if record.kind == "usage":
                usage += Usage(*(record.body[name] for name in USED))
    return {
        "turns": kinds["turn_started"],
        "messages": kinds["user_text"] + messages,
        "tool_calls": kinds["tool_call"],
        "restarts": kinds["agent_restarting"],
        "usage": usage,
        "running": kinds["turn_started"] - kinds["turn_ended"],
        "queued": kinds["input_accepted"] - kinds["input_settled"],
    }


ACTIONS = (
    *("create", "send", "send", "stop", "interrupt", "sleep", "crash"),
    *("delete", "archive", "import"),
)


async def _act(sup: Supervisor, sessions: list[Session], rng: random.Random, file: Path) -> None:
    match rng.choice(ACTIONS):
        case "create":
            sessions.append(await sup.create("lively"))
        case "crash":
            sessions.append(await sup.create("scripted", restart=Restart(max_restarts=1)))
            await sessions[-1].send("say oh\ncrash")
        case "sleep":
            await trio.sleep(rng.random() * 50.0)
        case "send" if sessions:
            await rng.choice(sessions).send(f"say {rng.random()}")
        case "import" if sessions:
            await trio.Path(file).write_text(await rng.choice(sessions).export("jsonl"))
            sessions.append(await sup.import_(file))
        case "delete" if sessions:
            await sup.delete(rng.choice(sessions).id)
        case word if sessions:
            await getattr(rng.choice(sessions), word)()


@pytest.mark.parametrize("seed", range(12))
async def test_usage_sums_equal_the_records_after_many_turns(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the check of other rows, which would correct totals that miss a change.
    monkeypatch.setattr(running_totals, "CHECKED_ROWS", 0)
    rng, agents = random.Random(seed), [PythonAgent("lively", _live)]
    for _ in ("first", "after a restart"):
        async with supervisor.open(tmp_path / "state.db", agents=agents) as sup:
            sessions = [sup.session(one.id) for one in (await sup.list()).items]
            for step in range(30):
                with contextlib.suppress(SupervisorError):
                    await _act(sup, sessions, rng, tmp_path / "session.jsonl")
                if step % 10 == 0:
                    await settle()
                    await refuse_false_sums(sup)
            await trio.sleep(1000.0)
            await refuse_false_sums(sup)


async def refuse_false_sums(sup: Supervisor) -> None:
    await trio.sleep(0.3)  # text that was put out is a record by then
    stats, infos = await sup.stats(), list((await sup.list(limit=10_000)).items)

    assert counted(stats) == await recounted(sup, infos)
    assert stats.sessions == len(infos)
    assert stats.phases == {str(one): sum(i.phase is one for i in infos) for one in Phase}
    assert stats.badges == Counter(info.badge for info in infos)
    assert stats.live == sum(info.phase is not Phase.STOPPED for info in infos)
    assert stats.permissions == len(await sup.permissions())
    assert sum(_size(node) for node in await sup.tree()) >= stats.live


def _size(node: Node) -> int:
    return 1 + sum(_size(child) for child in node.children)


async def test_stats_after_leaving_raises() -> None:
    async with supervisor.open() as sup:
        pass
    with pytest.raises(SupervisorError):
        await sup.tree()
    with pytest.raises(SupervisorError):
        await sup.stats()


async def test_pending_writes_are_visible_and_bounded(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await sup.create("echo")
    health = sup._services.health
    monkeypatch.setattr(health, "throttle", WriteThrottle(max_writes=1))
    carried = await health.throttle.acquire(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.send, "hello")
        await trio.sleep(3.0)

        store = (await sup.stats()).store
        assert (store.waiting, store.waiting_bytes, store.throttled) == (1, 10, 1)
        assert store.wait_seconds == pytest.approx(3.0)
        await session.stop()  # brakes do not wait at the door
        health.throttle.release(carried)

    assert (await sup.stats()).store == StoreState()
