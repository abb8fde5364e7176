"""The store page lists exactly the tables and columns of the file."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.store.sqlite import files, reader, schema

PAGE = Path(__file__).parents[2] / "docs/reference/store.md"
SECTION = re.compile(r"^## `(\w+)`\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
COLUMN = re.compile(r"^\| `(\w+)` \| (\w*) ?\| [^|]+ \|$", re.MULTILINE)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A new, empty store file."""
    with closing(files.open_writer(tmp_path / "state.db")) as connection:
        schema.migrate(connection)
        yield connection


def listed() -> dict[str, list[tuple[str, str]]]:
    """Return the tables of the page with the names and types of their columns."""
    return {name: COLUMN.findall(text) for name, text in SECTION.findall(PAGE.read_text())}


def there(made: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    """Return the tables of the file, without those of SQLite itself."""
    tables = made.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
    ).fetchall()
    columns = "SELECT name, type FROM pragma_table_info(?)"
    return {
        name: made.execute(columns, (name,)).fetchall()
        for (name,) in tables
        if not name.startswith("sqlite_")
    }


def test_the_page_lists_every_table_with_its_columns(made: sqlite3.Connection) -> None:
    assert listed() == there(made)


@pytest.mark.parametrize(
    "pragma", ["application_id", "user_version", "journal_mode", "auto_vacuum"]
)
def test_the_page_lists_the_pragmas_of_the_file(made: sqlite3.Connection, pragma: str) -> None:
    (value,) = made.execute(f"PRAGMA {pragma}").fetchone()

    said = f"{value:#x}" if pragma == "application_id" else value
    assert f"| `PRAGMA {pragma}` | `{said}`" in PAGE.read_text()


def test_the_page_says_how_the_file_is_opened(made: sqlite3.Connection) -> None:
    (synchronous,) = made.execute("PRAGMA synchronous").fetchone()
    (pages,) = made.execute("PRAGMA wal_autocheckpoint").fetchone()
    (page_bytes,) = made.execute("PRAGMA page_size").fetchone()

    assert synchronous == 2  # FULL
    assert f"at {pages:,} pages ({pages * page_bytes // 1_000_000} MB)" in PAGE.read_text()
    assert reader.MAX_READERS == 4
