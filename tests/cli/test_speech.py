"""What an agent says, as it is printed: once, whole and in order, however it arrives."""

import io

import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from supervisor.cli.talking.asking import decision_of
from supervisor.cli.talking.speech import Speech
from supervisor.cli.terminal.progress import progress
from supervisor.cli.terminal.safe import safe
from supervisor.cli.terminal.screen import Screen
from supervisor.core.facts import Kind
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Record
from supervisor.sessions.shell.feed import Delta, Item
from tests.cli.test_screen import Tty

SESSION, TURN = SessionId("s_1"), TurnId("turn_1")


def delta(text: str, *, offset: int = 0, part: str = "turn_1.1") -> Delta:
    return Delta(SESSION, TURN, "agent_text", part, offset, text)


def record(kind: Kind, **body: object) -> Record:
    return Record(SESSION, 1, 0.0, TURN, kind, body)


def said(*items: Item) -> str:
    out = io.StringIO()
    speech = Speech(Screen(out=out, err=io.StringIO(), environ={}), with_asides=False)
    for item in items:
        speech.take(item)
    speech.end_line()
    return out.getvalue()


def test_a_delta_is_not_said_again_by_its_record() -> None:
    closing = record("agent_text", text="hello there", part="turn_1.1")

    assert said(delta("hello"), delta(" there", offset=5), closing) == "hello there\n"


def test_what_deltas_have_missed_is_said_by_the_record() -> None:
    closing = record("agent_text", text="hello there", part="turn_1.1")

    assert said(delta("hello"), closing) == "hello there\n"
    assert said(closing) == "hello there\n"


def test_text_that_goes_on_in_another_part_goes_on_in_the_same_line() -> None:
    first = record("agent_text", text="one ", part="turn_1.1")
    second = record("agent_text", text="sentence", part="turn_1.2", continues=True)

    assert said(first, second) == "one sentence\n"


def test_something_in_between_begins_another_line() -> None:
    first = record("agent_text", text="one", part="turn_1.1")
    second = record("agent_text", text="two", part="turn_1.2")

    assert said(first, record("tool_call", name="x", call_id="c"), second) == "one\ntwo\n"


@given(st.lists(st.text(min_size=1), min_size=1))
def test_deltas_in_any_pieces_say_the_whole_text(pieces: list[str]) -> None:
    offset, items = 0, []
    for piece in pieces:
        items.append(delta(piece, offset=offset))
        offset += len(piece)

    whole = safe("".join(pieces))

    assert said(*items) == (whole if not whole or whole.endswith("\n") else f"{whole}\n")


def test_an_answer_is_only_what_was_offered() -> None:
    assert decision_of(" YES ", ("allow_once", "reject_once")) == "allow_once"
    assert decision_of("always", ("allow_once", "reject_once")) is None
    assert decision_of("", ("allow_once", "reject_once")) is None


async def test_long_work_is_seen_to_go_on(autojump_clock: MockClock) -> None:
    screen = Screen(out=io.StringIO(), err=Tty(), environ={"TERM": "xterm"})
    async with progress(screen, "copying \x1b[2J"):
        await trio.sleep(2.0)

    assert isinstance(screen.err, io.StringIO)
    assert "copying (1.9 s)" in screen.err.getvalue()
    assert screen.err.getvalue().endswith("\r\x1b[K")


async def test_short_work_and_work_in_a_pipe_is_not(autojump_clock: MockClock) -> None:
    for seconds, err in ((0.1, Tty()), (2.0, io.StringIO())):
        screen = Screen(out=io.StringIO(), err=err, environ={"TERM": "xterm"})
        async with progress(screen, "copying"):
            await trio.sleep(seconds)

        assert err.getvalue() == ""
