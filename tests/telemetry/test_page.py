"""The page about metrics names every metric."""

import re
from pathlib import Path

from supervisor.telemetry import Metrics, MetricsSnapshot

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "prometheus.md"


def named() -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))


def figures() -> set[str]:
    text = Metrics(MetricsSnapshot).render().decode()
    names = (line.split()[2] for line in text.splitlines() if line.startswith("# TYPE"))
    return {name.removeprefix("understudy_") for name in names if name.startswith("understudy_")}


def test_every_metric_is_on_the_page() -> None:
    assert sorted(figures() - named()) == []


def test_the_page_names_only_existing_metrics() -> None:
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)

    on_the_page = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert sorted(on_the_page - figures()) == []
