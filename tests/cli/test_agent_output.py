"""Agent output is printed once, complete and in order."""

import io

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked
from trio_util import run_and_cancelling

import supervisor
from supervisor.cli.commands.conversation import OutputPrinter, PermissionPrompt, parse_decision
from supervisor.cli.output import Screen
from supervisor.cli.progress_bar import progress
from supervisor.cli.safe import safe
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.records import Delta, Item, Record, RecordKind
from tests.support.cli_runner import Tty

SESSION, TURN = SessionId("s_1"), TurnId("turn_1")


def delta(text: str, *, offset: int = 0, part: str = "turn_1.1") -> Delta:
    return Delta(SESSION, TURN, "agent_text", part, offset, text)


def record(kind: RecordKind, **body: object) -> Record:
    return Record(SESSION, 1, 0.0, TURN, kind, body)


def said(*items: Item) -> str:
    out = io.StringIO()
    speech = OutputPrinter(Screen(out=out, err=io.StringIO(), environ={}), with_asides=False)
    for item in items:
        speech.print_item(item)
    speech.end_line()
    return out.getvalue()


def test_a_record_does_not_repeat_its_deltas() -> None:
    closing = record("agent_text", text="hello there", part="turn_1.1")

    assert said(delta("hello"), delta(" there", offset=5), closing) == "hello there\n"


def test_a_record_prints_text_missed_by_deltas() -> None:
    closing = record("agent_text", text="hello there", part="turn_1.1")

    assert said(delta("hello"), closing) == "hello there\n"
    assert said(closing) == "hello there\n"


def test_text_of_another_part_continues_the_line() -> None:
    first = record("agent_text", text="one ", part="turn_1.1")
    second = record("agent_text", text="sentence", part="turn_1.2", continues=True)

    assert said(first, second) == "one sentence\n"


def test_text_after_another_record_starts_a_new_line() -> None:
    first = record("agent_text", text="one", part="turn_1.1")
    second = record("agent_text", text="two", part="turn_1.2")

    assert said(first, record("tool_call", name="x", call_id="c"), second) == "one\ntwo\n"


@given(st.lists(st.text(min_size=1), min_size=1))
def test_deltas_in_any_chunks_print_the_whole_text(pieces: list[str]) -> None:
    offset, items = 0, []
    for piece in pieces:
        items.append(delta(piece, offset=offset))
        offset += len(piece)

    whole = safe("".join(pieces))

    assert said(*items) == (whole if not whole or whole.endswith("\n") else f"{whole}\n")


def test_only_offered_decisions_are_accepted() -> None:
    assert parse_decision(" YES ", ("allow_once", "reject_once")) == "allow_once"
    assert parse_decision("always", ("allow_once", "reject_once")) is None
    assert parse_decision("", ("allow_once", "reject_once")) is None


async def test_long_work_shows_progress(autojump_clock: MockClock) -> None:
    screen = Screen(out=io.StringIO(), err=Tty(), environ={"TERM": "xterm"})
    async with progress(screen, "copying \x1b[2J"):
        await trio.sleep(2.0)

    assert isinstance(screen.err, io.StringIO)
    assert "copying (1.9 s)" in screen.err.getvalue()
    assert screen.err.getvalue().endswith("\r\x1b[K")


async def test_short_or_piped_work_shows_no_progress(autojump_clock: MockClock) -> None:
    for seconds, err in ((0.1, Tty()), (2.0, io.StringIO())):
        screen = Screen(out=io.StringIO(), err=err, environ={"TERM": "xterm"})
        async with progress(screen, "copying"):
            await trio.sleep(seconds)

        assert err.getvalue() == ""


async def test_no_record_is_observed_after_the_questions_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records of a shutdown would be reported as a failed observer."""
    seen: list[object] = []
    monkeypatch.setattr(PermissionPrompt, "_on_record", lambda _, event: seen.append(event))
    async with supervisor.open() as sup:
        async with run_and_cancelling(PermissionPrompt(Screen(), sup, None).run):
            await wait_all_tasks_blocked()
        await sup.create("echo")

    assert seen == []
