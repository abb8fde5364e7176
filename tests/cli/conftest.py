"""A home of its own for every test, and a file with sessions in it."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

import supervisor
from supervisor.cli import daemon_start
from supervisor.core import validation
from tests.support.cli_runner import Caller

HOSTILE = "\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07\u202eevil\x9b2J"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing of the machine's own configuration, and nothing left in it."""
    for name in [name for name in os.environ if name.startswith(("UNDERSTUDY_", "XDG_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(folder / "nowhere"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(folder)
    # Short, for the path of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="cli-") as running:
        monkeypatch.setenv("XDG_RUNTIME_DIR", running)
        yield folder


@pytest.fixture(autouse=True)
def no_daemon_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to start a daemon from this process, because no test would end it."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a test would start a daemon: give --no-start")

    monkeypatch.setattr(daemon_start, "start_daemon", refuse)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(monkeypatch, capsys)


@attrs.frozen
class Kept:
    """A file, and the ids of the sessions in it."""

    path: Path
    anna: str
    parent: str
    child: str
    over: str


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Three sessions that rest, of which one is below another, and one that is stopped."""
    path = tmp_path / "state.db"

    async def fill() -> Kept:
        async with supervisor.open(path) as sup:
            anna = await sup.create("echo", name="anna", key="echo:mail:anna", tags=["post"])
            await anna.prompt(f"roses {HOSTILE}")
            parent = await sup.create("scripted", name="parent")
            await parent.prompt("say hello\ntool bash 0\nthink deep")
            child = await parent.spawn("echo", "water", name="child")
            await child.wait()
            over = await sup.create("echo", name="over")
            await over.prompt("tulips")
            await over.stop()
            return Kept(path, anna.id, parent.id, child.id, over.id)

    return trio.run(fill)


@pytest.fixture
def names_of_old_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept every character in names, as version 0.1.0 did: stores still have such names."""
    monkeypatch.setattr(validation, "_control_in", lambda _: None)
    monkeypatch.setattr(validation, "_mistakable", lambda _: None)
