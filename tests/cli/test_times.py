"""Times and sizes as people say them, and as they write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.terminal.times import (
    ago,
    clock,
    duration,
    parse_duration,
    parse_size,
    size,
    stamp,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 ms"),
        (0.0341, "34 ms"),
        (0.9999, "1.0 s"),
        (2.34, "2.3 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (250, "4 min 10 s"),
        (3600, "1 h"),
        (90000, "1 d 1 h"),
    ],
)
def test_a_duration_has_two_or_three_digits(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (12.4, "12 s"), (59.9, "1 min"), (300, "5 min"), (7300, "2 h"), (1e6, "11 d")],
)
def test_how_long_something_is_past_has_one_unit(seconds: float, said: str) -> None:
    assert ago(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (1023, "1023 B"), (4300, "4.2 KiB"), (2**42, "4.0 TiB")]
)
def test_a_size_has_the_unit_that_fits(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("45s", 45.0),
        ("1.5 h", 5400.0),
        ("10m", 600.0),
        ("30d", 2592000.0),
        ("2w", 1209600.0),
        ("soon", None),
        ("-1", None),
        ("5y", None),
        ("", None),
        ("9" * 40, None),
    ],
)
def test_a_duration_is_read_as_it_is_written(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("500k", 512000),
        ("20MB", 20971520),
        ("1.5GiB", 1610612736),
        ("much", None),
        ("9" * 40, None),
    ],
)
def test_a_size_is_read_as_it_is_written(text: str, count: int | None) -> None:
    assert parse_size(text) == count


@given(st.floats())
def test_no_time_is_too_odd_to_be_shown(at: float) -> None:
    assert stamp(at)
    assert clock(at)
