"""`top` in a terminal that Textual simulates, with a daemon that the test plays."""

import asyncio
import re
import time

import attrs
import pytest
from textual import events

from supervisor.cli.screens.top_app import TopApp
from supervisor.client import NoDaemon
from supervisor.core.ids import RequestId, SessionId, TurnId
from supervisor.core.records import Record, RecordKind
from supervisor.core.scopes import ToolCall, TurnScope
from supervisor.core.session_values import LastOutcome, Phase
from supervisor.handles.session_rows import RequestClosed, SessionGone
from supervisor.handles.shapes import Waits, Why
from tests.support.fake_daemon import FakeDaemon, FakeSession
from tests.support.row_builders import (
    asking_row,
    make_request,
    make_row,
    running_row,
    snapshot,
    stopped_info,
)
from tests.support.shown_top import Shown, on_screen

HOSTILE = "\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07\u202eevil [red]x[/red] 日本語 " + "long " * 200


def daemon_with_family() -> FakeDaemon:
    return FakeDaemon(
        snapshot(
            asking_row("asks"),
            running_row("works", children=1),
            running_row("helps", parent=SessionId("s_works"), depth=1),
            make_row("rests"),
            requests=(make_request("rm", "asks"),),
        )
    )


def record(session: str, seq: int, kind: RecordKind, **body: object) -> Record:
    return Record(SessionId(session), seq, 0.0, TurnId("t_works"), kind, body)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (140, 40)])
def test_the_first_screen_says_who_needs_the_user(size: tuple[int, int]) -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("waiting for you  1")
        assert top.lines[0].startswith("understudy  1 waiting  2 running  1 idle")
        assert "bash: May I" in top.text
        assert "> asks" in top.text
        assert top.lines[-1].startswith("? help")
        assert top.lines[-1].endswith("  q quit")
        top.screen.remark("done " * 50)
        await top.until_shown("done done")
        assert top.lines[-1].endswith("…  ? help  q quit")
        assert max(map(len, top.lines)) <= size[0]

    on_screen(daemon_with_family(), story, size)


def test_the_selection_stays_when_its_session_goes_and_the_daemon_restarts() -> None:
    async def story(top: Shown) -> None:
        await top.select("works")
        top.daemon.send_items(SessionGone(SessionId("s_works")))
        await top.until_shown("gone; move to leave")
        assert "> works" in top.text
        top.daemon.go_away()
        await top.until_shown("daemon gone")
        top.daemon.come_back(snapshot(make_row("rests"), running_row("works")))
        await top.until(lambda: "daemon gone" not in top.text)
        await top.until(lambda: bool(re.search("> works +running", top.text)))
        await top.until(lambda: "asks" not in top.text)

    on_screen(daemon_with_family(), story)


def test_a_daemon_that_cannot_be_reached_at_first_ends_the_screen() -> None:
    daemon = daemon_with_family()
    daemon.is_there = False
    app = TopApp(daemon.connect, every=0.02)

    async def run() -> None:
        async with app.run_test() as pilot:
            while app.return_value is None:
                await pilot.pause(0.01)

    asyncio.run(run())
    assert app.return_value is not None
    assert app.return_value.args[0] == "no daemon listens"


def test_only_the_offered_decisions_have_keys_and_the_shown_question_is_answered() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("i")
        await top.until_shown("May I run rm?")
        assert "command: rm --force" in top.text
        assert "y allow once  n reject once" in top.text
        await top.press("a", "d")
        assert top.daemon.asked == []
        await top.press("y")
        await top.until_shown("answered: allow once")
        assert top.daemon.asked == [("answer", "r_rm", "allow_once")]

    on_screen(daemon_with_family(), story)


def test_an_answer_that_lasts_asks_for_a_second_key() -> None:
    request = make_request("rm", "asks", options=("allow_once", "allow_always"))

    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("i")
        await top.until_shown("y allow once  a allow always")
        await top.press("a")
        await top.until_shown("bash: allow always, without asking again?")
        await top.press("n")
        await top.until_shown("not done")
        assert top.daemon.asked == []
        await top.press("a", "y")
        await top.until_shown("answered: allow always")
        assert top.daemon.asked == [("answer", "r_rm", "allow_always")]

    on_screen(FakeDaemon(snapshot(asking_row("asks"), requests=(request,))), story)


