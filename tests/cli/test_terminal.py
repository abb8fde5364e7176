"""Commands on pseudo-terminals, with a user who types."""

import re

from tests.cli.conftest import Kept
from tests.support.cli_runner import on_a_terminal

SCRIPTED = ("run", "--agent", "scripted")


def test_a_permission_request_is_prompted_and_answered() -> None:
    with on_a_terminal(*SCRIPTED, "ask rm\nask rm\nask cp") as terminal:
        terminal.see("May I use rm? (rm) [y/n/always/never] ")
        terminal.type("perhaps\n")
        terminal.see("[y/n/always/never] perhaps")
        terminal.type("always\n")
        terminal.see("May I use cp?")
        terminal.type("n\n")

        assert terminal.end() == 0
    assert terminal.seen.count("rm: allowed") == 2  # asked once, for that was for always
    assert "cp: rejected" in terminal.seen


def test_ctrl_c_interrupts_the_turn() -> None:
    with on_a_terminal(*SCRIPTED, "say begun\nsleep 60") as terminal:
        terminal.see("begun")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "The turn was interrupted." in terminal.seen
    assert "begun^C\r\nInterrupting; press Ctrl-C again" in terminal.seen
    assert "Traceback" not in terminal.seen


def test_a_second_ctrl_c_exits_despite_a_hanging_agent() -> None:
    with on_a_terminal(*SCRIPTED, "say begun\nhang") as terminal:
        terminal.see("begun")
        terminal.press_ctrl_c()
        terminal.see("press Ctrl-C again to exit")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "warning" not in terminal.seen


def test_ctrl_c_without_a_turn_exits() -> None:
    with on_a_terminal("chat", TERM="dumb") as terminal:
        terminal.see("> ")
        terminal.press_ctrl_c()

        assert terminal.end() == 130


def test_a_chat_reads_lines_on_a_terminal_without_a_screen() -> None:
    with on_a_terminal("chat", "--agent", "scripted", TERM="dumb") as terminal:
        terminal.see("> ")
        terminal.type("say hello there\n")
        terminal.see("> say hello there\r\nhello there\r\n> ")
        terminal.type("ask rm\n")
        terminal.see("[y/n/always/never] ")
        terminal.type("y\n")
        terminal.see("rm: allowed")
        terminal.type("/quit\n")

        assert terminal.end() == 0


def test_tool_calls_are_printed_and_hostile_text_is_safe() -> None:
    script = "tool bash 0\nsay \x1b]0;owned\x07\x1b[2Jfine\u202e"
    with on_a_terminal(*SCRIPTED, script) as terminal:
        assert terminal.end() == 0

    assert "tool bash" in terminal.seen
    assert "fine" in terminal.seen
    assert "owned" not in terminal.seen
    assert "\x1b[2J" not in terminal.seen
    assert "\u202e" not in terminal.seen


def test_tables_fit_the_terminal_and_have_colours(kept: Kept) -> None:
    with on_a_terminal("ps", "--all", "--state", kept.path, columns=60) as terminal:
        assert terminal.end() == 0

    assert "\x1b[" in terminal.seen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.seen)
    assert max(map(len, plain.splitlines())) <= 60


def test_no_color_and_dumb_terminals_get_no_colours(kept: Kept) -> None:
    shown = ("tree", "--state", kept.path)
    for unwanted in (on_a_terminal(*shown, NO_COLOR="1"), on_a_terminal(*shown, TERM="dumb")):
        with unwanted as terminal:
            assert terminal.end() == 0
        assert "\x1b" not in terminal.seen


def test_help_fits_a_narrow_terminal() -> None:
    with on_a_terminal("--help", columns=45) as terminal:
        assert terminal.end() == 0

    assert max(map(len, terminal.seen.splitlines())) <= 45
