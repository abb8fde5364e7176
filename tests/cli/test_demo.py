"""The demo, as a whole: in a pipe, for programs, and on a terminal that somebody leaves."""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from supervisor.cli.demo.live import LiveStage
from supervisor.cli.demo.stage import PlainStage
from supervisor.cli.terminal.screen import Screen
from supervisor.drivers.process.leftovers.marker import VARIABLE
from tests.cli.calling import in_a_process, on_a_terminal
from tests.cli.test_screen import Tty

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


def test_what_is_drawn_leaves_room_for_the_sign_of_whoever_presses_ctrl_c() -> None:
    """Terminals show ^C where the cursor is; in a full line it would go to the next."""
    console = Console(file=io.StringIO(), width=60, height=20, force_terminal=True)
    stage = LiveStage(console)
    with stage.lit():
        stage.scene(1, 7, "spawn", "Sessions stand in a tree.")
        stage.show((), {}, "Nobody.")

    assert isinstance(console.file, io.StringIO)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    drawn = [line for line in re.split("[\r\n]+", plain) if line.startswith(("╭", "│", "╰"))]
    assert drawn
    assert max(map(len, drawn)) <= 60 - len("^C") - 1


def test_a_narrow_terminal_gets_whole_words() -> None:
    out = Tty()
    stage = PlainStage(Screen(out=out, err=out, environ={"TERM": "dumb"}))
    told = "the curtain is refused because three of the three places are taken by others, as it is"
    stage.tell("spawn", told)

    lines = out.getvalue().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert " ".join(line[20:] for line in lines) == told


def test_a_terminal_that_cannot_move_gets_lines() -> None:
    with on_a_terminal("demo", TERM="dumb") as terminal:
        terminal.see("1/7 spawn")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "\x1b" not in terminal.seen
