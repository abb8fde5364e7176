"""`attach` and `chat` in a real terminal."""

from __future__ import annotations

import os

from tests.support.cli_runner import Caller, on_a_terminal
from tests.support.tmux import StartDaemon, in_tmux, needs_tmux

pytestmark = needs_tmux


def test_attach_pastes_interrupts_resizes_and_leaves(
    call: Caller, start_daemon: StartDaemon
) -> None:
    start_daemon()
    call("new", "scripted", "--name", "bob")
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "attach", "bob") as pane:
        pane.see("bob  idle")
        pane.paste("say begun\nsleep 60")
        pane.press("Enter")
        pane.see("begun")
        pane.resize(60, 16)
        pane.see("Enter queues it at place 1")
        pane.press("C-c")
        pane.see("Ctrl-C again leaves")
        pane.see("── interrupted")
        pane.press("C-c")
        shown = pane.see("exit 0")

    assert "`understudy attach bob` comes back" in shown
    assert "Traceback" not in shown


def test_attach_outlives_a_daemon_that_is_killed(call: Caller, start_daemon: StartDaemon) -> None:
    process = start_daemon()
    call("new", "scripted", "--name", "bob")
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "attach", "bob") as pane:
        pane.see("bob  idle")
        process.kill()
        process.wait()
        pane.see("trying again")
        start_daemon()
        pane.see("connected again")
        pane.type("say here")
        pane.press("Enter")
        pane.see("completed")


def test_chat_is_the_same_screen_without_a_daemon() -> None:
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "chat", "--agent", "scripted") as pane:
        pane.see("Chatting with scripted")
        pane.type("ask rm")
        pane.press("Enter")
        pane.see("y allow once")
        pane.type("/interrupt say instead")
        pane.press("Enter")
        pane.see("instead\n── completed")
        pane.type("/quit")
        pane.press("Enter")
        pane.see("exit 0")


def test_what_is_typed_while_a_screen_starts_is_in_its_input() -> None:
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "chat", "--agent", "scripted") as pane:
        for piece in ("say earl", "x", "y words"):
            pane.type(piece)
            if piece == "x":
                pane.press("BSpace")
        pane.press("Enter")
        pane.see("typed while the screen opened; Enter sends it")
        pane.see("> say early words")
        pane.press("Enter")
        pane.see("early words\n── completed")
        pane.press("C-d")
        shown = pane.see("exit 0")
        pane.type("echoed")
        pane.see("echoed")

    assert "Traceback" not in shown


def test_attach_without_a_terminal_says_what_to_do(call: Caller) -> None:
    assert "`understudy watch bob` prints a session" in call("attach", "bob").err
    assert call("attach", "bob").code == 2
    assert '"code":"no_daemon"' in call("attach", "bob", "--json").err
    with on_a_terminal("attach", "bob", "--no-start") as terminal:
        assert terminal.end() == 5
    assert "no daemon" in terminal.seen
