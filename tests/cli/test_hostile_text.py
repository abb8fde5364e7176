"""Text with terminal control sequences, in every command that prints it."""

import io
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from rich.console import Console

import supervisor
from supervisor.cli import async_runner, main, target
from supervisor.cli.demo.live_output import LiveOutput
from tests.support.cli_runner import Called, Caller, Tty

pytestmark = pytest.mark.usefixtures("names_of_old_stores")

Show: TypeAlias = Callable[..., Called]

# A colour, a clipboard, a title, a bell, a cleared screen (in one byte), and writing that turns.
EVIL = "\x1b[41mA\x1b]52;c;aGk=\x07B\x1b]0;owned\x1b\\C\x9b2JD\u202eE\x08F\rG"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OUR_COLOURS = re.compile(r"\x1b\[(?:[012]|3[1-6])m")


@supervisor.agent("evil")
async def evil(turn: supervisor.Turn) -> str:
    await turn.say(f"said {EVIL}")
    await turn.think(f"thought {EVIL}")
    async with turn.tool(f"tool {EVIL}", {f"key {EVIL}": EVIL}):
        pass
    await turn.spawn("echo", f"child {EVIL}", name=f"child {turn.id} {EVIL}")
    if "ask" in turn.text:
        await turn.ask(f"question {EVIL}", tool=f"asked {EVIL}", input={"command": EVIL})
    raise ValueError(f"error {EVIL}")


async def prepare(sup: supervisor.Supervisor) -> supervisor.Session:
    """Create a session with hostile text in every field and a failed turn."""
    session = await sup.create(
        "evil",
        name=f"name {EVIL}",
        title=f"title {EVIL}",
        tags=[f"tag {EVIL}"],
        custom={"why": f"custom {EVIL}"},
        key=f"evil:mail:anna {EVIL}",
    )
    await session.prompt(f"go {EVIL}")
    return session


async def until_it_asks(session: supervisor.Session) -> None:
    """Ask, and have two more inputs wait."""
    for text in (f"ask {EVIL}", f"first {EVIL}", f"second {EVIL}"):
        await session.send(text)
    async with session.watch() as feed:
        async for item in feed:
            if isinstance(item, supervisor.Record) and item.kind == "permission_asked":
                return


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store file with that session."""
    file = tmp_path / "state.db"

    async def fill() -> None:
        async with supervisor.open(file, agents=[evil]) as sup:
            await prepare(sup)

    trio.run(fill)
    return file


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connected(_: str) -> AsyncIterator[supervisor.Supervisor]:
        settings = supervisor.Settings(exit_seconds=0.0)
        async with supervisor.open(agents=[evil], settings=settings) as sup:
            await until_it_asks(await prepare(sup))
            yield sup

    monkeypatch.setattr(target, "_connected", connected)
    monkeypatch.setattr(async_runner, "run_blocking", async_runner.run_async)  # it needs trio


@pytest.fixture(params=["pipe", "terminal"])
def show(request: pytest.FixtureRequest, call: Caller, monkeypatch: pytest.MonkeyPatch) -> Show:
    """Call a command; in a pipe, and as if on a terminal with colours."""

    def on_a_terminal(*arguments: object) -> Called:
        out, err = Tty(), Tty()
        with monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = main([str(one) for one in arguments])
        return Called(code, out.getvalue(), err.getvalue())

    return call if request.param == "pipe" else on_a_terminal


def assert_harmless(done: Called) -> None:
    for text in (done.out, done.err):
        assert OBEYED.findall(OUR_COLOURS.sub("", text)) == []


LOOKING = [
    ["ps", "--all"],
    ["tree"],
    ["show", "name"],
    ["show", "name", "--transcript"],
    ["log", "name"],
    ["log", "name", "--records"],
    ["search", "said"],
    ["replay", "name", "--at", "5"],
    ["repair", "name"],
]
LIVE = [
    ["ps"],
    ["tree"],
    ["top"],
    ["inbox"],
    ["why", "name"],
    ["inputs", "name"],
    ["send", "name", EVIL],
    ["steer", "name", EVIL],
    ["interrupt", "name", "--reason", EVIL],
    ["stop", "name"],
    ["fork", "name"],
    ["answer", EVIL, "allow_once"],
    ["new", EVIL],
    ["spawn", "name", EVIL, EVIL],
]
ANYWHERE = [
    [EVIL],
    ["ps", EVIL],
    ["show", EVIL],
    ["run", "--agent", EVIL, "x"],
    ["import", EVIL, "--state", "x.db"],
    ["ps", "--state", EVIL],
    ["ps", "--config", EVIL],
    ["config", "--config", EVIL],
    ["config", "check", EVIL],
    ["config", "get", EVIL],
    ["restore", EVIL],
    ["completion", EVIL],
    ["cleanup", "--older-than", EVIL],
]


def called_by_name(arguments: list[str]) -> list[str]:
    """With the session's own name, which is evil, where `name` stands."""
    return [f"name {EVIL}" if one == "name" else one for one in arguments]


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_hostile_text_in_a_file_is_made_safe(arguments: list[str], show: Show, path: Path) -> None:
    done = show(*called_by_name(arguments), "--state", path)

    assert done.code == 0
    assert done.out
    assert_harmless(done)


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("arguments", LIVE, ids=lambda words: ascii(" ".join(words))[:20])
def test_hostile_text_of_live_sessions_is_made_safe(arguments: list[str], show: Show) -> None:
    done = show(*called_by_name(arguments))

    assert done.out or done.err
    assert_harmless(done)


@pytest.mark.parametrize("arguments", ANYWHERE, ids=lambda words: ascii(" ".join(words))[:20])
def test_hostile_arguments_are_made_safe_in_errors(arguments: list[str], show: Show) -> None:
    done = show(*arguments)

    assert done.code != 0
    assert_harmless(done)


@pytest.mark.usefixtures("daemon")
def test_a_permission_prompt_shows_the_tool_input(call: Caller) -> None:
    shown = call("inbox").out

    assert '{"command":"' in shown
    assert r"\u001b[41mA" in shown
    assert "allow_once, allow_always, reject_once, reject_always" in shown


async def test_the_live_screen_of_the_demo_is_made_safe() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    async with supervisor.open(agents=[evil]) as sup:
        session = await prepare(sup)
        roots = await sup.tree()
        output = LiveOutput(console)
        output.tell("spawn", EVIL)
        with output.shown():
            output.show(roots, {session.id: EVIL}, EVIL)

    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert "ABCDEF G" in drawn
    assert OBEYED.findall(drawn) == []