def test_a_question_is_answered_by_a_digit_or_a_typed_text() -> None:
    asks: dict[str, object] = {"asks": "question", "options": (), "input": None, "tool": "ask"}
    requests = (
        make_request("one", "asks", question="which one?", choices=("this", "that"), **asks),
        make_request("two", "works", question="what else?", **asks),
    )
    daemon = FakeDaemon(snapshot(asking_row("asks"), asking_row("works"), requests=requests))

    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("i")
        await top.until_shown("1-9 choose  m type an answer")
        assert "2 that" in top.text
        await top.press("y", "3")
        assert top.daemon.asked == []
        await top.press("2")
        await top.until_shown("answered: that")
        assert top.daemon.asked == [("answer_question", "r_one", "that")]
        top.daemon.send_items(RequestClosed(RequestId("r_one"), SessionId("s_asks"), "answered"))
        await top.press("down")
        await top.until_shown("what else?")
        await top.press("m", "n", "o", "enter")
        await top.until(lambda: len(top.daemon.asked) == 2)
        assert top.daemon.asked[1] == ("answer_question", "r_two", "no")

    on_screen(daemon, story)


def test_a_question_answered_elsewhere_is_not_replaced_by_the_next() -> None:
    daemon = FakeDaemon(
        snapshot(
            asking_row("asks"),
            asking_row("works"),
            requests=(make_request("rm", "asks"), make_request("cp", "works")),
        )
    )

    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("i")
        await top.until_shown("command: rm --force")
        top.daemon.send_items(RequestClosed(RequestId("r_rm"), SessionId("s_asks"), "reject_once"))
        await top.until_shown("it waits no longer")
        await top.press("y")
        assert top.daemon.asked == []
        await top.press("down", "y")
        await top.until(lambda: bool(top.daemon.asked))
        assert top.daemon.asked == [("answer", "r_cp", "allow_once")]

    on_screen(daemon, story)


def test_each_scope_says_what_it_hits_before_it_acts() -> None:
    daemon = daemon_with_family()
    daemon.records["s_works"] = [
        record("s_works", 1, "tool_call", call_id="c_1", name="bash", input={}, cancellable=True)
    ]

    async def story(top: Shown) -> None:
        await top.select("works")
        await top.press("x")
        await top.until_shown("Interrupt what of works?")
        assert "1  tool call  bash" in top.text
        assert "4  tree       2 sessions, 2 with a running turn" in top.text
        await top.press("1")
        await top.until_shown("interrupt of the tool call of works: 1 of 1 interrupted")
        await top.press("x")
        await top.until_shown("Interrupt what")
        await top.press("2")
        await top.until(lambda: len(daemon.asked) == 2)
        await top.press("x")
        await top.until_shown("Interrupt what")
        await top.press("4")
        await top.until_shown("Interrupt the tree of works (s_works): 2 sessions")
        await top.press("enter", "n")
        await top.until_shown("not done")

    on_screen(daemon, story)
    assert daemon.asked == [
        ("interrupt", "s_works", ToolCall("c_1")),
        ("interrupt", "s_works", TurnScope("t_works")),
    ]


def test_the_details_of_a_stopped_session_show_no_older_answer() -> None:
    daemon = daemon_with_family()
    person = Waits(
        SessionId("s_asks"), "echo", "waiting-for-you", "person", None, since=0.0, seconds=9.0
    )
    daemon.chains["s_asks"] = Why(SessionId("s_asks"), (person,))

    async def story(top: Shown) -> None:
        await top.until_shown("why     waits for your answer, for")
        now = time.time()
        ended = LastOutcome("interrupted", "cancelled", now, TurnId("t_asks"), 2)
        row = make_row("asks", phase=Phase.STOPPED, badge="stopped", last_outcome=ended)
        daemon.send_items(attrs.evolve(row, last_active_at=now, last_seq=3))
        await top.until_shown("interrupted: cancelled (just now)")
        assert "why " not in top.text
        assert "now ago" not in top.text

    on_screen(daemon, story)


def test_a_stop_names_its_target_and_keeps_it() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("X")
        await top.until_shown("Stop asks (s_asks)? Its turn is interrupted.")
        top.daemon.send_items(make_row("new", badge="hung"), SessionGone(SessionId("s_asks")))
        await top.press("y")
        await top.until_shown("asks has stopped")
        assert top.daemon.asked == [("stop", "s_asks", None)]

    on_screen(daemon_with_family(), story)


