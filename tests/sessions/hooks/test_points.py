"""The table of points, and the page that shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from supervisor.sessions.hooks import POINTS, BlockingPoint, ObservedPoint, Point
from tests.support.hook_calls import DATA

PAGE = Path(__file__).parents[3] / "docs/how-to/hooks.md"
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|(?: ([^|]+) \|)?$", re.MULTILINE)
FIELD = re.compile(r"`(\w+)`")


def test_every_name_has_its_row_and_every_row_a_name() -> None:
    assert set(POINTS) == {*get_args(BlockingPoint), *get_args(ObservedPoint)}


@pytest.mark.parametrize("point", POINTS.values(), ids=[*POINTS])
def test_every_point_is_blocking_or_observed_as_named(point: Point) -> None:
    names = get_args(BlockingPoint if point.kind == "blocking" else ObservedPoint)

    assert point.name in names


@pytest.mark.parametrize("point", POINTS.values(), ids=[*POINTS])
def test_every_point_documents_its_event_fields(point: Point) -> None:
    assert point.description
    assert all(point.fields.values())


@pytest.mark.parametrize("point", POINTS.values(), ids=[*POINTS])
def test_only_event_fields_of_blocking_points_can_be_changed(point: Point) -> None:
    assert point.may_change.keys() <= point.fields.keys()
    assert point.kind == "blocking" or not point.may_change


@pytest.mark.parametrize("name", [*DATA])
def test_these_tests_ask_with_the_fields_of_the_point(name: BlockingPoint) -> None:
    assert DATA[name].keys() == POINTS[name].fields.keys()


def test_the_page_lists_every_point_with_its_fields() -> None:
    listed = {
        name: (set(FIELD.findall(fields)), set(FIELD.findall(changes)))
        for name, fields, changes in ROW.findall(PAGE.read_text())
    }

    assert listed == {
        point.name: (set(point.fields), set(point.may_change)) for point in POINTS.values()
    }
