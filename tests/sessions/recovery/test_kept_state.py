"""What is remembered over a kill: keys, answers, rules, chapters, and who is gone."""

import random
from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import IdempotencyConflict, KeyTaken, Limits, SessionNotActive, SupervisorError
from tests.support.fake_agents import FakeAgent, records
from tests.support.killed_program import Program
from tests.support.session_states import phase_of, texts_of

KEY = "fake:house:ann"


# Keys and answers ---------------------------------------------------------------------------


async def test_a_key_keeps_its_holder_over_a_restart(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", key=KEY)
        await session.stop()

    async with program.running() as sup:
        assert await sup.get_or_create(KEY) == sup.session(session.id)
        with pytest.raises(KeyTaken):
            await sup.create("fake", key=KEY)


async def test_the_key_of_an_archived_session_is_free(program: Program) -> None:
    async with program.running() as sup:
        old = await sup.create("fake", key=KEY)
        new = await sup.new(KEY)

    async with program.running() as sup:
        assert (await sup.get_or_create(KEY)).id == new.id
        assert (await sup.session(old.id).info()).archived
        with pytest.raises(KeyTaken):
            await sup.session(old.id).unarchive()


async def test_an_archived_session_stays_archived(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.stop()
        await session.archive()

    async with program.running() as sup:
        info = await sup.session(session.id).info()
        assert (info.archived, info.phase) == (True, "stopped")
        with pytest.raises(SupervisorError):
            await sup.session(session.id).send("hello")


async def test_the_same_send_has_the_same_receipt(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        receipt = await session.send("first", idempotency_key="k")
        await fake_agent.next_run()

    async with program.running() as sup:
        again = sup.session(session.id)
        assert await again.send("first", idempotency_key="k") == receipt
        with pytest.raises(IdempotencyConflict):
            await again.send("other", idempotency_key="k")
        assert len(await records(again, "input_accepted")) == 1


async def test_a_repeated_create_after_a_restart_returns_the_same_session(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", name="one", idempotency_key="k")

    async with program.running() as sup:
        assert (await sup.create("fake", name="one", idempotency_key="k")).id == session.id
        with pytest.raises(IdempotencyConflict):
            await sup.create("fake", name="two", idempotency_key="k")


async def test_a_repeated_spawn_after_a_restart_returns_the_same_child(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", idempotency_key="k")

    async with program.running() as sup:
        again = await sup.session(parent.id).spawn("child-agent", "errand", idempotency_key="k")
        assert again.id == child.id
        assert (await sup.stats()).sessions == 2


def test_ids_differ_between_runs_that_seed_random_alike(
    tmp_path: Path,
) -> None:
    """In real time: where time is virtual, names are meant to be the same again."""

    async def live() -> tuple[str, str]:
        random.seed(42)
        async with supervisor.open(tmp_path / "state.db") as sup:
            session = await sup.create("echo")
            return session.id, (await session.send("hello")).input_id

    first, second = trio.run(live), trio.run(live)

    assert not set(first) & set(second)


# Rules, chapters, forks -----------------------------------------------------------------------


async def test_rules_of_permissions_survive(program: Program, fake_agent: FakeAgent) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        asked = run.begin(run.turn.ask("may I?", tool="bash"))
        await settle()
        [request] = await sup.permissions()
        await sup.answer(request.id, "allow_always")
        assert await asked.wait()
        rules = await session.rules()

    async with program.running() as sup:
        await settle()
        again = sup.session(session.id)
        assert await again.rules() == rules
        await again.send("second")
        run = await fake_agent.next_run()
        assert await run.do(run.turn.ask("may I again?", tool="bash"))


async def test_a_cleared_session_has_its_new_chapter_only(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.append("user", "old")
        await session.clear()
        await session.append("user", "new")

    async with program.running() as sup:
        assert await texts_of(sup.session(session.id)) == ["new"]
        await sup.session(session.id).send("go")
        run = await fake_agent.next_run()
        assert "old" not in [message.text for message in run.turn.history]


async def test_a_fork_survives_a_restart_with_its_history(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.append("user", "shared")
        fork = await session.fork()
        await session.append("user", "mine")

    async with program.running() as sup:
        assert await texts_of(sup.session(fork.id)) == ["shared"]
        assert await phase_of(sup.session(fork.id)) == "suspended"


async def test_details_set_by_users_survive_a_restart(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", name="n", workspace="/w")
        await session.set(title="t", tags=["a"], custom={"k": "v"}, limits=Limits(turns=3))
        before = await session.info()

    async with program.running() as sup:
        after = await sup.session(session.id).info()
        for field in ("name", "title", "tags", "custom", "workspace", "limits", "permissions"):
            assert getattr(after, field) == getattr(before, field), field


# Deleting and leaving -------------------------------------------------------------------------


async def test_a_deleted_session_does_not_exist_after_a_restart(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", key=KEY, idempotency_key="k")
        await sup.delete(session.id)

    async with program.running() as sup:
        assert not await sup.exists(session.id)
        assert (await sup.create("fake", key=KEY, idempotency_key="k")).id != session.id


async def test_an_aborted_delete_stops_the_session_and_can_be_repeated(
    program: Program, shielded_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("shielded")
        await session.send("first")
        await shielded_agent.next_run()
        program.begin(sup.delete, session.id)
        await settle()

    async with program.running() as sup:
        assert await phase_of(sup.session(session.id)) == "stopped"
        await sup.delete(session.id)
        assert not await sup.exists(session.id)


async def test_a_killed_new_leaves_the_holder_of_the_key(program: Program) -> None:
    async with program.running() as sup:
        old = await sup.create("fake", key=KEY)
        program.begin(program.kill_before, lambda one: one.kind == "session_archived")
        await settle()
        program.begin(sup.new, KEY)
        await program.store.killed.wait()

    async with program.running() as sup:
        assert (await sup.get_or_create(KEY)).id == old.id
        assert (await sup.stats()).sessions == 1


async def test_a_session_after_a_graceful_exit_is_unchanged(
    program: Program, fake_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        (await fake_agent.next_run()).finish()
        await sup.drain()
        with pytest.raises(SessionNotActive):
            await session.send("second")

    async with program.running() as sup:
        assert await phase_of(sup.session(session.id)) == "suspended"
        assert [
            one.body["outcome"] for one in await records(sup.session(session.id), "turn_ended")
        ] == ["completed"]
