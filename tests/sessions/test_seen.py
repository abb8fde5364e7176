"""What a person has seen: through the handle, over a restart, and in copies of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

import supervisor
from supervisor import ConfigError, RecordNotFound, Session, Supervisor
from tests.support.fake_agents import FakeAgent, records
from tests.support.permission_requests import begin_turn


@pytest.fixture
async def failed(sup: Supervisor) -> Session:
    session = await sup.create("scripted")
    await session.prompt("fail no disk")
    return session


async def test_an_item_names_the_record_that_says_it(
    session: Session, fake_agent: FakeAgent
) -> None:
    run = await begin_turn(session, fake_agent)
    await run.turn.say("streamed, and in a record of its own")
    run.fail(RuntimeError("no disk"))
    await session.wait_idle()

    (ended,) = await records(session, "turn_ended")
    info = await session.info()
    assert info.last_outcome is not None
    assert [info.last_outcome.seq, info.attention[0].seq] == [ended.seq, ended.seq]


async def test_seen_removes_it_and_a_second_look_writes_nothing(failed: Session) -> None:
    info = await failed.info()
    assert supervisor.need_of(info) == "failed"

    await failed.seen(info.last_seq)
    seen = await failed.info()
    await failed.seen(seen.last_seq)

    assert (seen.attention, supervisor.need_of(seen)) == ((), "idle")
    assert (await failed.info()).last_seq == seen.last_seq == seen.seen_seq
    assert seen.last_outcome is not None
    assert seen.last_outcome.outcome == "failed"


async def test_a_stopped_session_can_be_seen_twice_without_growing(failed: Session) -> None:
    await failed.stop()

    await failed.seen((await failed.info()).last_seq)
    once = await failed.info()
    for _ in range(3):
        await failed.seen((await failed.info()).last_seq)

    kinds = [record.kind for record in await records(failed)]
    assert (once.attention, kinds.count("seen")) == ((), 1)


async def test_only_existing_records_can_be_seen(failed: Session) -> None:
    with pytest.raises(RecordNotFound):
        await failed.seen(1_000)
    with pytest.raises(ConfigError):
        await failed.seen(-1)

    assert (await failed.info()).attention != ()


async def test_a_fork_and_an_import_inherit_no_attention(
    sup: Supervisor, failed: Session, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(await failed.export("jsonl"))

    copies = [await failed.fork(), await sup.import_(path)]

    assert [(await copy.info()).attention for copy in copies] == [(), ()]
    imported = (await copies[1].info()).last_outcome
    (ended,) = await records(copies[1], "turn_ended")
    assert imported is not None
    assert (imported.outcome, imported.seq) == ("failed", ended.seq)


async def test_a_failed_child_is_shown_in_the_child(sup: Supervisor, session: Session) -> None:
    child = await session.spawn("scripted", "fail no disk")
    await child.wait()

    assert [item.kind for item in (await child.info()).attention] == ["failed_turn"]
    assert (await session.info()).attention == ()