def test_text_is_sent_steered_or_discarded() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("m", *"hiq", "backspace", "enter")
        await top.until_shown("asks: queued at place 1")
        await top.select("works")
        await top.press("s", "x", "enter")
        await top.until(lambda: len(top.daemon.asked) == 2)
        await top.press("s", "y", "escape", "end", "s")
        await top.until_shown("has no running turn to steer")
        assert top.daemon.asked == [("send", "s_asks", "hi"), ("steer", "s_works", "x")]

    on_screen(daemon_with_family(), story)


def test_a_text_that_was_not_sent_is_kept_for_the_next_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(*_: object) -> None:
        raise NoDaemon("nobody listens", hint="start one")

    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        with monkeypatch.context() as broken:
            broken.setattr(FakeSession, "send", fails)
            await top.press("m", *"hi", "enter")
            await top.until_shown("nobody listens")
        await top.press("m", "enter")
        await top.until_shown("asks: queued at place 1")
        await top.press("m")
        assert (top.screen.line_input.value, top.daemon.asked) == ("", [("send", "s_asks", "hi")])

    on_screen(daemon_with_family(), story)


def test_a_session_is_seen_when_its_transcript_is_opened_not_when_selected() -> None:
    async def story(top: Shown) -> None:
        await top.select("helps")
        await top.pilot.pause(0.1)
        assert top.daemon.asked == []
        await top.press("t")
        await top.until(lambda: bool(top.daemon.asked))
        assert top.daemon.asked == [("seen", "s_helps", 1)]

    on_screen(daemon_with_family(), story, (140, 40))


def test_a_filter_is_applied_while_typed_and_escape_removes_it() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("slash", *"badge:run")
        await top.until_shown("2 of 4")
        assert "rests" not in top.text
        await top.press("enter")
        await top.select("works")
        await top.press("escape")
        await top.until_shown("rests")
        assert top.screen.model.selected == "s_works"

    on_screen(daemon_with_family(), story)


def test_stopped_sessions_are_listed_on_request_and_after_a_restart() -> None:
    daemon = FakeDaemon(snapshot(make_row("rests")))
    daemon.stopped = [stopped_info("old"), stopped_info("older")]

    async def story(top: Shown) -> None:
        await top.until_shown("> rests")
        await top.press("slash", *"badge:stopped", "enter")
        await top.until_shown("0 of 1  a lists stopped sessions too")
        await top.press("a")
        await top.until_shown("2 of 3")
        await top.select("older")
        daemon.go_away()
        await top.until_shown("daemon gone")
        daemon.come_back(snapshot(make_row("rests")))
        await top.until(lambda: "daemon gone" not in top.text and "2 of 3" in top.text)
        await top.press("r")
        await top.until_shown("older runs again")
        assert daemon.asked == [("resume", "s_older", None)]

    on_screen(daemon, story)


def test_an_act_after_a_filter_hits_the_first_match_at_once() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("slash", *"rests", "enter", "X", "y")
        await top.until_shown("rests has stopped")
        await top.press("escape", "slash", *"nobody", "enter", "X")
        await top.until_shown("select a session first")
        assert top.daemon.asked == [("stop", "s_rests", None)]

    on_screen(daemon_with_family(), story)


def test_what_is_typed_at_once_after_a_key_for_text_is_text() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        for key in ("m", *"bad X"):
            top.pilot.app.post_message(events.Key("space" if key == " " else key, key))
        await top.until(lambda: top.screen.line_input.value == "bad X")
        await top.press("enter")
        await top.until_shown("asks: queued")
        assert top.daemon.asked == [("send", "s_asks", "bad X")]

    on_screen(daemon_with_family(), story)


def test_escape_from_a_filter_returns_to_the_session_that_was_selected() -> None:
    async def story(top: Shown) -> None:
        await top.select("works")
        await top.press("slash", *"rests")
        await top.until_shown("> rests")
        await top.press("escape")
        await top.until_shown("> works")
        assert top.screen.model.selected == "s_works"

    on_screen(daemon_with_family(), story)


def test_trees_fold_and_columns_are_chosen() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("v", "home")
        await top.until_shown("by tree")
        await top.select("helps")
        await top.press("left", "left")
        await top.until_shown("+1 below, running")
        await top.press("c")
        await top.until_shown("Show or hide a column")
        await top.press("1")
        await top.until(lambda: "STATE" not in top.text)

    on_screen(daemon_with_family(), story)


