"""Streaming: text merged into records, and deltas on the way into them."""

from __future__ import annotations

import pytest
import trio

import supervisor
from actors.testing import explore, settle
from supervisor import (
    Delta,
    Message,
    OutputTooLarge,
    Record,
    Session,
    Supervisor,
)
from tests.support.fake_agents import (
    AgentRun,
    FakeAgent,
    Follow,
    Item,
    deltas,
    last_seq,
    numbers,
    records,
    texts,
    watch_into,
)

# Merging ---------------------------------------------------------------------------------------


async def test_consecutive_text_becomes_one_record(session: Session, run: AgentRun) -> None:
    for word in ("one ", "two ", "three"):
        await run.do(run.turn.say(word))
    run.finish()
    await settle()

    assert texts(await records(session, "agent_text")) == ["one two three"]


async def test_text_is_closed_after_250_milliseconds(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("one "))
    await trio.sleep(0.2)
    await run.do(run.turn.say("two "))
    await trio.sleep(0.04)
    assert await records(session, "agent_text") == []

    await trio.sleep(0.02)
    assert texts(await records(session, "agent_text")) == ["one two "]

    await run.do(run.turn.say("three"))
    await trio.sleep(0.26)
    assert texts(await records(session, "agent_text")) == ["one two ", "three"]


async def test_text_is_closed_at_4_kib(session: Session, run: AgentRun) -> None:
    kib = "x" * 1024
    for _ in range(3):
        await run.do(run.turn.say(kib))
    await settle()
    assert await records(session, "agent_text") == []

    await run.do(run.turn.say(kib))
    await settle()

    assert trio.current_time() == 0
    assert texts(await records(session, "agent_text")) == [kib * 4]


async def test_4_kib_are_bytes_and_not_characters(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("\N{SNOWMAN}"))
    await run.do(run.turn.say("\N{SNOWMAN}" * 1365))
    await settle()

    assert trio.current_time() == 0
    assert texts(await records(session, "agent_text")) == ["\N{SNOWMAN}"]  # no room for the rest


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\N{GRINNING FACE}"])
async def test_a_large_piece_of_text_is_cut_into_records_of_4_kib(
    session: Session, run: AgentRun, letter: str
) -> None:
    await run.do(run.turn.say(letter * 10_000))
    await run.do(run.turn.say("."))
    await trio.sleep(0.25)
    await settle()

    written = texts(await records(session, "agent_text"))
    assert "".join(written) == letter * 10_000 + "."
    assert max(len(text.encode()) for text in written) <= 4096
    assert [said.text for said in await session.transcript()][1:] == [letter * 10_000 + "."]


async def test_an_agent_is_not_slowed_while_the_store_keeps_up(
    session: Session, run: AgentRun
) -> None:
    async def talk() -> None:
        for _ in range(10):
            await run.turn.say("x" * 70_000)

    await run.do(talk())

    assert trio.current_time() == 0
    assert (await session.info()).turn_id == run.turn.id


async def test_text_of_another_kind_closes_the_record(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("said"))
    await run.do(run.turn.think("thought "))
    await run.do(run.turn.think("twice"))
    await run.do(run.turn.say("and said"))
    run.finish()
    await settle()

    found = await records(session, "agent_text", "thought")
    assert [(record.kind, record.body["text"]) for record in found] == [
        ("agent_text", "said"),
        ("thought", "thought twice"),
        ("agent_text", "and said"),
    ]


async def test_a_record_of_another_kind_closes_the_text_first(
    session: Session, run: AgentRun
) -> None:
    before = await last_seq(session)
    await run.do(run.turn.say("one"))
    call = await run.open_call("bash")
    await run.do(run.turn.say("two"))
    call.call.update("half")
    await run.do(run.turn.say("three"))
    await call.close()
    await run.do(run.turn.say("four"))
    await run.do(run.turn.plan(["five"]))
    run.finish("six")
    await settle()

    found = [record for record in await records(session) if record.seq > before]
    assert [record.body.get("text") or record.kind for record in found] == [
        "one",
        "tool_call",
        "two",
        "tool_update",
        "three",
        "tool_ended",
        "four",
        "plan",
        "six",
        "six",
    ]
    assert found[-1].kind == "turn_ended"


async def test_a_record_of_the_actor_closes_the_text(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("one"))
    await session.send("second")
    await run.do(run.turn.say("two"))
    run.finish()
    await settle()

    assert texts(await records(session, "agent_text")) == ["one", "two"]


async def test_the_transcript_is_complete_for_any_chunking(session: Session, run: AgentRun) -> None:
    for word in ("one ", "two ", "three"):
        await run.do(run.turn.say(word))
        await trio.sleep(1)
    run.finish()
    await settle()

    transcript: list[Message] = await session.transcript()
    assert [(message.role, message.text) for message in transcript] == [
        ("user", "first"),
        ("agent", "one two three"),
    ]


async def test_turn_ended_is_the_last_record_of_a_turn(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("one"))
    await run.open_call("bash")
    await session.steer("shorter")
    run.turn.usage(output_tokens=5)
    run.finish("done")
    await settle()

    of_turn = [record for record in await records(session) if record.turn_id == run.turn.id]
    assert of_turn[-1].kind == "turn_ended"
    assert [record.kind for record in of_turn].count("turn_ended") == 1


