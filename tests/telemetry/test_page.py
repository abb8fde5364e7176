"""The page about figures names every figure that there is."""

import re
from pathlib import Path

from supervisor.telemetry import Metrics, Picture

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "prometheus.md"


def named() -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))


def figures() -> set[str]:
    text = Metrics(Picture).render().decode()
    names = (line.split()[2] for line in text.splitlines() if line.startswith("# TYPE"))
    return {name.removeprefix("understudy_") for name in names if name.startswith("understudy_")}


def test_every_figure_is_on_the_page() -> None:
    assert sorted(figures() - named()) == []


def test_the_page_names_no_figure_that_is_not() -> None:
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)

    on_the_page = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert sorted(on_the_page - figures()) == []
