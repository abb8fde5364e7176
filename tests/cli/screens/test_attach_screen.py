"""The screen of a session: text, modes, requests, Ctrl-C, scrolling, resizing."""

from __future__ import annotations

import re

import attrs
import pytest
from rich.cells import cell_len

import supervisor
from supervisor.cli.screens import attach_feed, attach_screen, request_panel
from supervisor.cli.screens.attach_help import HELP
from supervisor.cli.screens.attach_words import status_cells
from supervisor.cli.screens.opened_session import OpenedSession
from supervisor.client import RemoteSession
from tests.support import attached_screen
from tests.support.asking_agent import asking_supervisor
from tests.support.attached_screen import attached, run
from tests.support.row_builders import stopped_info


def test_a_text_is_sent_and_the_answer_flows() -> None:
    async def test() -> None:
        async with attached() as user:
            assert "[send] Enter starts a turn" in user.text()
            await user.type("say hello\nsay there", "enter")
            await user.see("completed")

            assert re.search(r"> say hello\n  say there\nhellothere\n── completed", user.text())
            assert "started" in user.text()
            assert user.screen.input.text == ""

    run(test)


def test_news_of_an_input_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach_screen, "_NEWS_SECONDS", 0.01)

    async def test() -> None:
        async with attached() as user:
            await user.type("say hello", "enter")
            await user.see("last turn completed")
            await user.until(lambda: "started" not in user.text())
            assert user.screen._notice_timer is None

    run(test)


def test_records_on_the_screen_are_marked_as_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach_screen, "_SEEN_SECONDS", 0.01)

    async def test() -> None:
        async with attached() as user:
            user.app.app_focus = False
            await user.session.send("fail badly")
            await user.see("last turn failed")
            assert (await user.session.info()).attention

            user.app.app_focus = True
            await user.until(lambda: user.screen._seen_seq)
            info = await user.session.info()
            assert info.last_outcome is not None
            assert info.attention == ()
            assert info.seen_seq >= info.last_outcome.seq

    run(test)


def test_enter_queues_steers_or_interrupts_by_the_visible_mode() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("tool bash 60", "enter")
            await user.see("Enter queues it at place 1")
            await user.type("say later", "enter")
            await user.see("queued at place 1")
            await user.see("queue: say later")

            await user.pilot.press("tab")
            await user.see("[steer] Enter steers the turn")
            await user.type("softly", "enter")
            await user.see("staged: the running turn takes it")

            await user.pilot.press("tab")
            await user.see("[interrupt] Enter ends the turn and goes on with this text")
            await user.type("say instead", "enter")
            await user.see("> interrupted the turn before\n  say instead\ninstead\n")
            await user.see("> queued")

    run(test)


def test_steering_starts_a_turn_if_none_runs() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.pilot.press("tab")
            await user.see("[steer] Enter starts a turn, none to steer")
            await user.type("say hello", "enter")
            await user.see("last turn completed")

            await user.session.stop()
            await user.see("[steer] Enter resumes the session and starts a turn")
            await user.type("say there", "enter")
            await user.see("there\n── completed")

    run(test)


ALL_KEYS = "y allow once · a allow always · n reject once · d reject always"


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_panel, "_GRACE_SECONDS", 0.0)


@pytest.mark.usefixtures("no_grace")
def test_a_sentence_never_answers_a_request() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("ask curl", "enter")
            await user.see(f"Esc answers: {ALL_KEYS}")
            for text in ("add tests", "yes", "no", "delete"):
                await user.type(text)
                await user.see(f"> {text}")
                assert user.screen.input.text == text
                await user.pilot.press("ctrl+u")
            assert user.screen.panel.request is not None

    run(test)


@pytest.mark.usefixtures("no_grace")
def test_letters_answer_after_escape_and_others_write() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("ask rm\nask cp", "enter")
            await user.see("Esc answers")
            await user.pilot.press("escape", "s", "a")
            await user.until(lambda: user.screen.input.text == "sa")
            await user.pilot.press("escape", "y", "y")  # the second one is for the text
            await user.see("rm: allowed")
            await user.see("allow_once by person")
            await user.see("(cp)")
            await user.until(lambda: user.screen.input.text == "say")
            assert user.screen.input.has_focus

            await user.pilot.press("alt+n")
            await user.see("reject_once by person")
            assert not user.screen.panel.display

    run(test)