async def test_records_are_numbered_from_1_without_gaps(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say("one"))
    await session.send("second")
    await session.interrupt(replace_with="third", queued="cancel")
    await settle()

    found = await records(session)
    assert [record.seq for record in found] == list(range(1, len(found) + 1))


async def test_output_above_max_turn_bytes_is_refused(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake", max_turn_bytes=10)
    await session.send("first")
    run = await fake_agent.next_run()
    await run.do(run.turn.say("0123456789"))

    with pytest.raises(OutputTooLarge, match="10 of 10 bytes") as refusal:
        await run.do(run.turn.say("x"))

    run.finish()
    await settle()
    assert "max_turn_bytes" in refusal.value.hint
    assert texts(await records(session, "agent_text")) == ["0123456789"]
    assert (await records(session, "turn_ended"))[0].body["outcome"] == "completed"


async def test_the_output_bound_applies_per_turn(sup: Supervisor, fake_agent: FakeAgent) -> None:
    session = await sup.create("fake", max_turn_bytes=10)
    for _ in range(2):
        await session.send("more")
        run = await fake_agent.next_run()
        await run.do(run.turn.say("0123456789"))
        run.finish()
        await settle()

    assert texts(await records(session, "agent_text")) == ["0123456789"] * 2


# Deltas ----------------------------------------------------------------------------------------


async def test_text_is_published_as_deltas_before_its_record(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session, after=await last_seq(session))

    await run.do(run.turn.say("hello"))
    await settle()

    assert trio.current_time() == 0
    (delta,) = deltas(seen)
    assert seen == [delta]
    assert (delta.session_id, delta.turn_id) == (session.id, run.turn.id)
    assert (delta.kind, delta.offset, delta.text) == ("agent_text", 0, "hello")


async def test_the_offset_of_a_delta_counts_characters(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)
    for text in ("\N{SNOWMAN}\N{SNOWMAN} ", "one ", "two"):
        await run.do(run.turn.say(text))
    await settle()

    assert [(delta.offset, delta.text) for delta in deltas(seen)] == [
        (0, "\N{SNOWMAN}\N{SNOWMAN} "),
        (3, "one "),
        (7, "two"),
    ]
    assert len({delta.part for delta in deltas(seen)}) == 1


async def test_the_closing_record_has_the_part_and_its_whole_text(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)
    for number in range(300):
        say = run.turn.think if number % 7 == 0 else run.turn.say
        await run.do(say(f"word {number} " * 5))
        await trio.sleep(0.01 * (number % 3))
    run.finish()
    await settle()

    shown: dict[tuple[str, str], str] = {}
    for delta in deltas(seen):
        before = shown.setdefault((delta.kind, delta.part), "")
        assert delta.offset == len(before)
        shown[delta.kind, delta.part] = before + delta.text
    closed = await records(session, "agent_text", "thought")
    assert shown == {(r.kind, r.body["part"]): r.body["text"] for r in closed}
    assert len(closed) > 50


async def test_deltas_of_a_part_precede_its_record_only(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)
    for number in range(100):
        await run.do(run.turn.say(f"word {number} " * 20))
    run.finish()
    await settle()

    closed: set[str] = set()
    for item in seen:
        if isinstance(item, Delta):
            assert item.part not in closed
        elif isinstance(item, Record) and item.kind == "agent_text":
            closed.add(item.body["part"])
    assert len(closed) > 3


async def test_a_late_watcher_first_gets_the_text_so_far(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    await run.do(run.turn.say("one "))
    await run.do(run.turn.say("two "))

    seen = await follow(session, after=await last_seq(session))
    await run.do(run.turn.say("three"))
    await settle()

    first, second = seen
    assert isinstance(first, Delta)
    assert isinstance(second, Delta)
    assert (first.offset, first.text) == (0, "one two ")
    assert (second.offset, second.text) == (8, "three")
    assert first.part == second.part


async def test_a_late_watcher_gets_stored_records_before_the_text_so_far(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    await run.do(run.turn.say("so far"))

    seen = await follow(session)

    assert numbers(seen) == list(range(1, await last_seq(session) + 1))
    assert deltas(seen) == seen[-1:]
    assert deltas(seen)[0].text == "so far"


async def join_while_a_part_is_closed() -> None:
    fake_agent = FakeAgent()
    async with supervisor.open(agents=[fake_agent.agent]) as sup, trio.open_nursery() as nursery:
        session = await sup.create("fake")
        await session.send("first")
        run = await fake_agent.next_run()
        await run.do(run.turn.say("so far"))
        seen: list[Item] = []
        nursery.start_soon(watch_into, session, seen)
        await session.send("second")
        await settle()

        (record,) = [i for i in seen if isinstance(i, Record) and i.kind == "agent_text"]
        assert deltas(seen[seen.index(record) :]) == []
        fake_agent.finish_open_runs()
        nursery.cancel_scope.cancel()


def test_a_watcher_joining_during_a_close_gets_no_delta_after_the_record() -> None:
    assert explore(join_while_a_part_is_closed, seeds=range(60)) == []


async def test_a_watcher_joining_between_parts_gets_no_delta(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    await run.do(run.turn.say("closed"))
    await trio.sleep(1)

    seen = await follow(session)

    assert deltas(seen) == []
    assert texts([r for r in await records(session) if r.kind == "agent_text"]) == ["closed"]
