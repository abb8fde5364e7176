"""Formatting and parsing of times and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.text_format import (
    format_age,
    format_duration,
    format_size,
    format_time,
    format_timestamp,
    parse_duration,
    parse_size,
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
    assert format_duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (12.4, "12 s"), (59.9, "1 min"), (300, "5 min"), (7300, "2 h"), (1e6, "11 d")],
)
def test_an_age_has_one_unit(seconds: float, said: str) -> None:
    assert format_age(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (1023, "1023 B"), (4300, "4.2 KiB"), (2**42, "4.0 TiB")]
)
def test_a_size_has_the_unit_that_fits(count: int, said: str) -> None:
    assert format_size(count) == said


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
def test_a_duration_is_parsed(text: str, seconds: float | None) -> None:
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
def test_a_size_is_parsed(text: str, count: int | None) -> None:
    assert parse_size(text) == count


@given(st.floats())
def test_any_timestamp_can_be_formatted(at: float) -> None:
    assert format_timestamp(at)
    assert format_time(at)
