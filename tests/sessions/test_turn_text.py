"""The text of a turn: how much of it is kept in memory, and how much its result has."""

from __future__ import annotations

import pytest

from actors.testing import settle
from supervisor import Session, Supervisor
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record
from supervisor.core.text import MAX_RESULT_BYTES, TextHead, TurnOutput, cut_text, turn_output
from supervisor.sessions.transcript import MAX_CACHED_CHARS
from supervisor.sessions.turn_buffer import ReceivedText, utf8_size
from tests.support.fake_agents import AgentRun, FakeAgent, records, texts

TURN = TurnId("turn_1")
CHUNK = "x" * 60_000
CHUNKS = MAX_RESULT_BYTES // len(CHUNK) + 2


def received(*pieces: str) -> ReceivedText:
    text = ReceivedText()
    for piece in pieces:
        text.append(piece, utf8_size(piece))
    return text


# Text in pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "head"),
    [
        (["abc", "def"], "abcdef"),
        (["abc", "defg"], "abcdef"),
        (["abc", "defg", "h"], "abcdef"),
        (["abcde", "é"], "abcde"),
        (["abcd", "é"], "abcdé"),
    ],
)
def test_a_head_has_the_first_bytes_in_whole_characters(pieces: list[str], head: str) -> None:
    text = TextHead(6)

    rest = "".join(text.append(piece) for piece in pieces)

    assert (text.text, head + rest) == (head, "".join(pieces))
    assert text.is_cut == bool(rest)


@pytest.mark.parametrize(("text", "cut"), [("abc", "abc"), ("abcdefgh", "abcdef"), ("éééé", "ééé")])
def test_cut_text_is_the_longest_start_that_fits(text: str, cut: str) -> None:
    assert cut_text(text, 6) == cut


@pytest.mark.parametrize("count", [1, CHUNKS])
def test_received_text_equals_only_the_whole_text(count: int) -> None:
    text = received(*[CHUNK] * count)

    assert text.equals(CHUNK * count)
    assert not text.equals(CHUNK * count + "x")
    assert not text.equals(CHUNK * (count - 1) + "y" * len(CHUNK))
    assert not text.equals("y" + (CHUNK * count)[1:])


def test_output_of_records_is_cut_at_the_limit_of_a_result() -> None:
    said = [
        Record(SessionId("s"), seq, 0.0, TURN, "agent_text", {"text": CHUNK, "continues": seq > 1})
        for seq in range(1, CHUNKS + 1)
    ]

    assert turn_output(said, TURN) == TurnOutput("x" * MAX_RESULT_BYTES, 1, truncated=True)
    assert turn_output(said[:2], TURN) == TurnOutput(CHUNK * 2, 1)


# Results -----------------------------------------------------------------------------------------


async def say_much(run: AgentRun) -> None:
    for _ in range(CHUNKS):
        await run.do(run.turn.say(CHUNK))


@pytest.mark.parametrize("returned", [None, CHUNK * CHUNKS])
async def test_a_long_result_is_truncated_and_the_records_are_not(
    session: Session, run: AgentRun, returned: str | None
) -> None:
    await say_much(run)
    run.finish(returned)
    await settle()

    [ended] = await records(session, "turn_ended")
    assert (ended.body["text"], ended.body["truncated"]) == ("x" * MAX_RESULT_BYTES, True)
    assert "".join(texts(await records(session, "agent_text"))) == CHUNK * CHUNKS


async def test_a_result_within_the_limit_is_not_marked(session: Session, run: AgentRun) -> None:
    await run.do(run.turn.say(CHUNK))
    run.finish()
    await settle()

    [ended] = await records(session, "turn_ended")
    assert ended.body["text"] == CHUNK
    assert "truncated" not in ended.body


# Transcripts -------------------------------------------------------------------------------------


async def test_a_long_transcript_is_not_kept_but_read_again(
    sup: Supervisor, fake_agent: FakeAgent
) -> None:
    session = await sup.create("fake")
    await session.send("first")
    run = await fake_agent.next_run()
    count = MAX_CACHED_CHARS // len(CHUNK) + 1
    for _ in range(count):
        await run.do(run.turn.say(CHUNK))
    run.finish()
    await session.send("second")
    run = await fake_agent.next_run()

    slot = sup._parts.registry.find_slot(session.id)
    assert slot is not None
    assert slot.subscribers.transcript is None
    assert [len(message.text) for message in run.turn.history] == [5, len(CHUNK) * count]
    run.finish()
