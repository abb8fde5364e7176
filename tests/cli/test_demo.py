"""The demo, as a whole: in a pipe, for programs, and on a terminal that somebody leaves."""

import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from supervisor.drivers.process.marker import VARIABLE
from tests.cli.calling import in_a_process, on_a_terminal

WORDS = ("spawn", "queue", "steer", "interrupt", "stall", "crash", "recovery")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that is to be as empty as before."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def processes_in(folder: Path) -> list[int]:
    """Those of the demo: whatever it starts has this folder in its environment, or its mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in environ and VARIABLE.encode() not in os.environb:
                found.append(int(entry.name))
    return found


def test_it_says_what_happens_in_its_order_and_proves_that_nothing_was_lost(
    temporary: Path,
) -> None:
    """Real processes, and a real kill -9; it takes some seconds."""
    done = in_a_process("demo", "--json")
    said = [orjson.loads(line) for line in done.out.splitlines()]

    assert done.code == 0
    assert done.err == ""
    told = [one["word"] for one in said if "scene" not in one]
    assert list(dict.fromkeys(told)) == [*WORDS, "done"]
    (refused,) = [one for one in said if one.get("limit")]
    assert (refused["limit"], refused["used"], refused["allowed"]) == ("max_children", 3, 3)
    end = said[-1]
    assert end["ok"]
    assert end["lost"] == 0
    assert end["acknowledged"] == end["found"] >= 40
    assert end["seconds"] < 30
    assert processes_in(temporary) == []


def test_whoever_leaves_early_leaves_nothing_behind(temporary: Path) -> None:
    """On a real terminal, where the tree is live."""
    with on_a_terminal("demo") as terminal:
        terminal.see("understudy")
        terminal.see("lights")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "Traceback" not in terminal.seen
    assert "╭─" in terminal.seen
    assert processes_in(temporary) == []


def test_a_terminal_that_cannot_move_gets_lines() -> None:
    with on_a_terminal("demo", TERM="dumb") as terminal:
        terminal.see("1/7 spawn")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "\x1b" not in terminal.seen
