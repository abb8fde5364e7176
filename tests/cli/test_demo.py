"""`understudy demo` in a pipe, as JSON, and on a terminal."""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from supervisor.cli.demo.demo_output import PlainOutput, PromiseResult
from supervisor.cli.demo.live_output import LiveOutput
from supervisor.cli.output import Screen
from supervisor.drivers.process.environment import MARKER_VARIABLE
from tests.support.cli_runner import Tty, in_a_process, on_a_terminal

WORDS = ("spawn", "queue", "steer", "interrupt", "stall", "crash", "recovery")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder for temporary files, and check that it is empty afterwards."""
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
            if os.fsencode(folder) in environ and MARKER_VARIABLE.encode() not in os.environb:
                found.append(int(entry.name))
    return found


def test_the_demo_prints_its_scenes_and_loses_nothing(
    temporary: Path,
) -> None:
    """Real processes, and a real kill -9; it takes some seconds."""
    done = in_a_process("demo", "--json")
    said = [orjson.loads(line) for line in done.out.splitlines()]

    assert done.code == 0
    assert done.err == ""
    told = [one["word"] for one in said if "word" in one and "scene" not in one]
    assert list(dict.fromkeys(told)) == [*WORDS, "done"]
    (refused,) = [one for one in said if one.get("limit")]
    assert (refused["limit"], refused["used"], refused["allowed"]) == ("max_children", 3, 3)
    promises = said[-2]["promises"]
    assert len(promises) == 7
    assert all(one["kept"] and one["figure"] for one in promises)
    end = said[-1]
    assert end["ok"]
    assert end["lost"] == 0
    assert end["acknowledged"] == end["found"] >= 40
    assert end["seconds"] < 30
    assert processes_in(temporary) == []


def test_an_interrupted_demo_leaves_nothing_behind(temporary: Path) -> None:
    """On a real terminal, where the tree is live."""
    with on_a_terminal("demo") as terminal:
        terminal.see("understudy")
        terminal.see("backend")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "Traceback" not in terminal.seen
    assert "╭─" in terminal.seen
    assert processes_in(temporary) == []


def test_the_live_tree_leaves_room_for_the_ctrl_c_mark() -> None:
    """Terminals show ^C where the cursor is; in a full line it would go to the next."""
    console = Console(file=io.StringIO(), width=60, height=20, force_terminal=True)
    output = LiveOutput(console)
    with output.shown():
        output.scene(1, 7, "spawn", "Sessions form a tree.")
        output.show((), {}, "No sessions yet.")

    assert isinstance(console.file, io.StringIO)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    drawn = [line for line in re.split("[\r\n]+", plain) if line.startswith(("╭", "│", "╰"))]
    assert drawn
    assert max(map(len, drawn)) <= 60 - len("^C") - 1


def test_lines_are_wrapped_at_words_on_a_narrow_terminal() -> None:
    out = Tty()
    output = PlainOutput(Screen(out=out, err=out, environ={"TERM": "dumb"}))
    told = "the child is refused because three of the three places are taken by others, as it says"
    output.tell("spawn", told)

    lines = out.getvalue().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert " ".join(line[20:] for line in lines) == told


def test_a_dumb_terminal_gets_lines() -> None:
    with on_a_terminal("demo", TERM="dumb") as terminal:
        terminal.see("1/7 spawn")
        terminal.press_ctrl_c()

        assert terminal.end() == 130
    assert "\x1b" not in terminal.seen


def test_a_broken_promise_is_printed_as_broken() -> None:
    out = Tty()
    output = PlainOutput(Screen(out=out, err=out, environ={"TERM": "dumb"}))
    output.promises([PromiseResult("nothing is lost", "39 of 40 inputs found", kept=False)])

    assert "BROKEN  nothing is lost  39 of 40" in out.getvalue()