@pytest.mark.usefixtures("no_grace")
def test_an_answer_for_ever_asks_for_a_second_key() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("ask rm", "enter")
            await user.see("Esc answers")
            await user.pilot.press("escape", "a")
            await user.see("allow rm always, without asking again? y yes · Esc no")
            await user.pilot.press("escape")
            await user.see(f"{ALL_KEYS} · Esc back")
            await user.type("and")  # the start of a text, and no answer
            await user.until(lambda: user.screen.input.text == "and")

            await user.pilot.press("alt+d")
            await user.see("reject rm always")
            await user.pilot.press("y")
            await user.see("reject_always by person")

    run(test)


@pytest.mark.usefixtures("no_grace")
def test_a_question_is_answered_by_a_digit_or_by_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_screen, "embedded", asking_supervisor)

    async def test() -> None:
        async with attached("asker") as user:
            await user.type("which one?\nthis\nthat", "enter")
            await user.see("Esc answers: 1 this · 2 that · /answer TEXT")
            await user.pilot.press("1", "y")  # a text, not an answer
            await user.until(lambda: user.screen.input.text == "1y")
            await user.pilot.press("ctrl+u", "escape", "2")
            await user.see("answered by person: that")
            await user.see("? which one?  that by person")

            await user.type("and now?", "enter")
            await user.see("Esc answers: /answer TEXT")
            await user.type("/answer no idea", "enter")
            await user.see("answered by person: no idea")
            assert not user.screen.panel.display

    run(test)


def test_a_key_pressed_as_a_request_opens_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_panel, "_GRACE_SECONDS", 3600.0)

    async def test() -> None:
        async with attached() as user:
            await user.type("ask rm", "enter")
            await user.see("Esc answers")
            await user.pilot.press("alt+y", "escape", "y")
            await user.until(lambda: user.screen.input.text == "y")
            assert user.screen.panel.request is not None

    run(test)


def test_escape_leaves_a_session_that_was_opened_from_top() -> None:
    async def test() -> None:
        async with attached() as user:
            assert "Ctrl-D leave" in user.text()
            opened = OpenedSession(user.sup, user.session)
            await user.app.push_screen(opened)
            await user.see(">\n[send] Enter starts a turn · Esc back")
            await user.type("ask rm", "enter")
            await user.see("Esc answers")
            await user.type("now", "escape", "escape")
            await user.see("Esc again goes back to the list; the text is not sent")
            assert opened.input.text == "now"
            await user.pilot.press("ctrl+u")
            opened._discards_until = 0.0

            await user.pilot.press("escape")
            await user.see("reject always · Esc back")
            await user.pilot.press("escape")
            await user.see("Ctrl-D leave")
            assert user.screen.panel.request is not None

    run(test)


def test_ctrl_c_interrupts_the_turn_and_twice_leaves() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("say begun\nsleep 60", "enter")
            await user.see("Enter queues it")
            await user.pilot.press("ctrl+c")
            await user.see("── interrupted")
            await user.see("Ctrl-C again leaves")
            assert user.app.is_running

            await user.pilot.press("ctrl+c")
            await user.until(lambda: not user.app.is_running)
            assert (await user.session.info()).badge == "idle"

    run(test)


@pytest.mark.parametrize(
    ("width", "hints"),
    [
        (100, "Ctrl-D leave · F1 help · Tab mode · Ctrl-C interrupt"),
        (80, "Ctrl-D leave · F1 help · Tab mode"),
        (51, "Ctrl-D leave · F1 help"),
    ],
)
def test_the_line_of_keys_has_whole_hints_and_the_help_before_others(
    width: int, hints: str
) -> None:
    async def test() -> None:
        async with attached(size=(140, 24)) as user:
            await user.see("Tab mode")
            await user.pilot.resize_terminal(width, 24)
            await user.see(f"[send] Enter starts a turn · {hints}\n")

    run(test)


def test_the_line_of_keys_names_the_interrupt_while_a_turn_runs() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("tool bash 60", "enter")
            await user.see("at place 1 · Ctrl-D leave · F1 help · Ctrl-C interrupt\n")
            await user.pilot.press("tab")
            await user.see("steers the turn · Ctrl-D leave · F1 help · Ctrl-C interrupt\n")

    run(test)


