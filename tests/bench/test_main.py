from functools import partial
from pathlib import Path

import pytest
import trio

from tests.bench import ask, durable, reading, start, tell
from tests.bench.__main__ import ROWS, exit_code, main
from tests.bench._measure import Figure
from tests.bench._row import Row, at_least
from tests.bench._table import Result


def a_result(ratio: float) -> Result:
    row = Row(name="a", against="b", ours=float, peer=float, unit="x", reach=at_least(2))
    return Result(row, Figure(ratio=ratio, low=ratio, high=ratio, ours=ratio, peer=1.0, pairs=1))


def test_every_row_has_a_title_of_its_own() -> None:
    titles = [row.title for row in ROWS]

    assert len(set(titles)) == len(titles)


def test_the_list_names_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0

    listed = capsys.readouterr().out
    assert all(row.title in listed for row in ROWS)


def test_a_name_that_matches_no_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "nonsense"])

    assert "no row matches nonsense" in capsys.readouterr().err


def test_no_pairs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--pairs", "0"])

    assert "ask for 1 or more" in capsys.readouterr().err


def test_strict_fails_for_a_figure_that_was_missed_or_not_measured() -> None:
    reached, missed = a_result(2.0), a_result(1.9)

    assert exit_code([reached]) == 0
    assert exit_code([reached, missed]) == 1
    assert exit_code([Result(reached.row, None, "the peer is not installed")]) == 1


def test_our_side_of_the_rows_still_runs() -> None:
    assert tell.ours() > 0
    assert ask.ours(1)() > 0
    assert ask.ours(ask.MANY)() > 0
    assert start.ours(10) > 0
    trio.run(start.start_and_leave, 10)
    trio.run(start.start_and_stop_one_by_one, 10)


def test_our_side_of_the_rows_on_files_still_runs(tmp_path: Path) -> None:
    trio.run(partial(reading.fill, tmp_path / "state.db", count=20, running=2))
    trio.run(partial(reading.fill_one, tmp_path / "one.db", records=5))

    assert len(durable.records_of_a_turn()) == 6
    assert (tmp_path / "state.db").stat().st_size > 0
