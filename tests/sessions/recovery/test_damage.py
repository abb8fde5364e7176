"""A damaged file: sessions without damage are not affected."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Literal

import pytest
import trio

from supervisor import NotStorable, RecordNotFound, Settings, SpawnRefused
from supervisor.core.ids import SessionId
from tests.support.fake_agents import FakeAgent
from tests.support.killed_program import Program


def damage(program: Program, what: str, *values: object) -> None:
    with closing(sqlite3.connect(program.path, isolation_level=None)) as connection:
        connection.execute(what, values)


# Invalid JSON, JSON that is not an object, and objects with missing or wrong fields.
BODIES = ("{", "[]", "{}", '{"child": 1, "text": 2, "part": 3}', '{"child": {"a": 1}}')


@pytest.mark.parametrize("body", BODIES)
async def test_an_unreadable_child_record_does_not_prevent_the_start(
    program: Program, fake_agent: FakeAgent, body: str
) -> None:
    async with program.running() as sup:
        parent, other = await sup.create("fake"), await sup.create("fake")
        await parent.spawn("echo", "errand")
    damage(program, "UPDATE records SET body = ? WHERE kind LIKE 'child_%'", body)

    async with program.running() as sup:
        await sup.session(other.id).send("hello")
        assert await fake_agent.finish_all() == ["hello"]


@pytest.mark.parametrize("body", BODIES)
async def test_unreadable_output_of_an_open_turn_does_not_prevent_the_start(
    program: Program, fake_agent: FakeAgent, body: str
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        await run.do(run.turn.say("so far"))
        await trio.sleep(1.0)
    damage(program, "UPDATE records SET body = ? WHERE kind IN ('user_text', 'agent_text')", body)

    async with program.running() as sup:
        assert (await sup.session(session.id).info()).phase in ("restarting", "idle")


@pytest.mark.parametrize("kind", ["session_resumed", "session_stopped", "turn_ended"])
@pytest.mark.parametrize("body", BODIES)
async def test_an_unreadable_child_ended_record_does_not_prevent_the_start(
    program: Program, kind: str, body: str
) -> None:
    async with program.running() as sup:
        parent, other = await sup.create("echo"), await sup.create("echo")
        child = await parent.spawn("echo", "errand", lifetime="detached")
        await child.wait()
        await child.stop()
        await child.resume()
    damage(program, "DELETE FROM records WHERE kind LIKE 'child_%'")
    damage(program, "UPDATE records SET body = ? WHERE kind = ?", body, kind)

    async with program.running() as sup:
        assert (await sup.session(other.id).prompt("hello")).text == "hello"


async def test_a_search_skips_unreadable_records(program: Program) -> None:
    async with program.running() as sup:
        damaged, whole = await sup.create("echo"), await sup.create("echo")
        for session in (damaged, whole):
            await session.append("user", "needle")
    damage(
        program,
        "UPDATE records SET body = '{' WHERE session_id = ? AND kind = 'user_text'",
        SessionId(damaged.id),
    )

    async with program.running() as sup:
        assert [hit.session_id for hit in (await sup.search("needle")).items] == [whole.id]


async def test_suspended_rows_are_not_decoded_at_start(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    async with program.running(settings=Settings(suspend_after_seconds=1.0)) as sup:
        stopped = await sup.get_or_create("echo:there:one", agent="echo")
        archived = await sup.get_or_create("echo:there:two", agent="echo")
        resting = await sup.get_or_create("echo:there%3A:thr%25ee:4", agent="echo")
        await stopped.stop()
        await archived.stop()
        await archived.archive()
        await trio.sleep(2.0)
    damage(program, "UPDATE sessions SET row = '{' WHERE resting")
    caplog.clear()

    async with program.running(settings=Settings(max_sessions=2)) as sup:
        assert not caplog.records
        assert (await sup.get_or_create("echo:there:one", agent="echo")).id == stopped.id
        key = "echo:there%3A:thr%25ee:4"
        assert (await sup.get_or_create(key, agent="echo")).id == resting.id
        another = await sup.get_or_create("echo:there:two", agent="echo")  # which is free
        assert another.id != archived.id
        with pytest.raises(SpawnRefused, match="max_sessions"):
            await sup.create("echo")


async def test_an_undecodable_record_affects_only_its_session(program: Program) -> None:
    async with program.running() as sup:
        damaged, whole = await sup.create("echo"), await sup.create("echo")
        for session in (damaged, whole):
            await session.append("user", "needle")
            await session.stop()
    damage(
        program,
        "UPDATE records SET body = CAST(x'ff7b' AS TEXT)"
        " WHERE session_id = ? AND kind = 'user_text'",
        damaged.id,
    )

    async with program.running() as sup:
        with pytest.raises(NotStorable):
            await sup.session(damaged.id).transcript()
        assert [hit.session_id for hit in (await sup.search("needle")).items] == [whole.id]
        await sup.delete(damaged.id)  # also one that is damaged can go
        assert not (await sup.stats()).store.degraded
        assert not await sup.exists(damaged.id)
    with closing(sqlite3.connect(program.path)) as connection:
        found = connection.execute("SELECT DISTINCT session_id FROM records").fetchall()
        assert found == [(whole.id,)]


@pytest.mark.parametrize("row", [b"\xff{", b"{", b"null"])
async def test_an_unreadable_row_does_not_prevent_other_sessions(
    program: Program, row: bytes
) -> None:
    async with program.running() as sup:
        damaged, whole = await sup.create("echo"), await sup.create("echo")
        await damaged.stop()
    damage(program, "UPDATE sessions SET row = CAST(? AS TEXT) WHERE id = ?", row, damaged.id)

    async with program.running() as sup:
        assert [info.id for info in (await sup.list()).items] == [whole.id]
        assert (await sup.stats()).sessions == 1
        assert (await sup.cleanup(older_than_seconds=0.0)).failed == {}
        with pytest.raises(NotStorable):
            await sup.session(damaged.id).info()
        assert not (await sup.stats()).store.degraded


@pytest.mark.parametrize(
    "action",
    [
        "UPDATE records SET seq = 'abc' WHERE kind = 'user_text'",
        "UPDATE records SET at = 'soon' WHERE kind = 'user_text'",
    ],
)
async def test_a_record_without_number_or_time_is_reported_as_damaged(
    program: Program, action: str
) -> None:
    async with program.running() as sup:
        session = await sup.create("echo")
        await session.append("user", "needle")
        await session.stop()
    damage(program, action)

    async with program.running() as sup:
        again = sup.session(session.id)
        for look in (
            again.transcript,
            again.history,
            lambda: again.export("jsonl"),
            lambda: again.replay(at=6),
        ):
            with pytest.raises((NotStorable, RecordNotFound)):
                await look()
        assert (await again.repair(dry_run=True)).problems


async def test_an_undecodable_record_raises_where_it_is_needed(
    program: Program,
) -> None:
    async with program.running() as sup:
        session = await sup.create("echo")
        await session.append("user", "hello")
        await session.append("user", "goodbye")
    damage(program, "UPDATE records SET body = '{}' WHERE kind IN ('user_text', 'agent_attached')")

    async with program.running() as sup:
        damaged = sup.session(session.id)
        with pytest.raises(NotStorable, match="repair"):
            await damaged.transcript()
        with pytest.raises(NotStorable, match="repair"):
            await damaged.replay(4)


async def test_a_record_with_a_binary_turn_id_is_not_exported(program: Program) -> None:
    async with program.running() as sup:
        session = await sup.create("echo")
    damage(program, "UPDATE records SET turn_id = x'00' WHERE kind = 'session_started'")

    async with program.running() as sup:
        with pytest.raises(NotStorable, match="not text"):
            await sup.session(session.id).export("jsonl")


@pytest.mark.parametrize("row", ["{", "{}", "[]"])
async def test_replay_starts_at_the_first_record_without_a_readable_snapshot(
    program: Program, row: str
) -> None:
    async with program.running(settings=Settings(snapshot_every=2)) as sup:
        session = await sup.create("echo")
        await session.append("user", "hello")
        info = await session.info()
    damage(program, "UPDATE snapshots SET row = ?", row)

    async with program.running() as sup:
        assert (await sup.session(session.id).replay(info.last_seq)).messages == 1


@pytest.mark.parametrize("answer", ["{", "{}", "[]", '{"session_id": 5}'])
async def test_a_damaged_stored_reply_is_refused_and_affects_no_other_request(
    program: Program, fake_agent: FakeAgent, answer: str
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake", idempotency_key="made")
        await session.send("first", idempotency_key="sent")
        await session.spawn("echo", "errand", idempotency_key="spawned")
        await fake_agent.finish_all()
    damage(program, "UPDATE kept SET answer = ?", answer)

    async with program.running() as sup:
        damaged = sup.session(session.id)
        await damaged.send("second")
        run = await fake_agent.next_run()
        for again in (
            sup.create("fake", idempotency_key="made"),
            damaged.send("first", idempotency_key="sent"),
            damaged.spawn("echo", "errand", idempotency_key="spawned"),
        ):
            with pytest.raises(NotStorable, match="another key"):
                await again
        assert (await damaged.info()).turn_id == run.turn.id


@pytest.mark.parametrize("body", ["{", "{}", "[]"])
async def test_a_session_continues_with_its_readable_records(
    program: Program, fake_agent: FakeAgent, body: str
) -> None:
    async with program.running() as sup:
        session = await sup.create("fake")
        for text in ("kept", "lost", "kept too"):
            await session.append("user", text)
    damage(
        program,
        "UPDATE records SET body = ? WHERE kind = 'session_started' OR body LIKE '%\"lost\"%'",
        body,
    )

    async with program.running() as sup:
        await sup.session(session.id).send("and now?")
        run = await fake_agent.next_run()
        assert [message.text for message in run.turn.history] == ["kept", "kept too"]


@pytest.mark.parametrize("for_people", ["markdown", "html"])
async def test_an_export_contains_readable_records_and_names_the_damaged(
    program: Program, for_people: Literal["markdown", "html"]
) -> None:
    async with program.running() as sup:
        session = await sup.create("echo")
        for text in ("kept", "lost", "lost too", "still here"):
            await session.append("user", text)
        last = (await session.info()).last_seq
    damage(program, "UPDATE records SET body = '{' WHERE body LIKE '%\"lost%'")

    async with program.running() as sup:
        page = await sup.session(session.id).export(for_people)
        assert "kept" in page
        assert "still here" in page
        assert f"records {last - 2} to {last - 1} cannot be read" in page
        with pytest.raises(NotStorable):
            await sup.session(session.id).export("jsonl")
