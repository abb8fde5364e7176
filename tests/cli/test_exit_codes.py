"""One table: what a user types, and the exit code that the reference page promises."""

import shlex

import pytest

from tests.cli.test_steer_commands import busy, idle, stopped
from tests.support.cli_daemon import Prepare, use_supervisor
from tests.support.cli_runner import Caller

ROWS = [
    # 0 success
    (idle, "send bob hello", 0),
    (idle, "interrupt bob", 0),
    # 1 an error
    (idle, "steer bob softer", 1),
    (idle, "archive bob", 1),
    # 2 wrong usage: blank text
    (idle, "send bob ' '", 2),
    (idle, "steer bob ''", 2),
    (idle, "interrupt bob --reason ' '", 2),
    (idle, "interrupt bob --replace-with ''", 2),
    (idle, "interrupt bob --turn ''", 2),
    (idle, "spawn bob echo ' '", 2),
    (idle, "inputs bob --edit in_x ''", 2),
    (idle, "new echo --name ' '", 2),
    (idle, "search ' '", 2),
    (idle, "run ' '", 2),
    # 2 wrong usage: a filter, a key, a place, a word
    (idle, "ps --badge nonsense", 2),
    (idle, "ps --phase nonsense", 2),
    (idle, "ps --tag ''", 2),
    (idle, "ps --limit 0", 2),
    (idle, "new echo --key x", 2),
    (idle, "inputs bob --move in_x -1", 2),
    (idle, "new echo --name s_1", 2),
    (idle, "new echo --name 'a\nb'", 2),
    (idle, "new echo --role a\x1bb", 2),
    (idle, f"set bob --title {'x' * 1025}", 2),
    (idle, "set bob --tag a\x1bb", 2),
    (idle, "rename bob ''", 2),
    (idle, "rename bob a/b", 2),
    (idle, f"ps --text {'x' * 1025}", 2),
    (idle, "search word --cursor rubbish", 2),
    (idle, "hosts add a/b anna@build", 2),
    (idle, "hosts add build -x", 2),
    (idle, "hosts add build", 2),
    (idle, "hosts add build --tcp 70000 --token-file x", 2),
    (idle, "send bob hello --when-busy nonsense", 2),
    (idle, "nonsense", 2),
    # 3 no such session, agent, request, input, turn or tool call
    (idle, "show unknown", 3),
    (idle, "new unknown", 3),
    (idle, "answer req_nothing allow_once", 3),
    (idle, "inputs bob --cancel in_nothing", 3),
    (idle, "inputs bob --edit in_nothing text", 3),
    (busy, "inputs bob --promote in_nothing", 3),
    (idle, "interrupt bob --turn turn_nothing", 3),
    (busy, "interrupt bob --call call_nothing", 3),
    (stopped, "fork bob --at-turn turn_nothing", 3),
]


@pytest.mark.parametrize(("prepare", "typed", "code"), ROWS, ids=[row[1] for row in ROWS])
def test_each_call_ends_with_its_exit_code(
    prepare: Prepare, typed: str, code: int, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, prepare)

    done = call(*shlex.split(typed))

    assert (done.code, "this is a bug" in done.err) == (code, False), done.err