def test_slash_commands_and_errors_are_shown_and_quit_leaves() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("/why", "enter")
            await user.see(") waits for an input, for")
            await user.type("\n/nonsense", "enter")
            await user.see("error: unknown command /nonsense")
            await user.see("the commands are /help, /steer, /interrupt, /inputs, /cancel, /why,")
            await user.pilot.press("f1")
            assert "/inputs /cancel /why /show /quit" in await user.see("PgUp, PgDn")
            # A dialog at 80 columns has room for no more beside its scroll bar.
            assert max(map(len, HELP.splitlines())) <= 70
            await user.pilot.press("escape", "ctrl+u")
            await user.type("/quit", "enter")
            await user.until(lambda: not user.app.is_running)

    run(test)


def test_a_refused_text_is_put_back() -> None:
    async def archive(session: RemoteSession) -> None:
        await session.stop()
        await session.archive()

    async def test() -> None:
        async with attached(before=archive) as user:
            await user.see("the session is archived")
            await user.type("say hello", "enter")
            await user.see("error: ")
            assert user.screen.input.text == "say hello"

    run(test)


def test_older_records_are_read_at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach_feed, "FIRST_RECORDS", 20)

    async def talk(session: RemoteSession) -> None:
        for number in range(12):
            await session.prompt(f"say answer {number}.")

    async def test() -> None:
        async with attached(before=talk) as user:
            await user.see("answer 11.")
            await user.until(lambda: user.screen.transcript.model.blocks)
            assert user.screen.transcript.model.first_seq > 40
            while (first := user.screen.transcript.model.first_seq) > 1:
                await user.pilot.press("ctrl+home")
                await user.until(lambda: user.screen.transcript.model.first_seq < first)
            await user.pilot.press("ctrl+home")
            await user.see("> say answer 0.")
            assert not user.screen.transcript.follows_end

            await user.session.send("say quietly")
            await user.until(lambda: "quietly" in str(user.screen.transcript.model.blocks[-2:]))
            assert "> say answer 0." in user.text()
            await user.pilot.press("ctrl+end")
            await user.see("quietly")

    run(test)


def test_the_text_is_laid_out_again_for_a_new_size() -> None:
    async def test() -> None:
        async with attached() as user:
            await user.type("say " + "word " * 15, "enter")
            await user.see("completed")
            await user.pilot.resize_terminal(40, 16)
            shown = await user.see("word word word word word word word word\nword")

            assert len(shown.splitlines()) == 16
            assert max(map(len, shown.splitlines())) <= 40

    run(test)


# A colour, a clipboard, a title, a bell, a cleared screen (in one byte), and writing that turns.
EVIL = "\x1b[41mA\x1b]52;c;aGk=\x07B\x1b]0;owned\x1b\\C\x9b2JD\u202eE\x08F\rG"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@supervisor.agent("evil")
async def evil(turn: supervisor.Turn) -> None:
    await turn.say(f"said {EVIL}")
    await turn.think(f"thought {EVIL}")
    async with turn.tool(f"tool {EVIL}", {f"key {EVIL}": EVIL}):
        pass
    if "ask" in turn.text:
        await turn.ask(f"question {EVIL}", tool=f"asked {EVIL}", input={"command": EVIL})
    raise ValueError(f"error {EVIL}")


def test_hostile_text_is_harmless_on_the_screen() -> None:
    async def go(session: RemoteSession) -> None:
        await session.prompt(f"go {EVIL}")
        await session.send(f"ask {EVIL}")
        await session.send(f"later {EVIL}")

    async def test() -> None:
        async with attached("evil", before=go, agents=[evil]) as user:
            shown = await user.see("y allow once")

            assert "question ABC" in shown
            assert "later ABC" in shown
            assert OBEYED.findall(shown) == []

    run(test)


@supervisor.agent("wide")
async def wide(turn: supervisor.Turn) -> None:
    await turn.say("x" * 5_000_000 + "\n")
    await turn.say("漢字" * 100 + "e\u0301" * 50 + "👩‍💻" * 20 + "\nend of it")


def test_wide_characters_and_lines_of_5_mb_fit_the_screen() -> None:
    async def go(session: RemoteSession) -> None:
        await session.prompt("go")

    async def test() -> None:
        async with attached("wide", before=go, agents=[wide]) as user:
            await user.see("end of it")
            shown = await user.see("has the whole line\n漢字漢字")

            assert len(shown.splitlines()) == 24
            assert max(map(cell_len, shown.splitlines())) <= 80

    run(test)


def test_the_status_says_in_words_what_the_session_waits_for() -> None:
    info = attrs.evolve(stopped_info("bob"), waiting_for="person")

    status = "".join(cell.text for cell in status_cells(info, connection=None))
    assert "  waits for your answer" in status