def test_a_selected_group_has_no_transcript() -> None:
    daemon = daemon_with_family()
    daemon.records["s_asks"] = [record("s_asks", 1, "agent_text", text="what asks said")]

    async def story(top: Shown) -> None:
        await top.until_shown("what asks said")
        feed = top.daemon.session_feeds["s_asks"]
        await top.press("z")
        await top.until_shown("> ▸ waiting for you")
        feed.items.put_nowait(record("s_asks", 2, "agent_text", text="said later"))
        await top.until_shown("transcript  select a session")
        await top.pilot.pause(0.1)
        assert "what asks said" not in top.text
        assert "said later" not in top.text

    on_screen(daemon, story, (140, 40))


def test_a_click_selects_and_the_wheel_scrolls() -> None:
    rows = [make_row(f"row{place:02}") for place in range(40)]

    async def story(top: Shown) -> None:
        await top.until_shown("> row00")
        await top.until(lambda: "NAME" in top.lines[1])  # the banner is gone
        await top.pilot.click(top.screen.list, offset=(6, 4))
        await top.until_shown("> row03")
        top.screen.list.scroll_relative(y=5, animate=False)
        await top.until(lambda: "row00" not in top.text)
        assert top.screen.model.selected == "s_row03"
        await top.pilot.resize_terminal(60, 20)
        await top.until_shown("> row03")

    on_screen(FakeDaemon(snapshot(*rows)), story)


def test_an_unnamed_session_is_named_by_its_short_id_and_says_its_title() -> None:
    titles = {"4f9ka11": "mend it", "4f9kb22": "mend it", "4x11": "hi"}
    rows = [make_row(name, title=title, last_text="hi") for name, title in titles.items()]
    daemon = FakeDaemon(snapshot(*(attrs.evolve(row, name=None) for row in rows)))

    async def story(top: Shown) -> None:
        await top.until_shown("> s_4f9ka ")
        await top.until_shown("  s_4f9kb ")
        assert re.search(r"^  s_4x11 +idle .* hi$", top.text, re.MULTILINE)
        assert re.search(r"^  s_4f9kb +idle .* mend it: hi$", top.text, re.MULTILINE)
        await top.press("X")
        await top.until_shown("Stop s_4f9ka11 (mend it)?")
        await top.press("y")
        await top.until_shown("s_4f9ka has stopped")

    on_screen(daemon, story, (100, 24))


def test_every_key_is_on_the_help_page() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("question_mark")
        await top.until_shown("keys of top")
        for what in ("select the line above", "interrupt a tool call", "reject once, always"):
            assert what in top.text
        await top.press("escape")
        await top.until(lambda: "keys of top" not in top.text)

    on_screen(daemon_with_family(), story, (100, 60))


def test_a_long_explanation_keeps_its_indent_on_a_narrow_screen() -> None:
    async def story(top: Shown) -> None:
        await top.until_shown("> asks")
        await top.press("question_mark")
        await top.until_shown("keys of top")
        first = next(line for line in top.lines if "group by need" in line)
        below = top.lines[top.lines.index(first) + 1]
        assert below[: first.index("group by")].strip("│ ") == ""
        assert below[first.index("group by")] != " "

    on_screen(daemon_with_family(), story, (60, 60))


@pytest.mark.parametrize("keys", [(), ("t",), ("i",), ("x",), ("v",)])
def test_hostile_text_is_harmless_on_every_pane(keys: tuple[str, ...]) -> None:
    row = asking_row("h", last_text=HOSTILE, title=HOSTILE, stop_detail=HOSTILE, tags=(HOSTILE,))
    row = attrs.evolve(row, name=HOSTILE, workspace=HOSTILE, agent=HOSTILE)
    request = make_request("h", "h", question=HOSTILE, input={HOSTILE: HOSTILE}, tool=HOSTILE)
    daemon = FakeDaemon(snapshot(row, requests=(request,)))
    daemon.records["s_h"] = [record("s_h", 1, "agent_text", text=HOSTILE)]

    async def story(top: Shown) -> None:
        await top.until_shown("> red evil")
        await top.press(*keys)
        await top.pilot.pause(0.3)
        assert "\x1b" not in top.text
        assert "\u202e" not in top.text
        assert "[red]x[/red]" in top.text

    on_screen(daemon, story)
