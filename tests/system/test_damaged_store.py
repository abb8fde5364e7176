"""A daemon whose store has a damaged page says so in one line, with the way out, and exits."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor.daemon import ExitCode
from tests.support.daemon_in_process import temporary_home
from tests.support.daemon_process import AGENTS, starting

PAGE_BYTES = 4096


async def fill_store(path: str) -> None:
    async with supervisor.open(path) as sup:
        for _ in range(3):
            await (await sup.create("echo")).prompt("hello " * 300)


def zero_first_page_of(table: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)
        ).fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(bytes(PAGE_BYTES))


@pytest.mark.parametrize("table", ["sessions", "records"])
def test_a_damaged_page_ends_the_daemon_with_one_clear_line(table: str) -> None:
    with temporary_home(AGENTS) as home:
        path = Path(home.load().daemon.database)
        path.parent.mkdir(parents=True, exist_ok=True)
        trio.run(fill_store, str(path))
        zero_first_page_of(table, path)

        with starting(home) as daemon:
            code = daemon.wait()
        said = (home.folder / "log").read_text()

    assert code == ExitCode.FAILED
    [line] = [one for one in said.splitlines() if "state.db" in one]
    assert "the store state.db cannot be used: it is damaged" in line
    assert "understudy restore BACKUP" in line
    assert "Traceback" not in said
