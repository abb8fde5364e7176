"""`top` in a real terminal, with a real daemon."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.cli_runner import Caller
from tests.support.tmux import PATIENCE_SECONDS, Pane, StartDaemon, in_tmux, needs_tmux

pytestmark = needs_tmux


def see_no_more(pane: Pane, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text in (shown := pane.text()):
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)


def test_a_question_is_answered_and_a_session_opened_and_left(
    call: Caller, start_daemon: StartDaemon
) -> None:
    start_daemon()
    call("new", "scripted", "--name", "bob")
    call("send", "bob", "ask rm\nsay thanks")
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "top") as pane:
        pane.see("waiting for you  1")
        pane.see("> bob")
        pane.press("i")
        pane.see("y allow once")
        pane.press("y")
        pane.see("answered: allow once")
        pane.press("Escape")
        # Escape and a key at once are another key.
        see_no_more(pane, "answered: allow once  down")
        pane.see("finished since you looked  1")
        pane.press("Enter")
        pane.see(">\n[send] Enter starts a turn · Esc back")
        assert "thanks" in pane.text()
        pane.press("Escape")
        pane.see("x interrupt")
        pane.resize(60, 20)
        pane.see("> bob")
        pane.press("q")
        shown = pane.see("exit 0")

    assert "Traceback" not in shown


def test_top_outlives_a_daemon_that_is_killed(call: Caller, start_daemon: StartDaemon) -> None:
    process = start_daemon()
    for name in ("ann", "bob"):
        call("new", "echo", "--name", name)
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "top", columns=140, lines=40) as pane:
        pane.see("> bob")  # the newest
        pane.press("Down")
        pane.see("> ann")
        process.kill()
        process.wait()
        pane.see("daemon gone")
        start_daemon()
        see_no_more(pane, "daemon gone")
        pane.see("> ann")
        pane.press("m")
        pane.see("to ann:")
        pane.type("hello")
        pane.press("Enter")
        pane.see("ann: started")


def test_colours_are_left_out_on_request(
    call: Caller, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    start_daemon()
    call("new", "echo", "--name", "bob")
    with in_tmux(os.environ["XDG_RUNTIME_DIR"], "top", columns=60, lines=20) as pane:
        pane.see("> bob")

        coloured = pane.run("capture-pane", "-p", "-e")

    assert not any(f"\x1b[{code}m" in coloured for code in range(31, 37))
