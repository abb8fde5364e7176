"""Results as JSON lines for machines and as a table for people."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence

from attrs import frozen

from tests.bench._measure import Figure
from tests.bench._row import Row

HEADINGS = ("what", "against", "ratio", "quartiles", "reach", "", "ours", "peer", "unit")
DISTRIBUTIONS = ("understudy", "trio", "attrs", "pykka")
LEGEND = (
    "ratio = ours / peer, the median over alternating pairs; beside it their quartiles.\n"
    "reach >= : bigger is better. reach <= : smaller is better. info: nothing to reach.\n"
    "(close): the quartiles lie on both sides of the figure; measure again with more --pairs."
)


@frozen
class Result:
    """A row with its figure, or with the reason why it has none."""

    row: Row
    figure: Figure | None
    obstacle: str | None = None

    @property
    def reached(self) -> bool | None:
        return None if self.figure is None else self.figure.reached(self.row.reach)


def json_line(result: Result) -> str:
    row, figure = result.row, result.figure
    return json.dumps(
        {
            "name": row.name,
            "against": row.against,
            "measured": figure is not None,
            "obstacle": result.obstacle,
            "ratio": figure and figure.ratio,
            "low": figure and figure.low,
            "high": figure and figure.high,
            "spread": "quartiles",
            "better": row.reach and row.reach.better,
            "reach": row.reach and row.reach.figure,
            "reached": result.reached,
            "ours": figure and figure.ours,
            "peer": figure and figure.peer,
            "unit": row.unit,
            "pairs": figure.pairs if figure else 0,
            "collector": row.collector,
            "versions": installed_versions(),
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        }
    )


def installed_versions() -> dict[str, str]:
    return {name: version_of(name) for name in DISTRIBUTIONS}


def version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def table(results: Sequence[Result]) -> str:
    lines = [HEADINGS, *(cells(result) for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    rule = tuple("-" * width for width in widths)
    drawn = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (HEADINGS, rule, *lines[1:])
    ]
    return "\n".join([*drawn, "", LEGEND])


def cells(result: Result) -> tuple[str, ...]:
    row, figure = result.row, result.figure
    reach = "" if row.reach is None else str(row.reach)
    if figure is None:
        why_not = result.obstacle or "not measured"
        return (row.name, row.against, "", "", reach, why_not, "", "", row.unit)
    return (
        row.name,
        row.against,
        f"{figure.ratio:.2f}x",
        f"{figure.low:.2f} - {figure.high:.2f}",
        reach,
        verdict(result),
        f"{figure.ours:,.0f}",
        f"{figure.peer:,.0f}",
        row.unit,
    )


def verdict(result: Result) -> str:
    if result.figure is None or result.reached is None:
        return "info"
    word = "reached" if result.reached else "MISSED"
    return f"{word} (close)" if result.figure.is_close_to(result.row.reach) else word
